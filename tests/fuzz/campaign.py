#!/usr/bin/env python3
"""Runs the fuzz targets for a number of inputs instead of a time, and prints a table.

The inputs are given in portions, each by a process of its own, and what was done is recorded in the
state folder: an interrupted campaign goes on where it was. The corpus grows there, too; a target
also starts from tests/fuzz/corpus.

    cmake --preset fuzz && cmake --build --preset fuzz --target fuzzers
    tests/fuzz/campaign.py --runs 1e8 --state ~/fuzz           # all targets; takes days
    tests/fuzz/campaign.py --runs 1e6 --state ~/fuzz mad packet
    tests/fuzz/campaign.py --table --state ~/fuzz              # only what was done so far

Exit status: 0 if no input failed, 1 if one did (its file is named), 2 for a wrong argument.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PORTION = 1_000_000  # inputs
SECONDS = 600  # a portion ends then, too, so that slow targets record their progress
# A step that takes too much work fails by its cost; the time of an input also passes while the
# machine does something else.
OPTIONS = ["-len_control=0", "-timeout=3600", "-rss_limit_mb=2048", "-print_final_stats=1",
           f"-max_total_time={SECONDS}"]
# Faster, and finds the same: short stacks of allocations, and few freed blocks are kept.
SANITIZER = {"ASAN_OPTIONS": "malloc_context_size=4:quarantine_size_mb=8"}


def all_targets():
    """The targets with their options for libFuzzer, from the list that the build uses."""
    text = (HERE / "CMakeLists.txt").read_text(encoding="utf-8")
    targets = {}
    for name, rest in re.findall(r"ipoib_fuzz\((\w+)\s([^)]*)\)", text):
        size = re.search(r"MAX_LEN\s+(\d+)", rest)
        dictionary = re.search(r"DICTIONARY\s+(\S+)", rest)
        targets[name] = [f"-max_len={size[1] if size else 4096}"]
        if dictionary:
            targets[name].append(f"-dict={HERE / dictionary[1]}")
    return targets


def figures_of(output):
    """What libFuzzer has printed at its end: inputs and edges; None for what is missing."""
    executed = re.search(r"stat::number_of_executed_units:\s*(\d+)", output)
    edges = re.findall(r"\bcov: (\d+)", output)
    return (int(executed[1]) if executed else None), (int(edges[-1]) if edges else None)


class Target:
    """One target's share of the campaign."""

    def __init__(self, name, options):
        self.name = name
        self.program = pathlib.Path(options.build) / "tests" / f"fuzz_{name}"
        self.folder = pathlib.Path(options.state) / name
        self.record = self.folder / "done.json"
        self.corpus = self.folder / "corpus"
        self.corpus.mkdir(parents=True, exist_ok=True)
        self.extra = all_targets()[name]
        self.wanted = options.runs
        self.done, self.seconds, self.edges, self.failure = 0, 0.0, 0, ""
        if self.record.exists():
            state = json.loads(self.record.read_text(encoding="utf-8"))
            self.__dict__.update(state, failure="")  # which may be mended

    def save(self):
        """Records what was done."""
        state = {key: getattr(self, key) for key in ("done", "seconds", "edges", "failure")}
        self.record.write_text(json.dumps(state), encoding="utf-8")

    def run(self):
        """Gives inputs until there were enough, or one has failed."""
        while self.done < self.wanted and not self.failure:
            portion = min(PORTION, self.wanted - self.done)
            command = [self.program, f"-runs={portion}", *OPTIONS, *self.extra,
                       f"-artifact_prefix={self.folder}/", self.corpus, HERE / "corpus" / self.name]
            output, status, seconds = run_measured(command)
            self.seconds += seconds
            executed, edges = figures_of(output)
            self.done += executed or 0
            self.edges = max(self.edges, edges or 0)
            if status != 0 or not executed:
                self.failure = artifact_of(output) or f"exit status {status}"
                (self.folder / "log").write_text(output, encoding="utf-8")
            self.save()
            print(f"{self.name}: {self.done} inputs{'; ' + self.failure if self.failure else ''}",
                  file=sys.stderr, flush=True)
        return self

    def row(self):
        """A row of the table."""
        rate = self.done / self.seconds if self.seconds else 0
        inputs = sum(1 for _ in self.corpus.iterdir())
        return (f"| {self.name} | {self.done:,} | {self.seconds:,.0f} | {rate:,.0f} | {inputs:,} | "
                f"{self.edges:,} | {self.failure or 'none'} |")


def run_measured(command):
    """Returns what the command has printed to standard error, its exit status, and the seconds of
    processor time that it took."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          errors="replace", env=SANITIZER | os.environ) as process:
        output = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return output, process.returncode, usage.ru_utime + usage.ru_stime


def artifact_of(output):
    """The file with the input that has failed."""
    written = re.search(r"Test unit written to (.+)", output)
    return written[1] if written else None


def count(text):
    """A positive number, such as 100000 or 1e5."""
    value = float(text)
    if value < 1 or value != int(value):
        raise ValueError
    return int(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=count, default=count("1e8"), help="inputs for each target")
    parser.add_argument("--state", required=True, help="folder for corpora and what was done")
    parser.add_argument("--build", default=ROOT / "build" / "fuzz", help="build folder")
    parser.add_argument("--jobs", type=count, default=1, help="targets at a time (default 1)")
    parser.add_argument("--table", action="store_true", help="run nothing; only print the table")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="default: all")
    options = parser.parse_args()
    names = options.targets or list(all_targets())
    if unknown := set(names) - set(all_targets()):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    targets = [Target(name, options) for name in names]
    missing = [str(one.program) for one in targets if not os.access(one.program, os.X_OK)]
    if missing and not options.table:
        parser.error(f"not built: {missing[0]}\n  cmake --preset fuzz && "
                     "cmake --build --preset fuzz --target fuzzers")
    if not options.table:
        os.nice(19)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(Target.run, targets))
    print("| target | inputs | processor seconds | inputs per second | corpus | edges | "
          "failed input |\n|---|--:|--:|--:|--:|--:|---|")
    for one in targets:
        print(one.row())
    return 1 if any(one.failure for one in targets) else 0


if __name__ == "__main__":
    sys.exit(main())
