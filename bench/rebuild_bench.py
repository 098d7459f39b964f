#!/usr/bin/env python3
"""How fast lost shards are made again, and what is left for saves meanwhile.

usage: CAIRN_BIN=BUILD_DIR rebuild_bench.py [--dir DIR] [--bytes N] [--rounds N]

Ten targets, each a process, with rs:4+2. First two are lost while nothing else
runs, then two more while saves run one after the other. Both rates are printed
as ratios to the same saves on the healthy cluster in the same run.
"""

import argparse
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests/e2e"))
import cluster  # noqa: E402
import processes  # noqa: E402

MIB = 1 << 20
# Out after 3.5 s of silence: the time until then is in no rate.
QUICK = ("--heartbeat-ms", 100, "--suspect-after-ms", 500, "--down-after-ms",
         1500, "--out-after-ms", 2000, "--trash-grace-ms", 0)


class Bench:
    def __init__(self, args):
        self.args = args
        capacity = max(1 << 30, 2 * args.bytes)
        self.p = processes.Processes(
            10, "rs:4+2", meta=QUICK, root=args.dir, capacity=capacity,
            slab="256M", memory="64M", chunk_size="1M")
        self.model = self.p.root / "model.safetensors"
        cluster.random_model(self.model, seed=1, rows=64 * 1024)
        self.bytes = self.model.stat().st_size
        self.saves = 0

    def save(self):
        """Seconds that a save of the model takes."""
        self.saves += 1
        begin = time.monotonic()
        self.p.cairn("ckpt", "save", self.model, f"/save-{self.saves}")
        return time.monotonic() - begin

    def save_and_remove(self):
        seconds = self.save()
        self.p.cairn("rm", "-r", f"/save-{self.saves}")
        return seconds

    def rate(self, seconds):
        return self.bytes / statistics.median(seconds)

    def lose(self, targets):
        used = {t["id"]: t["used_bytes"]
                for t in self.p.json("status")["targets"]}
        for target in targets:
            self.p.lose(target)
        while not self.working():
            time.sleep(0.05)
        return sum(used[t] for t in targets), time.monotonic()

    def working(self):
        rebuild = self.p.json("status")["rebuild"]
        return rebuild["shards_moving"] + rebuild["shards_waiting"] > 0

    def alone(self, targets):
        bytes_lost, begin = self.lose(targets)
        while self.working():
            time.sleep(0.05)
        return bytes_lost / (time.monotonic() - begin)

    def beside_saves(self, targets):
        bytes_lost, begin = self.lose(targets)
        seconds = []
        while self.working():
            seconds.append(self.save_and_remove())
        return bytes_lost / (time.monotonic() - begin), seconds

    def run(self):
        while self.saves * self.bytes < self.args.bytes:
            self.save()
        healthy = self.rate([self.save_and_remove()
                             for _ in range(self.args.rounds)])
        print(f"healthy: saves at {healthy / MIB:.0f} MiB/s", flush=True)
        alone = self.alone([2, 5])
        print(f"rebuild alone: {alone / MIB:.0f} MiB/s of lost chunks, "
              f"{alone / healthy:.2f} of a healthy save", flush=True)
        beside, seconds = self.beside_saves([1, 9])
        if not seconds:
            print("rebuild beside saves: over before a save was; give more "
                  "--bytes")
            return
        share = self.rate(seconds) / healthy
        print(f"rebuild beside saves: {beside / MIB:.0f} MiB/s of lost chunks, "
              f"{beside / healthy:.2f} of a healthy save; saves had "
              f"{share:.2f} of their healthy rate ({len(seconds)} saves)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", default=None, help="where the targets are")
    parser.add_argument("--bytes", type=int, default=2 << 30,
                        help="payload that is there when targets are lost")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    bench = Bench(args)
    try:
        bench.run()
    finally:
        bench.p.__exit__()


if __name__ == "__main__":
    main()
