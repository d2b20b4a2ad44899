#!/usr/bin/env python3
"""Tests the command lines of the scripts, and what scripts/test does with failed tests. Nothing is built or
installed."""
import contextlib
import importlib.util
import io
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest
import unittest.mock

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
WITH_HELP = ("bench", "namespaces", "package", "soak", "test", "vm")
COLUMNS = 105


def run_program(*command):
    return subprocess.run(command, check=False, text=True, capture_output=True)


def run(script, *options):
    return run_program(SCRIPTS / script, *options)


class Scripts(unittest.TestCase):
    def test_help(self):
        for script in WITH_HELP:
            done = run(script, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""), script)
            self.assertTrue(done.stdout.startswith(f"Usage: scripts/{script} "), script)
            for line in done.stdout.splitlines():
                self.assertLessEqual(len(line), COLUMNS, line)

    def test_an_unknown_option(self):
        for script in WITH_HELP:
            done = run(script, "--no-such-option")
            self.assertEqual((done.returncode, done.stdout), (2, ""), script)
            self.assertIn(f"scripts/{script}", done.stderr, script)

    def test_an_option_without_its_value(self):
        for script, option in (("package", "--output"), ("test", "--label"), ("test", "--area"),
                               ("test", "--since"), ("test", "--sample"), ("test", "--seed"), ("package", "--suite"), ("package", "--arch"),
                               ("vm", "--accel"), ("vm", "--disk"), ("vm", "--memory"), ("vm", "--network"),
                               ("vm", "--module"), ("vm", "--seconds")):
            for arguments in ([option], [option, ""]):
                done = run(script, *arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ""), (script, arguments))
                self.assertEqual(done.stderr, f"{script}: {option} needs a value; "
                                              f"try scripts/{script} --help\n")


    def test_values_that_cannot_be(self):
        for script, arguments, why in (
                ("bench", ["--seconds", "0"], "--seconds needs a number from 1 to 9999"),
                ("bench", ["--rounds", "10000"], "--rounds needs a number from 1 to 9999"),
                ("bench", ["--rounds"], "--rounds needs a number from 1 to 9999"),
                ("bench", ["paths", "path"], "there is no option or part path"),
                ("package", ["--suite", "a_b"], "no such suite or architecture: a_b "),
                ("package", ["--arch", "arm64", "--install"], "--install is for packages of this architecture"),
                ("package", ["--rpm", "--suite", "trixie"], "--rpm takes no --suite, --arch or --install"),
                ("soak", ["--seconds", "0"], "--seconds needs at least 1"),
                ("soak", ["--seconds", "1000000"], "--seconds needs a number of at most 999999"),
                ("soak", ["--seconds"], "--seconds needs a number of at most 999999"),
                ("soak", ["--seed", "1x"], "--seed needs a number of at most 999999999"),
                ("soak", ["--hosts", "33"], "--hosts needs a number of at most 32"),
                ("soak", ["--hosts", "1"], "--hosts needs at least 2"),
                ("soak", ["--topology", ""], "--topology needs a shape or a file"),
                ("soak", ["hosts"], "there is no option hosts"),
                ("test", ["--fuzz=0"], "--fuzz=0: not a number of seconds"),
                ("test", ["--fuzz=1s"], "--fuzz=1s: not a number of seconds"),
                ("test", ["--mutations", "--sample", "0"], "--sample 0: not a number"),
                ("test", ["--mutations", "--seed", "x"], "--seed x: not a number"),
                ("test", ["--area", "link"], "--area is for --mutations"),
                ("test", ["--since", "HEAD"], "--since is for --mutations")):
            done = run(script, *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), (script, arguments))
            self.assertEqual(done.stderr.removesuffix(f"; try scripts/{script} --help\n").removesuffix("\n"),
                             f"{script}: {why}", arguments)

    def test_usage_is_shown_for_what_makes_no_sense(self):
        for script, arguments in (
                ("vm", []), ("vm", ["--prepare", "true"]), ("vm", ["--accel", "xen", "true"]),
                ("vm", ["--memory", "1G", "true"]), ("vm", ["--seconds", "1m", "true"]),
                ("vm", ["--network", "tap=", "true"]), ("vm", ["--network", "one", "true"]),
                ("namespaces", []), ("namespaces", ["--status", "1000", "true"]),
                ("namespaces", ["--status", "x", "true"]), ("namespaces", ["--status"])):
            done = run(script, *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), (script, arguments))
            self.assertTrue(done.stderr.startswith(f"Usage: scripts/{script} "), (arguments, done.stderr))


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
                              env={**environment, "IPOIB_NO_BUILD": "1", "IPOIB_TEST_RUN": "the outer one",
                                   "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"})
        self.assertIn("\nSummary ", done.stdout)
        return done.returncode, done.stdout[done.stdout.index("\nSummary "):]

    def test_passes_when_run_again(self):
        status, summary = self.outcome(good=["true"], late=["once late"])
        self.assertEqual(status, 0, summary)
        self.assertIn("release: passed only when run again, alone: 1\n"
                      "--- unit/late, when it failed\nfirst late\n", summary)
        self.assertIn("UNRELIABLE release: unit/late: first late\n", summary)
        self.assertNotIn("second late", summary)
        self.assertRegex(summary, r"release +unit +2 +0 +0 ")
        self.assertRegex(summary, r"test \(release\) again +\d")

    def test_fails_again(self):
        status, summary = self.outcome(good=["true"], bad=["echo no; false"], late=["once late"])
        self.assertEqual(status, 1, summary)
        self.assertIn("FAILED release: unit/bad: no\n", summary)
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
        self.assertIn("passed only when run again, alone: 1\n--- unit/boot,", summary)
        self.assertEqual(summary.count("FAILED"), 1, summary)
        self.assertIn("FAILED release: unit/bad", summary)
        self.assertRegex(summary, r"release +unit +2 +1 +0 ")

    def test_no_test_fails(self):
        status, summary = self.outcome(good=["true"])
        self.assertEqual(status, 0, summary)
        self.assertNotIn("again", summary)
        self.assertNotIn("UNRELIABLE", summary)

    def test_says_why_a_test_was_unreliable(self):
        texts = {"python": "Traceback:\n  x\nAssertionError: 1 != 2\n\nFAILED (failures=1)",
                 "google": "a.cpp:7: Failure\nExpected: x\n[  FAILED  ] A.B"}
        tests = {name: [f"once {name} || {{ printf '{text}'; false; }}"] for name, text in texts.items()}
        status, summary = self.outcome(**tests)
        self.assertEqual(status, 0, summary)
        self.assertIn("UNRELIABLE release: unit/python: AssertionError: 1 != 2\n", summary)
        self.assertIn("UNRELIABLE release: unit/google: a.cpp:7: Failure\n", summary)

    def end_sleeper(self):
        sleeping = self.root / "build" / "sleeping"
        if sleeping.exists():
            os.kill(int(sleeping.read_text(encoding="utf-8")), signal.SIGKILL)
            sleeping.unlink()

    def test_a_test_leaves_something_behind(self):
        left = {"file": "touch $TMPDIR/ipoibd-file", "process": "sleep 1000 >/dev/null 2>&1 & echo $! >sleeping"}
        self.addCleanup(self.end_sleeper)
        for what, command in left.items():
            self.put_program("leave", command)
            status, summary = self.outcome(test=["leave"])
            self.assertEqual(status, 1, (what, summary))
            self.assertIn("FAILED leftovers: leftovers\n", summary)
        self.end_sleeper()
        status, summary = self.outcome(good=["touch $TMPDIR/x; rm $TMPDIR/x"])
        self.assertEqual(status, 0, summary)

    def test_one_script_at_a_time_builds(self):
        script = f'. "{self.root}/scripts/common.sh"; lock_build; echo has it; read -r line'
        one, other = (subprocess.Popen(["bash", "-c", script], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       env={name: value for name, value in os.environ.items()
                                            if name != "IPOIB_BUILD_LOCKED"}) for _ in range(2))
        with one, other:
            lines = [process.stdout.readline() for process in (one, other)]
            if "waiting" in lines[0]:
                one, other = other, one
            self.assertEqual(sum("waiting for another script" in line for line in lines), 1, lines)
            one.communicate("end\n")
            self.assertEqual(other.stdout.readline(), "has it\n")
            other.communicate("end\n")

    def test_a_host_without_user_namespaces(self):
        """scripts/namespaces says so, and what to do."""
        forbid = ("unshare", "--user", "--map-root-user", "sh", "-c",
                  'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"', "sh")
        if subprocess.run([*forbid, "true"], check=False, capture_output=True).returncode != 0:
            self.skipTest("there are no user namespaces in which to forbid them")
        done = run_program(*forbid, SCRIPTS / "namespaces", "--status", "9", "true")
        self.assertEqual(done.returncode, 9, done)
        self.assertIn("max_user_namespaces", done.stderr)


class Leftovers(unittest.TestCase):
    """scripts/leftovers.py on folders of this test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in ("shared", "own"):
            (self.root / name).mkdir()
        spec = importlib.util.spec_from_file_location("leftovers", SCRIPTS / "leftovers.py")
        self.leftovers = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.leftovers)
        self.leftovers.SHARED = (str(self.root / "shared"),)

    def outcome(self, make):
        """Returns the exit status and the output of the check of a run during which `make` is called."""
        record = str(self.root / "before.json")
        environment = {name: value for name, value in os.environ.items() if name != "IPOIB_TEST_RUN"}
        with unittest.mock.patch.dict(os.environ, environment, clear=True):
            self.leftovers.record(record)
        make(self.root)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            return self.leftovers.check(record, str(self.root / "own"), "no run"), out.getvalue()

    def test_a_name_of_the_project_fails(self):
        for name in ("softib-1", "ipoibd.65534", "ib0"):
            status, output = self.outcome(lambda root, name=name: (root / "shared" / name).touch())
            self.assertEqual(status, 1, name)
            self.assertIn(f"the tests left behind:\n  {self.root}/shared/{name}\n", output)
            self.assertEqual(self.outcome(lambda root: None), (0, ""), "was there before")

    def test_another_name_is_only_printed(self):
        status, output = self.outcome(lambda root: (root / "shared" / "x").touch())
        self.assertEqual(status, 0)
        self.assertEqual(output, f"new on this machine, perhaps not by a test:\n  {self.root}/shared/x\n")

    def test_anything_in_the_folder_of_the_run_fails(self):
        status, output = self.outcome(lambda root: (root / "own" / "x").touch())
        self.assertEqual((status, output), (1, f"the tests left behind:\n  {self.root}/own/x\n"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
