#!/usr/bin/env python3
"""Prints a summary of test runs: what failed, what was skipped and why. Exit status 1 if a test failed
or none ran.

Usage: summary.py FOLDER

FOLDER has a JUnit file NAME.xml for each run, and in NAME/ the reports of the GoogleTest programs that
it ran, if any; in again/ the same of those tests that were run again because they had failed.
"""
import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

REASONS = [
    re.compile(r"^skipped: (.+)$", re.M),  # the project's scripts
    re.compile(r": Skipped\n(.+)$", re.M),  # GoogleTest
    re.compile(r"(?:^|\.\.\. )skipped ['\"](.+)['\"]$", re.M),  # unittest
]

CAUSES = [
    re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Expired): .+$", re.M),  # Python
    re.compile(r"^.+: (?:Failure|error: .+)$", re.M),  # GoogleTest, programs
]


def reason(text):
    """Returns the reason that a skipped test printed."""
    for pattern in REASONS:
        if found := pattern.search(text):
            return found[1].strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def cause(output):
    """Returns the line of a failed test's output that says what was wrong, after a colon; nothing without
    output."""
    for pattern in CAUSES:
        if found := pattern.findall(output):
            return f": {found[-1].strip()}"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return f": {lines[-1]}" if lines else ""


def label(name):
    """Returns the label of a test: LABEL/... ."""
    return name.partition("/")[0]


def programs_cases(path):
    """Yields name, status and the reason of a skip for each case in a report of GoogleTest."""
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        skip = case.find("skipped")
        status = "fail" if case.find("failure") is not None else "run" if skip is None else "notrun"
        why = "" if skip is None else skip.get("message").partition("\n")[2].strip()
        yield f"{case.get('classname')}.{case.get('name')}", status, why


def cases(path):
    """Yields the cases of a run as name, status, seconds, and their output or the reason of a skip. A
    program that has passed counts as its cases."""
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name, status, seconds = case.get("name"), case.get("status"), float(case.get("time") or 0)
        report = path.with_suffix("") / f"{name.rpartition('/')[2]}.xml"
        output = case.findtext("system-out") or ""
        if status == "run" and report.exists():
            for each, its_status, why in programs_cases(report):
                yield f"{label(name)}/{each}", its_status, seconds, why
                seconds = 0
        else:
            yield name, status, seconds, output if status == "fail" else reason(output)


def again(path):
    """Returns {name: status} of the tests of a run that were run again."""
    path = path.parent / "again" / path.name
    if not path.exists():
        return {}
    return {case.get("name"): case.get("status")
            for case in ElementTree.parse(path).getroot().iter("testcase")}


def read(path):
    """Returns {"passed" or "failed": [names]}, {reason: [names of skipped tests]}, {label: seconds},
    and {name: output of the failure} of the tests that failed, and of those that passed only when they
    were run again."""
    by, skipped, lost, late = collections.defaultdict(list), collections.defaultdict(list), {}, {}
    seconds, later = collections.Counter(), again(path)
    for name, status, taken, text in cases(path):
        seconds[label(name)] += taken
        # A test is also run again if it was not run because a test that it requires had failed.
        second = later.get(name) if status in ("fail", "notrun") else None
        if status == "fail" and second == "run":
            late[name] = text
        if "run" in (status, second):
            by["passed"].append(name)
        elif "fail" in (status, second):
            by["failed"].append(name)
            lost[name] = text
        else:
            skipped[text].append(name)
    return by, skipped, seconds, lost, late


def rows(run, by, skipped, seconds, *_):
    """Yields a row for each label, with the time of its tests one after the other."""
    unrun = [name for names in skipped.values() for name in names]
    for which in sorted(seconds):
        counts = (sum(label(name) == which for name in names)
                  for names in (by["passed"], by["failed"], unrun))
        yield run, which, *counts, f"{seconds[which]:.1f}"


def main(folder):
    runs = {path.stem: read(path) for path in sorted(pathlib.Path(folder).glob("*.xml"),
                                                     key=lambda path: path.stat().st_mtime)}
    line = "{:<10} {:<12} {:>8} {:>8} {:>8} {:>9}".format
    print("", line("Summary", "label", "passed", "failed", "skipped", "seconds"), sep="\n")
    for name, results in runs.items():
        print(*(line(*row) for row in rows(name, *results)), sep="\n")
    for name, (_, skipped, *_) in runs.items():
        for why, tests in sorted(skipped.items()):
            print(f"\n{name}: skipped {len(tests)}: {why}")
            print(*(f"  {test}" for test in tests), sep="\n")
    for name, (*_, late) in runs.items():
        if late:
            print(f"\n{name}: passed only when run again, alone: {len(late)}")
        for test, output in late.items():
            print(f"--- {test}, when it failed", output.rstrip("\n"), sep="\n")
    late = [f"UNRELIABLE {name}: {test}{cause(output)}"
            for name, (*_, late) in runs.items() for test, output in late.items()]
    if late:
        print("\nA test that passes only when it is run again has a fault. Find it:", *late, sep="\n")
    failed = [f"FAILED {name}: {test}{cause(output)}"
              for name, (*_, lost, _) in runs.items() for test, output in lost.items()]
    if failed:
        print("", *failed, sep="\n")
    return 1 if failed or not any(by["passed"] for by, *_ in runs.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
