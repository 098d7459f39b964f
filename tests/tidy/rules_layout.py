"""Rules about files: layers, cycles, lengths, and that each one is built."""

import fnmatch
import json
import os
import re

from source import (FOLDERS, LAYERS, Finding, comments, functions, layer_of,
                    line_of)

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 800
COLUMNS_MAX = 80

# What a layer may include; others (tests, bench) may include all.
MAY_INCLUDE = {
    "format": {"format"},
    "io": {"io", "format"},
    "server": {"server", "io", "format"},
    "client": {"client", "io", "format"},
    "fuse": {"fuse", "client", "io", "format"},
}

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


def _includes(tree, path):
    for match in _INCLUDE.finditer(tree.texts[path]):
        yield line_of(tree.texts[path], match.start()), match[1]


def layers(tree):
    for path in tree.paths(".h", ".cc"):
        allowed = MAY_INCLUDE.get(layer_of(path))
        for line, included in _includes(tree, path):
            layer = layer_of(included)
            if layer not in FOLDERS:
                if "/" not in included:
                    yield Finding(path, line, "layer",
                                  f"{included} is not a path from the top")
            elif allowed and layer not in allowed:
                yield Finding(path, line, "layer",
                              f"{layer_of(path)} must not include {included}")


def _cycle(edges):
    """One cycle of the graph, as a list of nodes, or None."""
    done, active, stack = set(), set(), []

    def visit(node):
        active.add(node)
        stack.append(node)
        for following in sorted(edges.get(node, ())):
            if following in active:
                return stack[stack.index(following):] + [following]
            if following not in done:
                found = visit(following)
                if found:
                    return found
        active.discard(node)
        done.add(stack.pop())
        return None

    for node in sorted(edges):
        if node not in done:
            found = visit(node)
            if found:
                return found
    return None


def file_cycles(tree):
    edges = {path: {i for _, i in _includes(tree, path) if i in tree.texts}
             for path in tree.paths(".h")}
    found = _cycle(edges)
    if found:
        yield Finding(found[0], 1, "cycle", "includes " + " -> ".join(found))


# Sources that join the parts of a layer behind a small header: they may include
# all parts, and are left out of the folders' graph.
JOINTS = ("client/api/*.cc", "io/loop/make_real_env.cc")


def _part(path):
    """The folder of `path`; a limits.h, which all may include, is a part."""
    is_limits = os.path.basename(path) == "limits.h"
    return path if is_limits else os.path.dirname(path)


def folder_cycles(tree):
    """Folders of one layer must be a graph without cycles, too."""
    for layer in LAYERS:
        edges = {}
        for path in tree.paths(".h", ".cc", under=(layer,)):
            if any(fnmatch.fnmatchcase(path, joint) for joint in JOINTS):
                continue
            for _, included in _includes(tree, path):
                other = _part(included)
                if layer_of(included) == layer and other != _part(path):
                    edges.setdefault(_part(path), set()).add(other)
        found = _cycle(edges)
        if found:
            yield Finding(found[0], 1, "cycle",
                          "folders include " + " -> ".join(found))


def lengths(tree):
    for path, text in tree.texts.items():
        lines = text.count("\n")
        if lines > FILE_LINES_MAX:
            yield Finding(path, lines, "file-length",
                          f"{lines} lines; at most {FILE_LINES_MAX}")
        if not path.endswith((".h", ".cc")):
            continue
        code = tree.code(path)
        for first, last in functions(code):
            count = code.count("\n", first, last) + 1
            if count > FUNCTION_LINES_MAX:
                yield Finding(
                    path, line_of(code, first), "function-length",
                    f"{count} lines; at most {FUNCTION_LINES_MAX}")


def width(tree):
    for path in tree.paths(".h", ".cc", ".proto", ".py"):
        for number, line in enumerate(tree.texts[path].split("\n"), 1):
            if len(line) > COLUMNS_MAX and not re.search(
                    r"https?://|^#include", line):
                yield Finding(path, number, "width",
                              f"{len(line)} columns; at most {COLUMNS_MAX}")


def headers(tree):
    for path in tree.paths(".h"):
        text = tree.texts[path]
        if not re.search(r"^#pragma once$", text, re.MULTILINE):
            yield Finding(path, 1, "header", "#pragma once is missing")
        if not text.startswith("// "):
            yield Finding(path, 1, "header",
                          "it must start with a paragraph that says what it "
                          "is, units, threads, lifetime")


_OPEN_WORK = re.compile(r"\b(FIX" r"ME|X" r"XX|TO" r"DO)\b(\(#\d+\))?")


def open_work(tree):
    for path in tree.paths(".h", ".cc", ".proto"):
        for at, comment in comments(tree.texts[path]):
            for match in _OPEN_WORK.finditer(comment):
                if match[1] == "TO" "DO" and match[2]:
                    continue
                yield Finding(
                    path, line_of(tree.texts[path], at + match.start()),
                    "open-work", f"{match[1]}: do it, or file an issue and "
                    "write its number behind it, as in (#12)")


def targets(tree, compile_commands, root):
    """Every .cc is compiled by some target, as CMake itself tells."""
    with open(compile_commands, encoding="utf-8") as file:
        entries = json.load(file)
    real_root = os.path.realpath(root)
    built = set()
    for entry in entries:
        path = os.path.join(entry["directory"], entry["file"])
        built.add(os.path.relpath(os.path.realpath(path), real_root))
    for path in tree.paths(".cc"):
        if path not in built:
            yield Finding(path, 1, "target", "no CMake target compiles it")
