#!/usr/bin/env python3
"""rdma-core's own tests of verbs, as python3-pyverbs brings them, on one emulated HCA.

They skip what a device says it cannot do. So that they do not skip everything, those that are to be
passed are named in docs/softib-conformance.md.

Usage: pyverbs_suite.py SOFTIB
"""
import gzip
import pathlib
import re
import shutil
import subprocess
import sys

from softib_subnet import Subnet, run_tests, skip

SOFTIB = sys.argv[1]
PYTHON = "/usr/bin/python3"  # pyverbs is built for the distribution's
SUITE = pathlib.Path("/usr/share/doc/rdma-core/tests")

if subprocess.run([PYTHON, "-c", "import pyverbs"], stderr=subprocess.DEVNULL).returncode != 0:
    skip("python3-pyverbs is not installed")
if not SUITE.is_dir():
    skip(f"{SUITE} is not there: the package's documents were left out")

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/softib-conformance.md"


def listed(section):
    """The tests below a heading of the document, as file.Class.test."""
    text = DOCUMENT.read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    found = set()
    for row in re.findall(r"^\|.*`\w+`.*\|$", text, re.MULTILINE):
        file, *tests = re.findall(r"`([\w.]+)`", row)
        found |= {f"{file}.{test}" for test in tests}
    return found


def results(said):
    """Test -> "ok" or why it was skipped; what a test itself says may stand in between."""
    found = {}
    starts = list(re.finditer(r"^test_\w+ \(tests\.([\w.]+)\)", said, re.MULTILINE))
    ends = [start.start() for start in starts[1:]] + [len(said)]
    for start, end in zip(starts, ends):
        result = re.search(r"^(?:.*\.\.\. )?(ok|skipped .*)$", said[start.start():end], re.MULTILINE)
        found[start[1]] = result[1] if result else "no result"
    return found


def unpack(folder):
    """A copy of the suite, without the compression that Debian gives to documents."""
    shutil.copytree(SUITE, folder)
    for packed in folder.glob("*.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
    return folder / "run_tests.py"


def no_test_fails_and_those_to_be_passed_are():
    with Subnet(SOFTIB) as subnet:
        suite = unpack(subnet.folder / "suite" / "tests")
        done = subnet.run("a", PYTHON, str(suite), "-v", check=False)
        assert done.returncode == 0, done.stdout
        found = results(done.stdout)
        passed, skipped = listed("Passed"), listed("Skipped")
        missing = {test: found.get(test) for test in sorted(passed) if found.get(test) != "ok"}
        assert not missing, f"to be passed: {missing}\n{done.stdout}"
        unknown = sorted(set(found) - passed - skipped)
        assert not unknown, f"not in {DOCUMENT.name}: {unknown}"


run_tests([no_test_fails_and_those_to_be_passed_are])
