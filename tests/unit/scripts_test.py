#!/usr/bin/env python3
"""Tests the command lines of the scripts, and what scripts/test does with failed tests. Nothing is built or
installed."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
WITH_HELP = ("bench", "demo", "namespaces", "package", "soak", "test", "vm")
COLUMNS = 105


def run(script, *options):
    return subprocess.run([SCRIPTS / script, *options], check=False, text=True, capture_output=True)


class Scripts(unittest.TestCase):
    def test_help(self):
        for script in WITH_HELP:
            done = run(script, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""), script)
            self.assertTrue(done.stdout.startswith(f"Usage: scripts/{script} "), script)
            for line in done.stdout.splitlines():
                self.assertLessEqual(len(line), COLUMNS, line)

    def test_an_option_without_its_value(self):
        for script, option in (("package", "--output"), ("test", "--label"), ("package", "--suite"), ("package", "--arch"),
                               ("vm", "--accel"), ("vm", "--disk"), ("vm", "--memory"), ("vm", "--network"),
                               ("vm", "--module"), ("vm", "--seconds")):
            for arguments in ([option], [option, ""]):
                done = run(script, *arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ""), (script, arguments))
                self.assertEqual(done.stderr, f"{script}: {option} needs a value; "
                                              f"try scripts/{script} --help\n")


class FailedTests(unittest.TestCase):
    """scripts/test in a folder whose tests are these, each a shell command and its properties. The command
    `once` fails when it is run for the first time."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ipoibd-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        shutil.copytree(SCRIPTS, self.root / "scripts")
        self.build = self.root / "build"
        self.build.mkdir()
        self.put_program("dpkg-query", "echo ok installed")  # of every package
        self.put_program("once", f'mkdir "{self.root}/$1" && echo "first $1" && exit 1 || echo "second $1"')

    def put_program(self, name, script):
        path = self.root / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    def outcome(self, **tests):
        """Runs the tests; returns the exit status and the summary."""
        lines = []
        for name, (command, *properties) in tests.items():
            lines += [f"add_test(unit/{name} sh -c [[{command}]])",
                      f"set_tests_properties(unit/{name} PROPERTIES LABELS unit {' '.join(properties)})"]
        (self.build / "CTestTestfile.cmake").write_text("\n".join(lines), encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CTEST_")}
        done = subprocess.run([self.root / "scripts/test", "--label", "unit"], check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**environment, "IPOIB_NO_BUILD": "1",
                                   "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"})
        self.assertIn("\nSummary ", done.stdout)
        return done.returncode, done.stdout[done.stdout.index("\nSummary "):]

    def test_passes_when_run_again(self):
        status, summary = self.outcome(good=["true"], late=["once late"])
        self.assertEqual(status, 0, summary)
        self.assertIn("release: passed only when run again, alone: 1\n  unit/late\n"
                      "--- unit/late, when it failed\nfirst late\n", summary)
        self.assertNotIn("second late", summary)
        self.assertRegex(summary, r"release +unit +2 +0 +0 ")
        self.assertRegex(summary, r"test \(release\) again +\d")

    def test_fails_again(self):
        status, summary = self.outcome(good=["true"], bad=["echo no; false"], late=["once late"])
        self.assertEqual(status, 1, summary)
        self.assertIn("FAILED release: unit/bad\n", summary)
        self.assertNotIn("FAILED release: unit/late", summary)
        self.assertRegex(summary, r"release +unit +2 +1 +0 ")

    def test_too_many_fail(self):
        limit = 5
        status, summary = self.outcome(**{f"t{number}": [f"once {number}"] for number in range(limit)})
        self.assertEqual(status, 0, summary)
        status, summary = self.outcome(**{f"u{number}": [f"once u{number}"] for number in range(limit + 1)})
        self.assertEqual(status, 1, summary)
        self.assertEqual(summary.count("FAILED"), limit + 1)
        self.assertNotIn("again", summary)

    def test_why_a_test_was_skipped(self):
        """unittest writes it after the name of the test, or, if that has printed something, on a line
        of its own."""
        command = "echo \"a ... skipped 'why not'\"; exit 77", "SKIP_RETURN_CODE 77"
        late = "echo \"a ... text\nskipped 'why not'\n\nOK (skipped=1)\"; exit 77", "SKIP_RETURN_CODE 77"
        status, summary = self.outcome(good=["true"], one=command, other=late)
        self.assertEqual(status, 0, summary)
        self.assertIn("release: skipped 2: why not\n", summary)

    def test_what_the_failed_test_is_required_for(self):
        """It is not run at first; when it is run again it counts like any other."""
        needs_boot = "FIXTURES_REQUIRED", "guest"
        status, summary = self.outcome(boot=["once boot", "FIXTURES_SETUP guest"], good=["true", *needs_boot],
                                       bad=["false", *needs_boot])
        self.assertEqual(status, 1, summary)
        self.assertIn("passed only when run again, alone: 1\n  unit/boot\n", summary)
        self.assertEqual(summary.count("FAILED"), 1, summary)
        self.assertIn("FAILED release: unit/bad\n", summary)
        self.assertRegex(summary, r"release +unit +2 +1 +0 ")

    def test_no_test_fails(self):
        status, summary = self.outcome(good=["true"])
        self.assertEqual(status, 0, summary)
        self.assertNotIn("again", summary)


if __name__ == "__main__":
    unittest.main(verbosity=2)
