#!/usr/bin/env python3
"""Runs rdma-core's own verbs tests (python3-pyverbs) on one emulated HCA.

They skip what the device does not support. docs/softib-conformance.md lists which tests have to pass,
so that they cannot all be skipped.

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
PYTHON = "/usr/bin/python3"  # pyverbs is built for Debian's Python
EXAMPLE = pathlib.Path("/usr/share/doc/python3-pyverbs/examples/ib_devices.py")
SUITE = pathlib.Path("/usr/share/doc/rdma-core/tests")

if subprocess.run([PYTHON, "-c", "import pyverbs"], stderr=subprocess.DEVNULL).returncode != 0:
    skip("python3-pyverbs is not installed")
for path in (SUITE, EXAMPLE):
    if not path.exists():
        skip(f"{path} does not exist: the package was installed without documents")

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/softib-conformance.md"


def listed(section):
    """Returns the tests below a heading of the document as file.Class.test."""
    text = DOCUMENT.read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    found = set()
    for row in re.findall(r"^\|.*`\w+`.*\|$", text, re.MULTILINE):
        file, *tests = re.findall(r"`([\w.]+)`", row)
        found |= {f"{file}.{test}" for test in tests}
    return found


def results(output):
    """Returns test -> "ok" or the reason for skipping; a test's own output may precede the result."""
    found = {}
    starts = list(re.finditer(r"^test_\w+ \(tests\.([\w.]+)\)", output, re.MULTILINE))
    ends = [start.start() for start in starts[1:]] + [len(output)]
    for start, end in zip(starts, ends):
        result = re.search(r"^(?:.*\.\.\. )?(ok|skipped .*)$", output[start.start():end], re.MULTILINE)
        found[start[1]] = result[1] if result else "no result"
    return found


def unpack(folder):
    """Copies the suite and decompresses what Debian compresses in documents."""
    shutil.copytree(SUITE, folder)
    for packed in folder.glob("*.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
    return folder / "run_tests.py"


def no_test_fails_and_those_to_be_passed_are():
    with Subnet(SOFTIB) as subnet:
        suite = unpack(subnet.folder / "suite" / "tests")
        done = subnet.run("a", PYTHON, str(suite), "-v", check=False, patience=300)
        assert done.returncode == 0, done.stdout
        found = results(done.stdout)
        passed, skipped = listed("Passed"), listed("Skipped")
        missing = {test: found.get(test) for test in sorted(passed) if found.get(test) != "ok"}
        assert not missing, f"to be passed: {missing}\n{done.stdout}"
        unknown = sorted(set(found) - passed - skipped)
        assert not unknown, f"not in {DOCUMENT.name}: {unknown}"


def guid_of(subnet, hca):
    return subnet.run(hca, "cat", "/sys/class/infiniband/softib0/node_guid").stdout.strip().replace(":", "")


def example_lists_the_hcas():
    """The only example that Debian packages."""
    with Subnet(SOFTIB) as subnet:
        printed = subnet.run("a,b", PYTHON, str(EXAMPLE)).stdout
        devices = {words[0]: int(words[-1], 16) for words in map(str.split, printed.splitlines()[2:])}
        expected = {device: int(guid_of(subnet, hca), 16) for device, hca in (("softib0", "a"), ("softib1", "b"))}
        assert devices == expected, (printed, expected)


run_tests([example_lists_the_hcas, no_test_fails_and_those_to_be_passed_are])
