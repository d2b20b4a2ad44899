#!/usr/bin/env python3
"""Tests the command lines of the scripts: help and wrong options. Nothing is built or installed."""
import pathlib
import subprocess
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
