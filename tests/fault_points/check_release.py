#!/usr/bin/env python3
"""Fault points are in the simulator's objects, and not in what is released.

    check_release.py --root DIR --objects A.o B.o... --release PROGRAM...

Each name of a point must occur in one of the objects, none in a program, and
no program may have the functions behind the macros.
"""

import argparse
import sys

import scan

FUNCTIONS = ("FaultPointFires", "SometimesReached", "SetFaultPoints")


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", required=True)
    parser.add_argument("--objects", nargs="+", required=True)
    parser.add_argument("--release", nargs="+", required=True)
    options = parser.parse_args()
    names = [point.name for of_file in scan.read(options.root).values()
             for point in of_file]
    if not names:
        sys.exit("no fault point found: the check would prove nothing")
    objects = b"".join(map(contents, options.objects))
    wrong = [f"{name} is in no object: it cannot fire" for name in names
             if name.encode() not in objects]
    for program in options.release:
        code = contents(program)
        wrong += [f"{program} contains {name}"
                  for name in (*names, *FUNCTIONS) if name.encode() in code]
    print("\n".join(wrong) or f"{len(names)} names, none released")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
