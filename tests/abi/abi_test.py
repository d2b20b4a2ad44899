#!/usr/bin/env python3
"""Compares the ABI of libibarp with that of the last release (abidiff): programs that were built with
that one keep working. Functions may be added, and members at the end of structures that begin with
their size.

The ABI is what ibarp.h declares, so a library with those functions and no code stands for it; it has
full debugging information, whatever the build has.

Usage: abi_test.py [Class.test]       runs the tests
       abi_test.py --write VERSION    writes the ABI of the present header, for a release
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HEADER = (ROOT / "include/ipoib/ibarp.h").read_text(encoding="utf-8")
COMPILER = os.environ.get("CC", "gcc")


def library_of(header, folder):
    """Builds a library that has the functions of a header; returns its path."""
    folder = pathlib.Path(folder)
    (folder / "ibarp.h").write_text(header, encoding="utf-8")
    without_comments = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    functions = re.findall(r"^IBARP_API ([^;]+);", without_comments, re.MULTILINE)
    bodies = "\n".join(f"{each} {{ __builtin_trap(); }}" for each in functions)
    source = folder / "ibarp.c"
    source.write_text(f'#include "ibarp.h"\n{bodies}\n', encoding="utf-8")
    names = re.findall(r"\b(ibarp_\w+)\(", " ".join(functions))
    exports = folder / "exports.map"
    exports.write_text("IBARP_0.1 { global: " + " ".join(f"{name};" for name in names) + " local: *; };\n",
                       encoding="utf-8")
    library = folder / "libibarp.so.0"
    subprocess.run([COMPILER, "-g", "-O0", "-shared", "-fPIC", "-fno-eliminate-unused-debug-types",
                    "-w", f"-I{folder}", "-Wl,-soname,libibarp.so.0",
                    f"-Wl,--version-script={exports}", str(source), "-o", str(library)], check=True)
    return library


def last_release():
    """The newest file libibarp-VERSION.abi."""
    def version(path):
        return [int(part) for part in path.stem.removeprefix("libibarp-").split(".")]
    return max(HERE.glob("libibarp-*.abi"), key=version)


def breaks(report, grow):
    """The lines that tell of other changes than members at the end of the structures in `grow`. A
    member that is not at the end moves others, of which the report tells, too."""
    harmless = (r"|.* summary: .*|  type size hasn't changed|  type size changed from .*"
                r"|  \d+ data member insertions?:|    '.*', at offset \d+ \(in bits\)")
    found, may_grow = [], False
    for line in report.splitlines():
        if not line.startswith(" "):
            changed = re.fullmatch(r"'struct (\w+)' changed:", line)
            may_grow = changed is not None and changed[1] in grow
            if not may_grow and not re.fullmatch(r"|.* summary: .*", line):
                found.append(line)
        elif not may_grow or not re.fullmatch(harmless, line):
            found.append(line)
    return found


class Abi(unittest.TestCase):
    def setUp(self):
        for tool in ("abidiff", "abidw", COMPILER):
            if shutil.which(tool) is None:
                self.skipTest(f"{tool} is not installed")
        folder = tempfile.TemporaryDirectory(prefix="abi-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def difference(self, header):
        """Returns the lines of abidiff's report about changes since the release that break a program."""
        done = subprocess.run(["abidiff", "--no-added-syms", "--leaf-changes-only", "--no-show-locs",
                               last_release(), library_of(header, self.folder)],
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode & 3, 0, done.stdout + done.stderr)  # used wrongly
        grow = re.findall(r"^struct (\w+) \{\s+size_t size;", header, re.MULTILINE)
        self.assertGreater(len(grow), 5)
        return breaks(done.stdout, grow)

    def changed(self, before, after):
        self.assertEqual(HEADER.count(before), 1, before)
        return HEADER.replace(before, after)

    def test_programs_of_the_last_release_keep_working(self):
        self.assertEqual(self.difference(HEADER), [])

    def test_a_new_member_at_the_end_is_no_break(self):
        self.assertEqual(self.difference(self.changed(
            "  uint32_t join_state;\n};", "  uint32_t join_state;\n  uint64_t more;\n};")), [])

    def test_breaks_are_found(self):
        for before, after in (
                ("  uint16_t dlid;\n  uint8_t sl;\n", "  uint8_t sl;\n  uint16_t dlid;\n"),
                ("#define IBARP_NAME_SIZE 32 ", "#define IBARP_NAME_SIZE 33 "),
                ("  uint8_t port_gid[16];\n", "  uint64_t more;\n  uint8_t port_gid[16];\n"),
                ("IBARP_API void ibarp_set_timeout(struct ibarp* handle, int milliseconds);", ""),
                ("(struct ibarp* handle, int milliseconds)", "(struct ibarp* handle, long milliseconds)"),
                ("IBARP_ADD = 0, IBARP_CHANGE = 1", "IBARP_ADD = 1, IBARP_CHANGE = 0"),
                ("  int family; /* AF_INET or AF_INET6 */\n  uint8_t bytes[16];\n",
                 "  int family;\n  uint8_t bytes[16];\n  uint32_t scope;\n")):
            self.assertNotEqual(self.difference(self.changed(before, after)), [], before)


def write(version):
    with tempfile.TemporaryDirectory(prefix="abi-") as folder:
        library = library_of(HEADER, folder)
        done = subprocess.run(["abidw", "--no-comp-dir-path", "--no-corpus-path", "--no-show-locs",
                               str(library)], check=True, capture_output=True, text=True)
        path = HERE / f"libibarp-{version}.abi"
        path.write_text(done.stdout.replace(folder + "/", ""), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"] and len(sys.argv) == 3:
        write(sys.argv[2])
    else:
        unittest.main(verbosity=2)
