#!/usr/bin/env python3
"""Runs the fuzz targets for a number of inputs instead of a time, and prints a table.

The inputs are given in portions, each by a process of its own. What was done is added to a file of
figures in the tree, so campaigns on several machines add up, and an interrupted one goes on where
it was. The corpus grows in the state folder; a target also starts from tests/fuzz/corpus. When a
target has had its inputs, its corpus is run again by the build with all checks.

    for build in campaign fuzz; do
      cmake --preset $build && cmake --build --preset $build --target fuzzers
    done
    tests/fuzz/campaign.py --runs 1e8 --state ~/fuzz mad packet
    tests/fuzz/campaign.py --runs 1e6 --state ~/fuzz           # all targets
    tests/fuzz/campaign.py --table                             # only what was done so far

Exit status: 0 if no input failed, 1 if one did (its file is named), 2 for a wrong argument.
"""
import argparse
import concurrent.futures
import fcntl
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
# machine does something else. To choose inputs by entropy would halve the rate of a parser.
OPTIONS = ["-len_control=0", "-entropic=0", "-timeout=3600", "-rss_limit_mb=2048",
           "-print_final_stats=1"]
# Faster, and finds the same: short stacks of allocations, and few freed blocks are kept.
SANITIZER = {
    "ASAN_OPTIONS": "malloc_context_size=2:quarantine_size_mb=1:thread_local_quarantine_size_kb=64"}


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
    """What libFuzzer has printed at its end: inputs executed, and those in the corpus and the edges
    that they reach. 0 for what is missing."""
    found = (re.findall(pattern, output) for pattern in (
        r"stat::number_of_executed_units:\s*(\d+)", r"\bcorp: (\d+)", r"\bcov: (\d+)"))
    return [int(values[-1]) if values else 0 for values in found]


class Figures:
    """What was done: for each target its inputs, processor seconds, and at the end of the last
    portion the inputs of its corpus and the edges that they reach."""

    NONE = {"inputs": 0, "seconds": 0.0, "corpus": 0, "edges": 0}

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def of(self, target):
        """The figures of a target."""
        if not self.path.exists():
            return self.NONE
        with open(self.path, encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            return self.NONE | json.loads(file.read() or "{}").get(target, {})

    def add(self, target, inputs, seconds, **last):
        """Adds a portion. Other processes may do so at the same time."""
        with open(self.path, "a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            figures = json.loads(file.read() or "{}")
            old = self.NONE | figures.get(target, {})
            figures[target] = {"inputs": old["inputs"] + inputs,
                               "seconds": round(old["seconds"] + seconds, 1)} | last
            lines = (f"{json.dumps(name)}: {json.dumps(figures[name])}" for name in sorted(figures))
            file.truncate(0)
            file.write("{\n" + ",\n".join(lines) + "\n}\n")

    def row(self, target):
        """A row of the table."""
        own = self.of(target)
        rate = own["inputs"] / own["seconds"] if own["seconds"] else 0
        return (f"| `{target}` | {own['inputs']:,} | {own['seconds']:,.0f} | {rate:,.0f} | "
                f"{own['corpus']:,} | {own['edges']:,} |")


class Target:
    """One target's share of the campaign."""

    def __init__(self, name, figures, options):
        self.name = name
        self.figures = figures
        self.program, self.with_all_checks = (
            pathlib.Path(build) / "tests" / f"fuzz_{name}" for build in (options.build, options.checks))
        self.folder = pathlib.Path(options.state) / name
        self.corpus = self.folder / "corpus"
        self.corpus.mkdir(parents=True, exist_ok=True)
        self.options = [*OPTIONS, *all_targets()[name], f"-artifact_prefix={self.folder}/"]
        self.wanted = options.runs
        self.failure = ""

    def run(self):
        """Gives inputs until there were enough, or one has failed."""
        while not self.failure:
            left = self.wanted - self.figures.of(self.name)["inputs"]
            if left <= 0:
                break
            self.run_portion(min(PORTION, left))
        if not self.failure:
            self.start([self.with_all_checks, "-runs=0", *self.options, self.corpus])
        return self

    def run_portion(self, inputs):
        """Gives so many inputs, and records them."""
        output, seconds = self.start([self.program, f"-runs={inputs}", f"-max_total_time={SECONDS}",
                                      *self.options, self.corpus, HERE / "corpus" / self.name])
        executed, corpus, edges = figures_of(output)
        if not executed and not self.failure:
            self.failure = "no figures"
        self.figures.add(self.name, executed, seconds, corpus=corpus, edges=edges)
        print(f"{self.name}: {self.figures.of(self.name)['inputs']} inputs", file=sys.stderr,
              flush=True)

    def start(self, command):
        """Runs a program; returns its output and processor seconds, and records its failure."""
        output, status, seconds = run_measured(command)
        if status != 0:
            self.failure = artifact_of(output) or f"exit status {status}"
            (self.folder / "log").write_text(output, encoding="utf-8")
            print(f"{self.name}: {self.failure}", file=sys.stderr, flush=True)
        return output, seconds


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
    parser.add_argument("--runs", type=count, default=count("1e8"),
                        help="inputs for each target, with those of earlier campaigns")
    parser.add_argument("--state", help="folder for corpora and logs")
    parser.add_argument("--figures", default=HERE / "campaign.json",
                        help="file of what was done (default tests/fuzz/campaign.json)")
    parser.add_argument("--build", default=ROOT / "build" / "campaign",
                        help="build folder (default build/campaign)")
    parser.add_argument("--checks", default=ROOT / "build" / "fuzz",
                        help="build folder with all checks, for the corpus (default build/fuzz)")
    parser.add_argument("--jobs", type=count, default=1, help="targets at a time (default 1)")
    parser.add_argument("--table", action="store_true", help="run nothing; only print the table")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="default: all")
    options = parser.parse_args()
    names = options.targets or list(all_targets())
    if unknown := set(names) - set(all_targets()):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    figures = Figures(options.figures)
    targets = [] if options.table else start(parser, names, figures, options)
    print("| target | inputs | processor seconds | inputs per second | corpus | edges |\n"
          "|---|--:|--:|--:|--:|--:|")
    for name in names:
        if figures.of(name)["inputs"] or not options.table:
            print(figures.row(name))
    return 1 if any(one.failure for one in targets) else 0


def start(parser, names, figures, options):
    """Runs the targets and returns them."""
    if not options.state:
        parser.error("--state is missing")
    targets = [Target(name, figures, options) for name in names]
    for one in targets:
        for program, preset in ((one.program, "campaign"), (one.with_all_checks, "fuzz")):
            if not os.access(program, os.X_OK):
                parser.error(f"not built: {program}\n  cmake --preset {preset} && "
                             f"cmake --build --preset {preset} --target fuzzers")
    os.nice(19)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        return list(pool.map(Target.run, targets))


if __name__ == "__main__":
    sys.exit(main())
