#!/usr/bin/env python3
"""Tests the tests: breaks one safety rule at a time, and asks who notices.

    tests/mutants/run.py [options] [MUTANT ...]

A mutant is tests/mutants/NAME.patch: a small realistic mistake in the product.
For each one the tree (the files that git tracks) is copied to
build/mutants/tree, patched there and built, and sim_campaign runs seeds until
one fails. The working tree is never touched, and the copy changes only where
the tree or a patch did, so that builds are incremental.

A seed counts only if it passes without the patch. Ends with a table, and with
1 if a mutant survived, or could not be applied or built. Standard library only.
"""

import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import time

EXAMPLES = """examples:
  tests/mutants/run.py                          all, as `make mutants` does
  tests/mutants/run.py ack_before_flush -j 8    one of them
  tests/mutants/run.py --list                   what there is
  tests/mutants/run.py --check                  only: do all patches apply?
"""

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
PATCHES = os.path.join(ROOT, "tests", "mutants")
HEADER = re.compile(r"Breaks: (?P<breaks>\S.*)\nLoses: (?P<loses>\S.*)\n\n---")
FAILED = re.compile(r"^seed (\d+) FAILED: (?:VIOLATION: )?(.*)$", re.M)
SEEDS_RUN = re.compile(r"^seeds +(\d+), of which failed", re.M)
WORDS_SHOWN = 90

Mutant = collections.namedtuple("Mutant", "name path breaks loses")
Outcome = collections.namedtuple("Outcome", "name caught seeds seconds words")


class Broken(Exception):
    """A mutant that cannot be applied or built: as bad as one that survives."""


def load_mutants():
    """All mutants by name, in order; exits if a header is missing."""
    mutants = {}
    for file in sorted(os.listdir(PATCHES)):
        name, extension = os.path.splitext(file)
        if extension != ".patch":
            continue
        path = os.path.join(PATCHES, file)
        with open(path, encoding="utf-8") as patch:
            header = HEADER.match(patch.read())
        if not header:
            sys.exit(f"{file}: starts with no lines 'Breaks: ...' and "
                     "'Loses: ...', an empty one, and the diff")
        mutants[name] = Mutant(name, path, header["breaks"], header["loses"])
    return mutants


def git_apply(directory, patch, *flags):
    """Applies `patch` below `directory`, whatever repository that is in."""
    environment = dict(os.environ,
                       GIT_CEILING_DIRECTORIES=os.path.dirname(directory))
    done = subprocess.run(["git", "apply", "-p1", *flags, patch],
                          cwd=directory, env=environment, text=True,
                          stderr=subprocess.PIPE)
    return "" if done.returncode == 0 else done.stderr.strip()


def check(mutants):
    """Whether every patch applies to the working tree."""
    rotten = 0
    for mutant in mutants:
        error = git_apply(ROOT, mutant.path, "--check")
        if error:
            rotten += 1
            print(f"{mutant.name}: does not apply: {error}")
    print(f"{len(mutants)} mutants, {rotten} rotten")
    return 1 if rotten else 0


class Copy:
    """The copy of the tree that is patched and built."""

    def __init__(self, options):
        self.options = options
        self.home = os.path.join(ROOT, "build", "mutants")
        self.tree = os.path.join(self.home, "tree")
        self.logs = os.path.join(self.home, "logs")
        self.binary = os.path.join(self.tree, "build", "release", "tests",
                                   "sim_campaign")
        self.unmutated = os.path.join(self.home, "sim_campaign-unmutated")
        for directory in (self.tree, self.logs):
            os.makedirs(directory, exist_ok=True)

    def sync(self):
        """Makes the copy as the working tree, where it differs."""
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT,
                                check=True, stdout=subprocess.PIPE).stdout
        files = {os.fsdecode(name) for name in listed.split(b"\0") if name}
        for name in files:
            source = os.path.join(ROOT, name)
            if os.path.isfile(source):
                self._copy(source, os.path.join(self.tree, name))
        for directory, folders, names in os.walk(self.tree):
            if directory == self.tree and "build" in folders:
                folders.remove("build")
            for name in names:
                path = os.path.join(directory, name)
                if os.path.relpath(path, self.tree) not in files:
                    os.remove(path)

    @staticmethod
    def _copy(source, target):
        with open(source, "rb") as file:
            wanted = file.read()
        if os.path.exists(target):
            with open(target, "rb") as file:
                if file.read() == wanted:
                    return
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(source, target)

    def build(self, name):
        """Builds sim_campaign; raises Broken."""
        # With ccache, the results of the working tree's builds are found too.
        environment = dict(os.environ, CCACHE_BASEDIR=self.tree,
                           CCACHE_NOHASHDIR="1",
                           CCACHE_SLOPPINESS="pch_defines,time_macros")
        log = os.path.join(self.logs, f"{name}.build.log")
        commands = [self.options.build_command or
                    "cmake --build build/release --target sim_campaign "
                    f"--parallel {self.options.jobs}"]
        if not os.path.exists(os.path.join(self.tree, "build", "release",
                                           "build.ninja")):
            commands.insert(0, "cmake --preset release")
        with open(log, "w", encoding="utf-8") as output:
            for command in commands:
                done = subprocess.run(command, shell=True, cwd=self.tree,
                                      env=environment, stdout=output,
                                      stderr=subprocess.STDOUT)
                if done.returncode != 0:
                    raise Broken(f"does not build: see {log}")

    def run_seeds(self, name, first, seeds):
        """(lowest seed that failed, why, how many ran); None if none did."""
        done = subprocess.run(
            [self.binary, "--first", str(first), "--seeds", str(seeds),
             "--jobs", str(self.options.jobs), "--stop"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace")
        with open(os.path.join(self.logs, f"{name}.log"), "a",
                  encoding="utf-8") as log:
            log.write(done.stdout)
        failures = sorted((int(seed), why)
                          for seed, why in FAILED.findall(done.stdout))
        ran = SEEDS_RUN.search(done.stdout)
        if ran is None or (done.returncode != 0) != bool(failures):
            raise Broken(f"sim_campaign ended with {done.returncode} and "
                         f"without a summary: see {self.logs}/{name}.log")
        seed, why = failures[0] if failures else (None, "")
        return seed, why, int(ran[1])

    def passes_unmutated(self, seed):
        done = subprocess.run([self.unmutated, "--first", str(seed),
                               "--seeds", "1"], stdout=subprocess.DEVNULL)
        return done.returncode == 0


def run_unmutated(copy):
    """Builds the tree as it is, keeps the program, shows that it is green."""
    copy.sync()
    copy.build("unmutated")
    shutil.copy(copy.binary, copy.unmutated)
    seed, why, ran = copy.run_seeds("unmutated", 1, copy.options.green)
    if seed is not None:
        sys.exit(f"without any patch seed {seed} fails: {why}")
    print(f"unmutated: {ran} seeds pass", flush=True)


def hunt(copy, mutant):
    """Runs seeds until one fails that passes without the patch."""
    started = time.monotonic()
    first, ran = 1, 0
    last = copy.options.seeds
    caught, words = None, ""
    while caught is None and first <= last:
        seed, why, count = copy.run_seeds(mutant.name, first, last - first + 1)
        ran += count
        if seed is None:
            break
        if copy.passes_unmutated(seed):
            caught, words = seed, why
        else:
            print(f"(seed {seed} fails without it, too)", end=" ", flush=True)
            first = seed + 1
    return Outcome(mutant.name, caught, ran, time.monotonic() - started, words)


def try_mutant(copy, mutant):
    log = os.path.join(copy.logs, f"{mutant.name}.log")
    if os.path.exists(log):
        os.remove(log)
    try:
        copy.sync()
        error = git_apply(copy.tree, mutant.path)
        if error:
            raise Broken(f"does not apply: {error}")
        copy.build(mutant.name)
        return hunt(copy, mutant)
    except Broken as broken:
        return Outcome(mutant.name, None, 0, 0, f"BROKEN: {broken}")


def shorten(words):
    words = " ".join(words.replace("|", "/").split())
    if len(words) <= WORDS_SHOWN:
        return words
    return words[:WORDS_SHOWN].rsplit(" ", 1)[0] + " ..."


def describe(outcome):
    if outcome.caught is None:
        return outcome.words or "SURVIVED"
    return f"caught at seed {outcome.caught}: {shorten(outcome.words)}"


def print_table(outcomes):
    print("\n| mutant | caught at seed | seeds run | seconds | by |")
    print("|---|---|---|---|---|")
    for outcome in outcomes:
        caught = "-" if outcome.caught is None else outcome.caught
        words = shorten(outcome.words) or "SURVIVED"
        print(f"| {outcome.name} | {caught} | {outcome.seeds} | "
              f"{outcome.seconds:.0f} | {words} |")
    missed = [o.name for o in outcomes if o.caught is None]
    print(f"\n{len(outcomes) - len(missed)} of {len(outcomes)} caught"
          + (f"; not: {' '.join(missed)}" if missed else ""))


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mutants", nargs="*", metavar="MUTANT",
                        help="names of patches; none: all")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count(),
                        help="of build and seeds (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=2000,
                        help="tried with each mutant (default: %(default)s)")
    parser.add_argument("--green", type=int, default=20, metavar="SEEDS",
                        help="run first without a patch (default: %(default)s)")
    parser.add_argument("--build-command", metavar="COMMAND",
                        help="run in the copy instead of cmake --build; makes "
                        "build/release/tests/sim_campaign")
    parser.add_argument("--check", action="store_true",
                        help="only check that each patch has its header and "
                        "applies to the working tree")
    parser.add_argument("--list", action="store_true",
                        help="only print what each mutant breaks and loses")
    return parser.parse_args()


def main():
    options = parse_arguments()
    known = load_mutants()
    unknown = [name for name in options.mutants if name not in known]
    if unknown:
        sys.exit(f"no such mutant: {' '.join(unknown)} (--list names all)")
    mutants = [known[name] for name in options.mutants or known]
    if options.list:
        for mutant in mutants:
            print(f"{mutant.name}\n  breaks: {mutant.breaks}\n"
                  f"  loses:  {mutant.loses}")
        return 0
    if options.check:
        return check(mutants)
    copy = Copy(options)
    run_unmutated(copy)
    outcomes = []
    for number, mutant in enumerate(mutants, 1):
        print(f"[{number}/{len(mutants)}] {mutant.name}:", end=" ", flush=True)
        outcomes.append(try_mutant(copy, mutant))
        print(describe(outcomes[-1]), flush=True)
    copy.sync()
    print_table(outcomes)
    return 0 if all(o.caught is not None for o in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
