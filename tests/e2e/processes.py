"""A cluster of several processes: metadata and targets each in their own."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from cluster import CAIRN, CAIRND, CommandFailed, run


class Process:
    """One cairnd; its log is a file beside its data."""

    def __init__(self, log, *args):
        self.log = pathlib.Path(log)
        self.args = [str(a) for a in (CAIRND, *args)]
        self.address = None
        with open(self.log, "ab") as err:
            self.popen = subprocess.Popen(
                self.args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=err)

    def await_ready(self):
        line = self.popen.stdout.readline().decode()
        if not line.startswith("ready "):
            code = self.popen.wait(timeout=60)
            raise CommandFailed(self.args, code, line, self.log_text()[-2000:])
        self.address = line.split()[1]
        return self

    def log_text(self):
        return self.log.read_text(errors="replace")

    def end(self, sig=signal.SIGKILL):
        if self.popen.poll() is None:
            self.popen.send_signal(sig)
        code = self.popen.wait(timeout=60)
        self.popen.stdout.close()
        return code


class Processes:
    """Metadata, and targets 1 to `targets`, each in a process of its own."""

    def __init__(self, targets=3, scheme="replicate:2", meta=(), root=None,
                 capacity="512M", slab="64M", memory="32M",
                 chunk_size="256K"):
        self.meta_options = list(meta)
        self.capacity, self.slab, self.memory = capacity, slab, memory
        self.root = pathlib.Path(tempfile.mkdtemp(
            prefix="cairn-e2e-", dir=root or os.environ.get("CAIRN_TEST_DIR")))
        self.meta = None
        self.targets = {}
        self.meta_address = "127.0.0.1:0"
        run([CAIRND, "init", "--dir", self.root / "m", "--no-targets"])
        self.start_meta()
        for target in range(1, targets + 1):
            self.format(self.disk(target), host=f"host-{target}")
            self.start(target)
        self.cairn("target", "add", *range(1, targets + 1))
        self.cairn("pool", "create", "default", "--scheme", scheme,
                   "--failure-domain", "host", "--chunk-size", chunk_size)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in (*self.targets.values(), self.meta):
            if process is not None:
                process.end()
        if os.environ.get("CAIRN_KEEP") is None:
            shutil.rmtree(self.root, ignore_errors=True)

    def disk(self, target):
        return self.root / f"disk-{target}"

    def start_meta(self):
        self.meta = Process(self.root / "meta.log", "meta", "--dir",
                            self.root / "m", "--listen", self.meta_address,
                            "--up-after-ms", "500", *self.meta_options)
        self.meta.await_ready()
        self.meta_address = self.meta.address

    def format(self, directory, host="host"):
        return run([CAIRND, "format", "--meta", self.meta_address, "--host",
                    host, "--capacity", self.capacity, "--slab-size",
                    self.slab, directory])[1]

    def spawn(self, name, directory, *more):
        return Process(self.root / f"{name}.log", "target", "--meta",
                       self.meta_address, "--loops", "1", "--memory",
                       self.memory, *more, directory)

    def start(self, target, *more):
        process = self.spawn(f"target-{target}", self.disk(target), "--host",
                             f"host-{target}", *more)
        self.targets[target] = process
        return process.await_ready()

    def env(self):
        return dict(os.environ, CAIRN_CLUSTER=self.meta_address)

    def cairn(self, *args, **kwargs):
        return run([CAIRN, *args], env=self.env(), **kwargs)[1]

    def fails(self, *args):
        code, _, err = run([CAIRN, *args], env=self.env(), check=False)
        assert code > 0, f"{args}: exit {code}"
        return code, err

    def json(self, *args):
        return json.loads(self.cairn("--json", *args).splitlines()[0])

    def spawn_cairn(self, *args):
        return subprocess.Popen(
            [str(a) for a in (CAIRN, *args)], env=self.env(),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE)

    def lose(self, target):
        """Its process dies, and what was on its disk is gone."""
        self.targets[target].end(signal.SIGKILL)
        shutil.rmtree(self.disk(target))

    def await_rebuilt(self, lost, seconds=300):
        """Until no shard is left to be made, and the lost are out."""
        deadline = time.monotonic() + seconds
        while True:
            status = self.json("status")
            states = {t["id"]: t["state"] for t in status["targets"]}
            left = (status["rebuild"]["shards_waiting"]
                    + status["rebuild"]["shards_moving"])
            if left == 0 and all(states[t] == "out" for t in lost):
                return status
            assert time.monotonic() < deadline, status
            time.sleep(0.1)

    def await_healthy(self, seconds=60):
        deadline = time.monotonic() + seconds
        while not (status := self.json("status"))["healthy"]:
            assert time.monotonic() < deadline, status
            time.sleep(0.1)
        return status
