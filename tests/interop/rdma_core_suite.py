"""rdma-core's own verbs tests (python3-pyverbs), and what docs/softib-conformance.md says of them."""
import gzip
import pathlib
import re
import shutil
import subprocess

PYTHON = "/usr/bin/python3"  # pyverbs is built for Debian's Python
EXAMPLE = pathlib.Path("/usr/share/doc/python3-pyverbs/examples/ib_devices.py")
SUITE = pathlib.Path("/usr/share/doc/rdma-core/tests")

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/softib-conformance.md"


def why_not():
    """Returns why they cannot run; empty if they can."""
    if subprocess.run([PYTHON, "-c", "import pyverbs"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
        return "python3-pyverbs is not installed"
    missing = [path for path in (SUITE, EXAMPLE) if not path.exists()]
    return f"{missing[0]} does not exist: the package was installed without documents" if missing else ""


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


def check(output, passed, skipped):
    """Fails unless the tests of `passed` have passed, and all others are among `skipped`."""
    found = results(output)
    missing = {test: found.get(test) for test in sorted(passed) if found.get(test) != "ok"}
    assert not missing, f"to be passed: {missing}\n{output}"
    unknown = sorted(set(found) - passed - skipped)
    assert not unknown, f"not in {DOCUMENT.name}: {unknown}"
