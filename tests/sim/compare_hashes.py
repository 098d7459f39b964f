#!/usr/bin/env python3
"""Holds the trace hashes of seeds against each other across builds.

A seed must do the same to the last event with every compiler and build type;
otherwise a failure could not be replayed elsewhere. Examples:

  compare_hashes.py --seeds 50 build/release/tests/sim_campaign \\
      build/clang-release/tests/sim_campaign build/debug/tests/sim_campaign

Exit code: 0 all agree; 1 they differ, or a seed failed; 2 usage.
"""
import argparse
import re
import subprocess
import sys


def hashes(program, first, seeds, jobs):
    command = [program, "--first", str(first), "--seeds", str(seeds),
               "--jobs", str(jobs), "--limit-seconds", "600", "--hash"]
    output = subprocess.run(command, capture_output=True, text=True).stdout
    found = dict(re.findall(r"^seed (\d+) hash ([0-9a-f]{16})", output, re.M))
    for seed in range(first, first + seeds):
        found.setdefault(str(seed), "failed")
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("programs", nargs="+")
    options = parser.parse_args()
    if len(options.programs) < 2:
        parser.error("it takes two builds to compare")
    by_program = []
    for program in options.programs:
        print(f"{program}: {options.seeds} seeds ...", flush=True)
        by_program.append(
            hashes(program, options.first, options.seeds, options.jobs))
    differ = 0
    for seed in sorted(by_program[0], key=int):
        seen = [found[seed] for found in by_program]
        if len(set(seen)) == 1 and seen[0] != "failed":
            continue
        differ += 1
        print(f"seed {seed}: " + ", ".join(seen))
    print(f"{options.seeds} seeds in {len(by_program)} builds: "
          f"{options.seeds - differ} agree")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
