#!/usr/bin/env python3
"""Checks the rules of the house that no compiler checks.

    tests/tidy/tidy.py [--root DIR] [--compile-commands FILE]

Prints each breach as path:line: [rule] what, and exits with 1 if there is one.
The rules are in rules_layout.py and rules_code.py; the exceptions, with
reasons, in exceptions.py. Standard library only.
"""

import argparse
import fnmatch
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rules_code  # noqa: E402
import rules_fault_points  # noqa: E402
import rules_layout  # noqa: E402
from exceptions import EXCEPTIONS  # noqa: E402
from source import Finding, Tree  # noqa: E402

RULES = (
    rules_layout.layers,
    rules_layout.file_cycles,
    rules_layout.folder_cycles,
    rules_layout.lengths,
    rules_layout.width,
    rules_layout.headers,
    rules_layout.open_work,
    rules_code.banned_calls,
    rules_code.ownership,
    rules_code.lambda_coroutines,
    rules_code.test_names,
    rules_fault_points.fault_points,
)


def without_exceptions(tree, findings, exceptions, checked_rules):
    """Drops what is excepted; adds a finding for each idle exception."""
    used = set()
    kept = []
    for finding in findings:
        matches = [e for e in exceptions if e[1] == finding.rule
                   and fnmatch.fnmatchcase(finding.path, e[0])]
        used.update(matches)
        if not matches:
            kept.append(finding)
    for exception in exceptions:
        pattern, rule, _ = exception
        there = any(fnmatch.fnmatchcase(p, pattern) for p in tree.texts)
        if there and exception not in used and rule in checked_rules:
            kept.append(Finding("tests/tidy/exceptions.py", 1, "exception",
                                f"{pattern} no longer breaks {rule}: drop it"))
    return kept


def all_rules(exceptions, compile_commands):
    rules = {rule for _, rule, _ in exceptions}
    return rules if compile_commands else rules - {"target"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--root", default=os.path.join(here, "..", ".."))
    parser.add_argument("--compile-commands",
                        help="of a configured build; without it, the rule "
                        "that every file has a target is skipped")
    options = parser.parse_args()
    tree = Tree.read(options.root)
    if not tree.texts:
        sys.exit(f"no sources below {options.root}")
    findings = [f for rule in RULES for f in rule(tree)]
    if options.compile_commands:
        findings += rules_layout.targets(tree, options.compile_commands,
                                         options.root)
    findings = without_exceptions(
        tree, findings, EXCEPTIONS,
        all_rules(EXCEPTIONS, options.compile_commands))
    for finding in sorted(findings):
        print(finding)
    print(f"{len(tree.texts)} files, {len(findings)} breaches")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
