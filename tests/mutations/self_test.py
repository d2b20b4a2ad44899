#!/usr/bin/env python3
"""Tests of mutations.py: reads lists, changes a small program, and compiles and runs it."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mutations  # noqa: E402

SOURCE = """#include <cstdio>
constexpr int limit() { return 3; }
static_assert(limit() == 3);
int main() {
  int count = 0;
  for (int i = 0; i < limit(); ++i) {
    if (i != 1)
      ++count;
  }
  std::printf("%d", count);
}
"""
LIST = """# A comment.
targets: unit_sample

fault sample.limit in sample.cpp
    constexpr int limit() { return {{3 => 4}}; }
caught by unit/Sample.*

fault sample.dropped in sample.cpp
    if (i != 1)
    {{++count; => }}
survives: for the test

fault sample.condition in sample.cpp
    if ({{i != 1 => true}})
    ++count;
caught by unit/Sample.Counts
"""


class Mutations(unittest.TestCase):
    """Each test has a folder with a source and a list."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "sample.cpp").write_text(SOURCE, encoding="utf-8")

    def read(self, text=LIST):
        path = self.folder / "sample.txt"
        path.write_text(text, encoding="utf-8")
        return mutations.read_list(path)

    def refused(self, text, why):
        with self.assertRaisesRegex(mutations.ListError, why):
            _, faults = self.read(text)
            mutations.mutated(self.folder, faults)

    def test_list(self):
        targets, faults = self.read()
        self.assertEqual(targets, ["unit_sample"])
        self.assertEqual([each.name for each in faults],
                         ["sample.limit", "sample.dropped", "sample.condition"])
        self.assertEqual(faults[0].tests, ["unit/Sample.*"])
        self.assertEqual(faults[1].reason, "for the test")

    def test_bad_lists_are_refused(self):
        self.refused("fault a\n", "expected 'fault NAME in FILE'")
        self.refused("fault other.a in sample.cpp\n    x\n", "begins with 'sample.'")
        self.refused("fault sample.a in sample.cpp\n    count\n", "expected one")
        self.refused("fault sample.a in sample.cpp\n    {{i => 0}}\n", "occurs 20 times")
        self.refused("fault sample.a in sample.cpp\n    {{missing => 0}}\n", "occurs 0 times")
        self.refused("fault sample.a in no.cpp\n    {{i => 0}}\n", "there is no no.cpp")
        self.refused("fault sample.a in sample.cpp\n    if ({{i != 1 => }})\n", "expected a statement")
        self.refused("fault sample.a in sample.cpp\n    if (i {{!= 1 => == 1}})\n", "expected a statement")
        self.refused("fault sample.a in sample.cpp\n    if ({{i != => i ==}} 1)\n", "expected a statement")
        self.refused(LIST + LIST.split("\n\n", 1)[1], "a second fault sample.limit")

    def test_one_build_has_all_faults(self):
        _, faults = self.read()
        text = mutations.mutated(self.folder, faults)["sample.cpp"]
        self.assertEqual(text.count("\n"), SOURCE.count("\n"))
        (self.folder / "mutated.cpp").write_text(text, encoding="utf-8")
        program = self.folder / "program"
        subprocess.run([os.environ.get("CXX", "g++"), "-std=c++20", "-include",
                        mutations.HERE / "active.hpp", self.folder / "mutated.cpp", "-o", program],
                       check=True)

        def output(fault):
            return subprocess.run([program], env=os.environ | {mutations.VARIABLE: fault},
                                  check=True, capture_output=True, text=True).stdout

        self.assertEqual([output(each) for each in ("", "sample.limit", "sample.dropped",
                                                    "sample.condition", "sample.none")],
                         ["2", "3", "0", "3", "2"])

    def test_braces_beside_a_mark(self):
        source = "f(Pair{one, two});"
        (self.folder / "sample.cpp").write_text(source, encoding="utf-8")
        _, faults = self.read("fault sample.a in sample.cpp\n    f(Pair{{{one => 1}}, two});\n")
        self.assertRegex(mutations.mutated(self.folder, faults)["sample.cpp"],
                         r"^f\(Pair\{\(.* \? \(1\) : \(one\)\), two\}\);$")

    def test_braces_in_a_replacement(self):
        source = "return Pair{one};"
        (self.folder / "sample.cpp").write_text(source, encoding="utf-8")
        _, faults = self.read("fault sample.a in sample.cpp\n    Pair{{{one => Other{2}}}};\n")
        self.assertRegex(mutations.mutated(self.folder, faults)["sample.cpp"],
                         r"^return Pair\{\(.* \? \(Other\{2\}\) : \(one\)\)\};$")

    def test_overlapping_changes_are_refused(self):
        self.refused("fault sample.a in sample.cpp\n    {{i < limit() => i}}; ++i\n"
                     "fault sample.b in sample.cpp\n    i < {{limit(); => 1;}} ++i\n", "overlap")

    def test_preset(self):
        """It builds in a folder whose name has a blank, and is only for the copy."""
        source = self.folder / "a folder" / "source"
        header = pathlib.Path("tests", "mutations", "active.hpp")
        (source / header).parent.mkdir(parents=True)
        for name in ("CMakePresets.json", header):
            shutil.copy(mutations.ROOT / name, source / name)
        (source / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(sample C CXX)\n"
            "add_library(sample OBJECT sample.cpp)\n", encoding="utf-8")
        (source / "sample.cpp").write_text(
            "bool changed() { return ::ipoib_mutation::active(1); }\n", encoding="utf-8")
        shown = subprocess.run(["cmake", "--list-presets"], cwd=source, check=True,
                               capture_output=True, text=True).stdout
        self.assertIn('"release"', shown)
        self.assertNotIn('"mutations"', shown)
        mutations.configure(source)
        subprocess.run(["cmake", "--build", source.parent], check=True, stdout=subprocess.DEVNULL)

    def test_results(self):
        counts = {"sample": mutations.collections.Counter(caught=19, survived=1)}
        self.assertEqual(mutations.summarize(counts, 0, 1), 0)
        self.assertEqual(mutations.summarize(counts, 1, 1), 1, "a survivor without a reason")
        counts["sample"]["survived"] = 2
        self.assertEqual(mutations.summarize(counts, 0, 1), 1, "too few were caught")

    def test_time_limit(self):
        before, mutations.LIMIT = mutations.LIMIT, 0.1
        try:
            self.assertEqual(mutations.run_command(["sleep", "60"], None), "timed out")
        finally:
            mutations.LIMIT = before
        self.assertEqual(mutations.run_command(["true"], None), "passed")
        self.assertEqual(mutations.run_command(["false"], None), "failed")
        self.assertEqual(mutations.run_command(["sh", "-c", "exit 77"], None), "skipped")

    def test_processes_with_a_mark_end(self):
        """Also what has a session of its own, as the daemons of a test."""
        with subprocess.Popen(["sleep", "600"]) as other, \
                subprocess.Popen(["sh", "-c", "setsid sh -c 'echo $$; exec sleep 600'"],
                                 env={**os.environ, mutations.RUN: "self.1"},
                                 stdout=subprocess.PIPE) as marked:
            self.assertGreater(int(marked.stdout.readline()), 0)
            mutations.end_processes(f"{mutations.RUN}=self.1")
            self.assertEqual(marked.stdout.read(), b"")  # until nobody can write any more
            self.assertIsNone(other.poll())
            other.kill()


if __name__ == "__main__":
    unittest.main()
