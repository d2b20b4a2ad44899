#!/usr/bin/env python3
"""Prints one summary of the JUnit files that ctest wrote: what failed, what was skipped and why."""
import collections
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def reason(case):
    """The line in which a test says why it skipped itself."""
    lines = [line.strip() for line in (case.findtext("system-out") or "").splitlines()]
    for line in lines:
        if line.lower().startswith(("skip", "skipped")):
            return line
    return next((line for line in reversed(lines) if line), "no reason given")


def main(paths):
    counts = collections.Counter()
    failed, skipped = [], collections.defaultdict(list)
    for path in map(pathlib.Path, paths):
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            name = f"{path.stem}: {case.get('name')}"
            if case.get("status") == "run":
                counts["passed"] += 1
            elif case.get("status") in ("notrun", "disabled"):
                counts["skipped"] += 1
                skipped[reason(case)].append(name)
            else:
                counts["failed"] += 1
                failed.append(name)
    print("\nSummary")
    for why, names in sorted(skipped.items()):
        print(f"  skipped {len(names)}: {why}")
        for name in names:
            print(f"    {name}")
    for name in failed:
        print(f"  FAILED {name}")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if failed or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
