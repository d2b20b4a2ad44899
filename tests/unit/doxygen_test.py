#!/usr/bin/env python3
"""Doxygen makes pages of libibarp's header without a warning, with the comments that the header has.

Usage: doxygen_test.py; returns 77 if doxygen is not installed
"""
import html
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77


def words_of(page):
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page)))


def main():
    if shutil.which("doxygen") is None:
        print("skipped: doxygen is not installed")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="doxygen-") as folder:
        settings = (ROOT / "docs/libibarp/Doxyfile.in").read_text(encoding="utf-8")
        for name, value in (("PROJECT_SOURCE_DIR", str(ROOT)), ("PROJECT_VERSION", "0"),
                            ("IBARP_DOC_FOLDER", folder)):
            settings = settings.replace(f"@{name}@", value)
        file = pathlib.Path(folder) / "Doxyfile"
        file.write_text(settings, encoding="utf-8")
        done = subprocess.run(["doxygen", file], capture_output=True, text=True, timeout=100, check=False)
        if done.returncode != 0 or done.stderr:
            print(done.stdout + done.stderr)
            return 1
        pages = {path.name: words_of(path.read_text(encoding="utf-8"))
                 for path in (pathlib.Path(folder) / "libibarp").glob("*.html")}
    everything = " ".join(pages.values())
    header = (ROOT / "include/ipoib/ibarp.h").read_text(encoding="utf-8")
    functions = re.findall(r"^IBARP_API [^;(]*?(\w+)\(", header, re.MULTILINE)
    # A function, what is said before one, and what is said behind a member.
    wanted = functions + ["Connects to the ipoibd of that interface.",
                          "since a packet last used it", "different handles are independent"]
    missing = [each for each in wanted if each not in everything]
    for each in missing:
        print(f"the pages do not have: {each}")
    return 1 if missing or len(functions) < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
