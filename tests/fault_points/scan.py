#!/usr/bin/env python3
"""Finds the fault points of the sources, and writes the list of them.

    scan.py --root DIR --compiled FILE --out FILE.cc

`--compiled` names a file with the sources that CMake compiles with the points
in them, one a line, relative to the root: all that have some must be among
them. `--out` gets the list for tests/fault_points/list.h. tests/tidy uses
points(), too. Standard library only.
"""

import argparse
import dataclasses
import os
import re
import sys

LAYERS = ("format", "io", "server", "client")
HEADER = "format/base/fault_points.h"  # Where the macros are made.

FAULT = "CAIRN_FAULT_POINT"
SOMETIMES = "CAIRN_SOMETIMES"
_MACRO = re.compile(rf"\b({FAULT}|{SOMETIMES})\s*\(")
_NAME = re.compile(r'"([^"\n]*)"\s*\)')


@dataclasses.dataclass(frozen=True)
class Point:
    kind: str  # FAULT or SOMETIMES.
    name: str  # "" if it is no literal.
    at: int    # Where in the text.


def points(text):
    """The points in one source; comments and strings may hold none."""
    found = []
    for match in _MACRO.finditer(text):
        end = _closing(text, match.end())
        name = ""
        for literal in _NAME.finditer(text, match.end(), end):
            if literal.end() == end:
                name = literal[1]
        found.append(Point(match[1], name, match.start()))
    return found


def _closing(text, at):
    """Behind the parenthesis that ends what starts at `at`."""
    depth = 1
    while at < len(text) and depth > 0:
        if text[at] == '"':
            at = text.index('"', at + 1)
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at


def sources(root):
    for layer in LAYERS:
        for where, _, names in os.walk(os.path.join(root, layer)):
            for name in names:
                if name.endswith(".cc"):
                    path = os.path.join(where, name)
                    yield os.path.relpath(path, root)


def read(root):
    """{path: points} of the sources that have some, sorted."""
    found = {}
    for path in sorted(sources(root)):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            of_file = points(file.read())
        if of_file:
            found[path] = of_file
    return found


def render(found):
    def lines(kind):
        rows = sorted((point.name, path) for path, of_file in found.items()
                      for point in of_file if point.kind == kind)
        return "".join(f'    {{"{name}", "{path}"}},\n' for name, path in rows)
    return f"""// Written by tests/fault_points/scan.py.
#include "tests/fault_points/list.h"

namespace cairn {{
namespace {{
constexpr NamedPoint kFaultPoints[] = {{
{lines(FAULT)}}};
constexpr NamedPoint kSometimes[] = {{
{lines(SOMETIMES)}}};
}}  // namespace

std::span<const NamedPoint> AllFaultPoints() {{ return kFaultPoints; }}
std::span<const NamedPoint> AllSometimes() {{ return kSometimes; }}

}}  // namespace cairn
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", required=True)
    parser.add_argument("--compiled", required=True)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    found = read(options.root)
    with open(options.compiled, encoding="utf-8") as file:
        compiled = set(file.read().split())
    missing = sorted(set(found) - compiled)
    if missing:
        sys.exit(f"{', '.join(missing)}: has a fault point now: configure "
                 "again (cmake --preset ...)")
    with open(options.out, "w", encoding="utf-8") as file:
        file.write(render(found))


if __name__ == "__main__":
    main()
