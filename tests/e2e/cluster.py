"""A real cluster for tests: real processes, real TCP, real files.

Programs are found in CAIRN_BIN (the build directory). Every process that is
started here is ended here, by its id.
"""

import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import time

BUILD = pathlib.Path(os.environ.get("CAIRN_BIN", "build/release")).resolve()
CAIRN = BUILD / "client" / "cairn"
CAIRND = BUILD / "server" / "cairnd"


class CommandFailed(Exception):
    def __init__(self, args, code, out, err):
        super().__init__(f"{args} ended with {code}\n{out}\n{err}")
        self.code, self.out, self.err = code, out, err


def run(args, env=None, timeout=120, check=True):
    done = subprocess.run([str(a) for a in args], env=env, timeout=timeout,
                          stdin=subprocess.DEVNULL, capture_output=True)
    out = done.stdout.decode(errors="replace")
    err = done.stderr.decode(errors="replace")
    if check and done.returncode != 0:
        raise CommandFailed(args, done.returncode, out, err)
    return done.returncode, out, err


class Cluster:
    """cairnd in a temporary directory, which goes away with it."""

    def __init__(self, targets=6, scheme="rs:4+2", init=(), serve=()):
        base = os.environ.get("CAIRN_TEST_DIR")
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="cairn-e2e-",
                                                  dir=base))
        self.dir = self.root / "c"
        self.serve = list(serve)
        self.process = None
        self.address = None
        self.log = open(self.root / "cairnd.log", "ab")
        run([CAIRND, "init", "--dir", self.dir, "--targets", targets,
             "--scheme", scheme,
             *(init or ("--capacity", "2G", "--slab-size", "256M"))])

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()
        self.log.close()
        if os.environ.get("CAIRN_KEEP") is None:
            shutil.rmtree(self.root, ignore_errors=True)

    def start(self, *extra):
        """Starts cairnd and waits for its "ready HOST:PORT". A restart keeps
        the port, so that clients find it again."""
        listen = self.address or "127.0.0.1:0"
        self.process = subprocess.Popen(
            [CAIRND, "run", "--dir", self.dir, "--listen", listen,
             *(str(a) for a in (*self.serve, *extra))],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log)
        line = self.process.stdout.readline().decode()
        if not line.startswith("ready "):
            code = self.process.wait()
            self.process = None
            raise CommandFailed(["cairnd", "run"], code, line,
                                self.log_text()[-2000:])
        self.address = line.split()[1]

    def kill(self, sig=signal.SIGKILL):
        if self.process is None:
            return None
        self.process.send_signal(sig)
        code = self.process.wait(timeout=60)
        self.process.stdout.close()
        self.process = None
        return code

    def log_text(self):
        self.log.flush()
        return (self.root / "cairnd.log").read_text(errors="replace")

    def env(self):
        return dict(os.environ, CAIRN_CLUSTER=self.address)

    def cairn(self, *args, **kwargs):
        return run([CAIRN, *args], env=self.env(), **kwargs)[1]

    def fails(self, *args, **kwargs):
        """Runs a command that must fail; returns its exit code and message."""
        code, _, err = run([CAIRN, *args], env=self.env(), check=False,
                           **kwargs)
        assert code != 0, f"{args} succeeded"
        assert code > 0, f"{args} died of signal {-code}"
        return code, err

    def json(self, *args):
        out = self.cairn("--json", *args)
        return [json.loads(line) for line in out.splitlines()]

    def spawn(self, *args):
        return subprocess.Popen([str(a) for a in (CAIRN, *args)],
                                env=self.env(), stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE)

    def slabs(self):
        return sorted(self.dir.glob("target-*/slab-*"))


def write_model(path, tensors, metadata=None):
    """A safetensors file; `tensors`: name -> (dtype, shape, bytes)."""
    header, offset = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header, separators=(",", ":"),
                      ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for _, _, data in tensors.values():
            file.write(data)


def read_model(path):
    raw = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    metadata = header.pop("__metadata__", None)
    data = raw[8 + size:]
    return {name: (e["dtype"], e["shape"],
                   data[e["data_offsets"][0]:e["data_offsets"][1]])
            for name, e in header.items()}, metadata


def random_model(path, seed, rows=512):
    """Odd shapes and types, and a few megabytes of them."""
    rng = random.Random(seed)
    tensors = {
        "layers.0.weight": ("BF16", [rows, 1024],
                            rng.randbytes(rows * 1024 * 2)),
        "layers.0.exp_avg": ("F32", [rows, 512], rng.randbytes(rows * 2048)),
        "embed": ("F32", [3, 7, 1000], rng.randbytes(84000)),
        "scalar": ("F64", [], rng.randbytes(8)),
        "empty": ("F16", [0, 4], b""),
        "step": ("I64", [1], rng.randbytes(8)),
        "bias é\n\"x\"": ("U8", [13], rng.randbytes(13)),
        "fp4": ("F4", [6, 8], rng.randbytes(24)),
        "mask": ("BOOL", [9], bytes(rng.randrange(2) for _ in range(9))),
    }
    write_model(path, tensors, {"format": "pt"})
    return tensors


def wait_until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not in {seconds} s: {what}"
        time.sleep(0.05)
