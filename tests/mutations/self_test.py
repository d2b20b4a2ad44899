#!/usr/bin/env python3
"""Tests of mutations.py: derives the faults of a small program, compiles all of them into it, and runs it."""
import ast
import collections
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mutations  # noqa: E402
import python_faults  # noqa: E402
import runs  # noqa: E402
import sources  # noqa: E402

try:
    import faults
except ImportError:
    faults = None

HEADER = sources.ROOT / "tests" / "mutations" / "active.hpp"
SOURCE = """#include <cassert>
#include <cerrno>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <vector>
enum class State { idle, busy };
struct Limits {
  int most = 3;
  int least = 0;
};
struct logger {
  void info(const std::string&) {}
};
constexpr int kStep = 1;
static_assert(kStep == 1);
std::mutex mutex;
int total(const std::vector<int>& some) {
  const std::lock_guard lock(mutex);
  assert(some.size() < 9);
  logger().info(std::string("text"));
  int sum = 0;
  for (int each : some) sum += each;
  return sum;
}
int count(Limits limits, bool is_odd) {  // "not a string
  int found = 0;
  for (int i = 0; i < limits.most; ++i) {
    if (i == 1 && is_odd) continue;
    if (i == 7) {
      return EINVAL;
    }
    found += kStep;
    if (is_odd)
      ++found;
    else
      --found;
  }
  return found;
}
State next(State state) {
  switch (state) {
    case State::idle:
      return State::busy;
    case State::busy:
      break;
  }
  return State::idle;
}
int sign(int number) {
  if (number < 0) {
    return -1;
  } else {
    return +1;
  }
}
int value_of(std::optional<int> one) {
  return one && *one != 1 ? *one : 9;
}
int main() {
  std::printf("%d %d %d", count({}, true), value_of(total({1, 2, 4})), static_cast<int>(next(State::idle)));
}
"""
OUTPUT = "4 7 1"


PYTHON = """def kept(values, limit=3):
    \'\'\'The values.\'\'\'
    out = []
    for each in values:
        if each < limit and each != 0:
            out.append(each)
    return out
"""


def fault_in(file):
    """Returns a fault of this file."""
    return sources.Fault(file, 1, "f", (1, 1), "statement", 0, 1, 0, 1, "", True)


class DerivedFromPython(unittest.TestCase):
    """The faults of the function above, called with 0 to 3."""

    def test_each_kind_changes_what_it_says(self):
        deriver = python_faults.Deriver("kept.py", PYTHON)
        deriver.visit(ast.parse(PYTHON))
        for line, kind, new, expected in (
                (1, "constant", "4", [1, 2, 3]), (5, "comparison", "<=", [1, 2, 3]), (5, "comparison", "==", [0]),
                (5, "operator", "or", [0, 1, 2, 3]), (5, "negated", "(not (each < limit and each != 0))", [0, 3]),
                (6, "statement left out", "pass", []), (7, "returns nothing", "None", None),
                (7, "name", "values", [0, 1, 2, 3])):
            fault = next(each for each in deriver.found if (each.line, each.kind, each.new) == (line, kind, new))
            self.assertEqual((fault.function, fault.file), ("kept", "kept.py"))
            names = {}
            exec(python_faults.changed(PYTHON, fault), names)
            self.assertEqual(names["kept"]([0, 1, 2, 3]), expected, (line, kind, new))
        self.assertNotIn(2, {fault.line for fault in deriver.found}, "a docstring is no statement")

    def test_related_statements_are_exchanged(self):
        for body, expected in (("a = 1; b = a", 1), ("a = 1; a = 2", 1), ("x.a = 1; y = x.a", 1), ("f(a); g(a)", 1),
                               ("a = c; b = c", 0), ("f(a); g(b)", 0), ("a = 1; return a", 0)):
            source = f"def kept():\n    {body}\n"
            deriver = python_faults.Deriver("kept.py", source)
            deriver.visit(ast.parse(source))
            self.assertEqual(sum(fault.kind == "exchanged" for fault in deriver.found), expected, body)


@unittest.skipIf(faults is None, "python3-clang-16 is not installed")
class Derived(unittest.TestCase):
    """The faults of the program above."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = pathlib.Path(folder.name)
        cls.path = cls.root / "src" / "sample" / "sample.cpp"
        cls.path.parent.mkdir(parents=True)
        cls.path.write_text(SOURCE, encoding="utf-8")
        cls.arguments = ["-std=c++20", "-include", str(HEADER)]
        cls.enterClassContext(mock.patch.object(sources, "read", lambda file: SOURCE))
        unit = faults.parse(cls.arguments, str(cls.path))
        cls.faults = sorted(faults.derive(unit, str(cls.root)))
        cls.program = cls.root / "program"
        apart = []  # an exchange can overlap with another one
        for fault in cls.faults:
            if not any(sources.overlaps(fault, other) for other in apart):
                apart.append(fault)
        wrong = mutations.compile_alone((str(cls.path), cls.arguments, str(cls.root), apart))
        cls.kept = [fault for fault in apart if fault not in wrong]
        cls.wrong = [sources.before_and_after(fault) for fault in wrong]
        mutated = cls.root / "mutated.cpp"
        mutated.write_text(sources.mutated(enumerate(cls.kept, 1))[cls.kept[0].file], encoding="utf-8")
        subprocess.run(["clang++-16", "-w", *cls.arguments, mutated, "-o", cls.program], check=True)

    def output(self, before, after):
        """Returns what the program prints with this fault."""
        number = next(number for number, fault in enumerate(self.kept, 1)
                      if sources.before_and_after(fault) == (before, after))
        return subprocess.run([self.program], env=os.environ | {runs.VARIABLE: str(number)}, check=False,
                              capture_output=True, text=True).stdout

    def test_each_kind_changes_what_it_says(self):
        for before, after, output in (
                ("for (int i = 0; i < limits.most; ++i) {", "for (int i = 0; i <= limits.most; ++i) {", "6 7 1"),
                ("if (i == 1 && is_odd) continue;", "if (i == 1 || is_odd) continue;", "0 7 1"),
                ("if (i == 1 && is_odd) continue;", "if (i == 1) continue;", "4 7 1"),
                ("if (i == 1 && is_odd) continue;", "if (i == 1 && is_odd) ;", "6 7 1"),
                ("if (i == 7) {", "if (i != 7) {", "22 7 1"),
                ("if (is_odd)", "if (!(is_odd))", "0 7 1"),
                ("found += kStep;", "", "2 7 1"),
                ("found += kStep;", "found += (kStep + 1);", "6 7 1"),
                ("int most = 3;", "int most = 4;", "6 7 1"),
                ("for (int i = 0; i < limits.most; ++i) {", "for (int i = 0; i < limits.least; ++i) {", "0 7 1"),
                ("for (int each : some) sum += each;", "for (int each : some) sum += sum;", "4 0 1"),
                ("return State::busy;", "return State::idle;", "4 7 0"),
                ("return one && *one != 1 ? *one : 9;", "return !(one && *one != 1) ? *one : 9;", "4 9 1"),
                ("return one && *one != 1 ? *one : 9;", "return one ? *one : 9;", OUTPUT),
                ("const std::lock_guard lock(mutex);", "const std::lock_guard lock(::ipoib_mutation::unused(mutex));", OUTPUT)):
            self.assertEqual(self.output(before, after), output, (before, after))

    def test_without_a_fault_it_is_the_program(self):
        done = subprocess.run([self.program], check=True, capture_output=True, text=True,
                              env={name: value for name, value in os.environ.items() if name != runs.VARIABLE})
        self.assertEqual(done.stdout, OUTPUT)

    def test_what_is_left_out(self):
        """Assertions, constants at compile time, lines of the log, and that a member has no value at first."""
        before = [sources.before_and_after(fault)[0] for fault in self.faults]
        for part in ("assert", "int least", "constexpr", "logger"):
            self.assertFalse([each for each in before if part in each], part)

    def test_what_does_not_compile_alone(self):
        """A fault in a constant expression, which would have no effect, and a function that ends without its value."""
        for wrong in (("case State::busy:", "case State::idle:"), ("return -1;", ""), ("return +1;", "")):
            self.assertIn(wrong, self.wrong)
        self.assertEqual({before for before, _ in self.wrong if "number" not in before and "return" not in before
                          and "else" not in before}, {"case State::busy:", "case State::idle:"})

    def test_the_lines_keep_their_numbers(self):
        text = sources.mutated(enumerate(self.kept, 1))[self.kept[0].file]
        self.assertEqual(text.count("\n"), SOURCE.count("\n"))

    def test_a_test_records_which_faults_it_reaches(self):
        number_of = {SOURCE[fault.at:fault.to]: number for number, fault in enumerate(self.kept, 1)
                     if fault.kind == "enumerator"}
        case = runs.Case("unit/sample", [str(self.program)], {}, None, 0, frozenset())
        result, case = runs.record(case, len(self.kept) + 1)
        self.assertEqual(result, "passed")
        self.assertIn(number_of["busy"], case.reached)
        self.assertNotIn(number_of["EINVAL"], case.reached)

    def test_a_sample_is_spread_and_repeatable(self):
        drawn = mutations.draw(self.faults, 5, 1)
        self.assertEqual(drawn, mutations.draw(list(reversed(self.faults)), 5, 1))
        wanted, picked = drawn["sample"]
        self.assertEqual(wanted, 5)
        self.assertEqual(len({fault.line for fault in picked}), len(picked))
        self.assertNotEqual(drawn, mutations.draw(self.faults, 5, 2))


class Running(unittest.TestCase):
    def case(self, name, script, seconds=0.1):
        return runs.Case(name, ["sh", "-c", script], {}, None, seconds, frozenset())

    def test_results(self):
        for command, result in (("true", "passed"), ("false", "failed"), ("exit 77", "skipped")):
            self.assertEqual(runs.run_command(["sh", "-c", command], os.environ).result, result)
        self.assertEqual(runs.run_command(["sleep", "60"], os.environ, limit=0.1).result, "timed out")
        self.assertEqual(runs.run_command(["sh", "-c", "while :; do :; done"], os.environ, limit=1).result, "timed out")

    def test_the_first_that_fails_has_caught_the_fault(self):
        fails = f'[ "${runs.VARIABLE}" != 3 ]'
        cases = [self.case("slow", "false", 5), self.case("passes", "true", 1), self.case("catches", fails, 2)]
        self.assertEqual(runs.catcher(3, cases), "catches")
        self.assertEqual(runs.catcher(4, cases), "slow")
        self.assertEqual(runs.catcher(4, cases[1:]), "")

    def test_tests_beyond_the_budget_are_not_run(self):
        self.assertEqual(runs.catcher(1, [self.case("long", "false", runs.BUDGET + 1)]), "")

    def test_a_test_that_others_disturb_catches_nothing(self):
        program = 'case "$0" in *:*) echo "[ RUN      ] b"; exit 1;; esac'
        cases = [runs.Case(name, ["sh", "-c", program, f"--gtest_filter={name}"], {}, None, 0.1, frozenset())
                 for name in ("a", "b")]
        self.assertEqual(runs.catcher(1, cases), "")

    def test_the_case_that_failed_is_named_and_none_that_was_skipped_after_it(self):
        program = 'case "$0" in *:*) printf "[ RUN      ] b\\n[  FAILED  ] b, of c (1 ms)\\n[ RUN      ] c\\n";; esac; exit 1'
        cases = [runs.Case(name, ["sh", "-c", program, f"--gtest_filter={name}"], {}, None, 0.1, frozenset())
                 for name in ("a", "b", "c")]
        self.assertEqual(runs.catcher(1, cases), "b")

    def test_processes_with_a_mark_end(self):
        """Also what has a session of its own, as the daemons of a test."""
        with subprocess.Popen(["sleep", "600"]) as other, \
                subprocess.Popen(["sh", "-c", "setsid sh -c 'echo $$; exec sleep 600'"],
                                 env={**os.environ, runs.RUN: "self.1"}, stdout=subprocess.PIPE) as marked:
            self.assertGreater(int(marked.stdout.readline()), 0)
            runs.end_processes(f"{runs.RUN}=self.1")
            self.assertEqual(marked.stdout.read(), b"")  # until nobody can write any more
            self.assertIsNone(other.poll())
            other.kill()


@unittest.skipUnless(shutil.which("ninja"), "ninja is not installed")
class Building(unittest.TestCase):
    NINJA = """rule make
  command = true
build unit_hca: phony tests/unit_hca
build tests/unit_hca: make src/softib/hca/a.cpp src/wire/a.cpp
build unit_wire: phony tests/unit_wire
build tests/unit_wire: make src/wire/a.cpp
"""

    def test_tests_without_the_changed_library_are_neither_built_nor_left(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "build.ninja").write_text(self.NINJA, encoding="utf-8")
            (folder / "tests").mkdir()
            (folder / "tests" / "unit_wire").touch()
            both = ["unit_hca", "unit_wire"]
            for file, targets in (("src/wire/inner/b.cpp", both), ("include/ipoib/b.hpp", both),
                                  ("src/softib/hca/inner/b.cpp", ["unit_hca"])):
                self.assertTrue((folder / "tests" / "unit_wire").exists())
                self.assertEqual(sources.concerned(folder, [fault_in(file)]), targets)
            self.assertFalse((folder / "tests" / "unit_wire").exists())


class Report(unittest.TestCase):
    def test_interval(self):
        low, high = mutations.wilson(9, 10)
        self.assertAlmostEqual(low, 0.596, 3)
        self.assertAlmostEqual(high, 0.982, 3)
        self.assertEqual(mutations.wilson(0, 0), (0.0, 1.0))

    def test_exit_status(self):
        def status(**counts):
            with mock.patch("builtins.print"):
                return mutations.summarize({"sample": collections.Counter(counts)})

        self.assertEqual(status(caught=9, survived=1), 0)
        self.assertEqual(status(caught=17, survived=3), 1)
        self.assertEqual(status(caught=17, unreached=3), 1)

    def test_areas(self):
        self.assertEqual(mutations.area_of("src/softib/hca/datagram/sender.cpp"), "softib/hca")
        self.assertEqual(mutations.area_of("include/ipoib/ip.hpp"), "base")
        self.assertTrue(mutations.is_in("softib/hca", ["softib"]))
        self.assertFalse(mutations.is_in("softib/hca", ["softib/h"]))


class Judged(unittest.TestCase):
    """What equivalent.txt may contain."""

    TEXT = "# A comment.\n\ncount\n- found += kStep;\n+\nOf no use.\nReally.\n"

    def read(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            return mutations.read_equivalent(pathlib.Path(file.name))

    def test_entries(self):
        entry, = self.read(self.TEXT)
        self.assertEqual(entry[:4], ("count", "found += kStep;", "", "Of no use.\nReally.\n"))
        mutations.check([entry], [SOURCE])

    def test_bad_entries(self):
        for text in ("count\n- a\n+ b\n", "count\nreason\n", "- a\n+ b\nreason\n"):
            with self.assertRaisesRegex(sources.SourceError, "expected a function"):
                self.read(text)

    def test_an_entry_that_no_longer_fits_anything(self):
        for text in (self.TEXT.replace("kStep", "kLeap"), self.TEXT.replace("count", "account")):
            with self.assertRaisesRegex(sources.SourceError, "has no such line any more"):
                mutations.check(self.read(text), [SOURCE])


@unittest.skipUnless(shutil.which("clang++-16"), "clang-16 is not installed")
class Preset(unittest.TestCase):
    def test_preset(self):
        """It builds in a folder whose name has a blank, and is only for the copy."""
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "a folder" / "source"
            header = HEADER.relative_to(sources.ROOT)
            (source / header).parent.mkdir(parents=True)
            for name in ("CMakePresets.json", header):
                shutil.copy(sources.ROOT / name, source / name)
            (source / "CMakeLists.txt").write_text(
                "cmake_minimum_required(VERSION 3.25)\nproject(sample C CXX)\n"
                "add_library(sample OBJECT sample.cpp)\n", encoding="utf-8")
            (source / "sample.cpp").write_text("bool changed() { return ::ipoib_mutation::active(1); }\n", encoding="utf-8")
            shown = subprocess.run(["cmake", "--list-presets"], cwd=source, check=True, capture_output=True, text=True).stdout
            self.assertIn('"release"', shown)
            self.assertNotIn('"mutations"', shown)
            sources.configure(source)
            subprocess.run(["cmake", "--build", source.parent], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    unittest.main()
