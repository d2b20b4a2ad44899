#!/usr/bin/env python3
"""Tests tests/fuzz/campaign.py with programs that print what libFuzzer prints."""
import fcntl
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAMPAIGN = ROOT / "tests" / "fuzz" / "campaign.py"

WORKS = """#!/bin/sh
for option; do case "$option" in
  -runs=*) runs=${option#-runs=} ;;
  -max_len=*) echo "$option" >&2 ;;
esac; done
[ -n "$ASAN_OPTIONS" ] || exit 1
echo "#$runs DONE   cov: 42 ft: 99 corp: 7/80b" >&2
echo "stat::number_of_executed_units: $runs" >&2
"""
FAILS = """#!/bin/sh
echo "#17 NEW    cov: 41 ft: 99" >&2
echo "stat::number_of_executed_units: 17" >&2
echo "artifact_prefix='/x/'; Test unit written to /x/crash-1" >&2
exit 77
"""


CORPUS_FAILS = """#!/bin/sh
[ "$1" = -runs=0 ] && [ -d "$(eval echo \\"\\${$#}\\")" ] || exit 2
echo "Test unit written to /x/crash-2" >&2
exit 77
"""


class Campaign(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.build = pathlib.Path(self.folder.name) / "build"
        self.checks = pathlib.Path(self.folder.name) / "checks"
        for build in (self.build, self.checks):
            (build / "tests").mkdir(parents=True)

    def make(self, target, text, checks="#!/bin/sh\n"):
        for build, program_text in ((self.build, text), (self.checks, checks)):
            program = build / "tests" / f"fuzz_{target}"
            program.write_text(program_text, encoding="utf-8")
            program.chmod(0o755)

    def run_it(self, *arguments, state="state"):
        folder = pathlib.Path(self.folder.name)
        return subprocess.run([sys.executable, CAMPAIGN, "--build", self.build, "--checks", self.checks,
                               "--state", folder / state, "--figures", folder / "figures",
                               *arguments], check=False, text=True, capture_output=True)

    def test_gives_all_inputs_in_portions(self):
        self.make("mad", WORKS)
        done = self.run_it("--runs", "2.5e6", "mad")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.splitlines(), ["mad: 1000000 inputs", "mad: 2000000 inputs",
                                                    "mad: 2500000 inputs"])
        self.assertRegex(done.stdout, r"\| `mad` \| 2,500,000 \| \d+ \| [\d,]+ \| 7 \| 42 \|\n")

    def test_goes_on_where_it_was(self):
        self.make("mad", WORKS)
        self.run_it("--runs", "1000", "mad")
        done = self.run_it("--runs", "1500", "mad")
        self.assertEqual(done.stderr, "mad: 1500 inputs\n")
        done = self.run_it("--runs", "1500", "mad")
        self.assertEqual(done.stderr, "")
        self.assertIn("| `mad` | 1,500 |", done.stdout)

    def test_adds_up_what_several_machines_have_done(self):
        self.make("mad", WORKS)
        self.make("packet", WORKS)
        self.run_it("--runs", "1000", "mad")
        self.run_it("--runs", "3000", "mad", state="other")
        self.run_it("--runs", "2000", "packet", state="other")
        done = self.run_it("--table")
        self.assertIn("| `mad` | 3,000 |", done.stdout)
        self.assertIn("| `packet` | 2,000 |", done.stdout)

    def test_several_at_a_time_lose_no_figures(self):
        names = ("mad", "packet", "frame", "dhcp")
        for name in names:
            self.make(name, WORKS)
        done = self.run_it("--runs", "5e6", "--jobs", "4", *names)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in names:
            self.assertIn(f"| `{name}` | 5,000,000 |", done.stdout)

    def test_waits_for_figures_that_another_campaign_writes(self):
        command = [sys.executable, CAMPAIGN, "--table", "--figures", f"{self.folder.name}/figures"]
        with open(f"{self.folder.name}/figures", "w", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with subprocess.Popen([*command, "mad"], stdout=subprocess.PIPE, text=True) as table:
                with self.assertRaises(subprocess.TimeoutExpired):
                    table.wait(1)
                file.write('{"mad": {"inputs": 1000}}')
                file.flush()
                fcntl.flock(file, fcntl.LOCK_UN)
                self.assertIn("| `mad` | 1,000 |", table.stdout.read())

    def test_prints_what_was_done(self):
        self.make("mad", WORKS)
        self.run_it("--runs", "1000", "mad")
        (self.build / "tests" / "fuzz_mad").unlink()
        done = self.run_it("--table", "mad", "packet")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("| `mad` | 1,000 |", done.stdout)
        self.assertNotIn("packet", done.stdout)

    def test_gives_each_target_its_options(self):
        text = "echo \"$@\" >\"$0.options\"\necho stat::number_of_executed_units: 5 >&2\n"
        self.make("control", "#!/bin/sh\n" + text)
        self.make("ring", "#!/bin/sh\n" + text)
        self.run_it("--runs", "5", "control", "ring")
        folder = self.build / "tests"
        control = (folder / "fuzz_control.options").read_text(encoding="utf-8")
        self.assertRegex(control, r"-max_len=512 -dict=.*/json.dict ")
        ring = (folder / "fuzz_ring.options").read_text(encoding="utf-8")
        self.assertIn("-max_len=4096 ", ring)
        self.assertNotIn("-dict", ring)

    def test_names_the_input_that_failed(self):
        self.make("mad", FAILS)
        self.make("packet", WORKS)
        done = self.run_it("--runs", "1000", "mad", "packet")
        self.assertEqual(done.returncode, 1)
        self.assertIn("mad: /x/crash-1\n", done.stderr)
        self.assertIn("| `mad` | 17 |", done.stdout)
        self.assertIn("| `packet` | 1,000 |", done.stdout)

    def test_runs_the_corpus_again_with_all_checks(self):
        self.make("mad", WORKS, checks=CORPUS_FAILS)
        done = self.run_it("--runs", "1000", "mad")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "mad: 1000 inputs\nmad: /x/crash-2\n")

    def test_wrong_arguments(self):
        for arguments, why in ((["nosuch"], "no such target: nosuch"),
                               (["--runs", "0", "mad"], "--runs"), (["mad"], "not built")):
            done = self.run_it(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(why, done.stderr)
        done = subprocess.run([sys.executable, CAMPAIGN, "mad"], check=False, text=True,
                              capture_output=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--state", done.stderr)


class Document(unittest.TestCase):
    def test_has_the_figures_of_the_tree(self):
        text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
        done = subprocess.run([sys.executable, CAMPAIGN, "--table"], check=True, text=True,
                              capture_output=True)
        self.assertGreater(len(done.stdout.splitlines()), 2)
        for row in done.stdout.splitlines():
            self.assertIn(row + "\n", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
