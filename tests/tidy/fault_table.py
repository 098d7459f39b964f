#!/usr/bin/env python3
"""Checks that what docs/testing.md names as firing a fault exists.

The table "Faults and where they are fired" names attacks of the campaign and
tests; a renamed or deleted one would leave a claim that nothing backs.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ATTACKS = ROOT / "tests/sim/campaign/attack.cc"
TABLE = ROOT / "docs/testing.md"
ROWS_MIN = 60


def rows():
    text = TABLE.read_text()
    section = text.split("## Faults and where they are fired", 1)[1]
    for line in section.split("\n## ", 1)[0].splitlines():
        if re.match(r"\| [A-Z]\d", line):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def tests_of_the_tree():
    names = set()
    sources = (ROOT / "tests").rglob("*.cc")
    for path in sources:
        text = path.read_text()
        for suite, name in re.findall(
                r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", text, re.M):
            names.add(f"{suite}.{name}")
    return names


def main():
    attacks = set(re.findall(r'{"([a-z-]+)", AttackClass', ATTACKS.read_text()))
    tests = tests_of_the_tree()
    wrong, fired, count = [], set(), 0
    for number, _, attack_cell, test_cell in rows():
        count += 1
        named = set(re.findall(r"`([a-z-]+)`", attack_cell))
        fired |= named
        wrong += [f"{number}: no attack '{a}'" for a in sorted(named - attacks)]
        for test in re.findall(r"\w+\.\w+", test_cell):
            if test not in tests:
                wrong.append(f"{number}: no test {test}")
    wrong += [f"attack '{a}' is in no row" for a in sorted(attacks - fired)]
    if count < ROWS_MIN:
        wrong.append(f"only {count} rows found in {TABLE.name}")
    for line in wrong:
        print(line)
    print(f"{count} rows, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
