"""Rules about fault points (format/base/fault_points.h)."""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "fault_points"))

import scan  # noqa: E402
from source import Finding, layer_of, line_of  # noqa: E402

# Layers that may have points: io/ and below have faults of the simulator's.
LAYERS = ("server", "client")
_NAME = re.compile(r"[a-z]+\.[a-z]+\.[a-z_]+")


def _layer_name(path):
    """What names in this file start with: client, or target, meta..."""
    parts = path.split("/")
    return parts[1] if parts[0] == "server" else parts[0]


def fault_points(tree):
    first = {}
    for path in tree.paths(".h", ".cc"):
        if path == scan.HEADER:
            continue
        for point in scan.points(tree.texts[path]):
            line = line_of(tree.texts[path], point.at)
            message = _breach(path, point, first)
            first.setdefault(point.name, path)
            if message:
                yield Finding(path, line, "fault-point", message)


def _breach(path, point, first):
    if layer_of(path) not in LAYERS or not path.endswith(".cc"):
        return (f"{point.kind} is for .cc files of {', '.join(LAYERS)}: each "
                "is compiled a second time with it")
    start = _layer_name(path) + "."
    if not _NAME.fullmatch(point.name) or not point.name.startswith(start):
        return (f'"{point.name}" is no name of the form '
                f'"{start}part.what_happens"')
    if point.name in first:
        return f"{point.name} is a name in {first[point.name]} already"
    return None
