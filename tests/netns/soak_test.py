#!/usr/bin/env python3
"""scripts/soak passes with a fixed seed, finds what it looks for, and leaves nothing behind however it
ends."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import hosts
from hosts import wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "soak"))
import faults  # noqa: E402

SOAK = ROOT / "scripts" / "soak"
SEED = 44
PATIENCE = 240


class Soak(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ipoibd-soak-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {**os.environ, "IPOIB_NO_BUILD": "1", "TMPDIR": folder.name,
                            "IPOIB_BIN": str(pathlib.Path(hosts.BIN).resolve())}

    def start(self, *options):
        soak = hosts.Process([str(SOAK), *options], self.folder / "output", self.environment,
                             preexec=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(soak.end, patience=PATIENCE)
        return soak

    def processes(self):
        return hosts.processes_with(f"TMPDIR={self.folder}")

    def pid_of(self, *words, environment=""):
        """Returns the process whose command line begins with a path that ends with the first word and
        contains the others, with this string in its environment; None if there is none."""
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                command = (entry / "cmdline").read_text(encoding="utf-8").split("\0")
                variables = (entry / "environ").read_text(errors="replace")
                if (f"TMPDIR={self.folder}\0" in variables and environment in variables
                        and command[0].endswith(words[0]) and set(words[1:]) <= set(command)):
                    return int(entry.name)
            except OSError:
                continue
        return None

    def assert_nothing_left(self, soak):
        wait_until(lambda: not self.processes(), "no process is left")
        self.assertEqual(list(pathlib.Path("/run/netns").glob(f"ipoibd-{soak.pid}-*")), [])
        self.assertEqual([path.name for path in self.folder.iterdir()
                          if not path.name.startswith("ipoibd-soak-")], ["output"])

    def test_half_a_minute(self):
        soak = self.start("--seconds", "30", "--seed", str(SEED))
        status = soak.popen.wait(PATIENCE)
        print(soak.output())
        self.assertEqual(status, 0)
        self.assertIn(f"passed: seed {SEED}", soak.output())
        happened, transfers = (int(re.search(rf"^(\d+) {what}", soak.output(), re.M)[1])
                             for what in ("faults", "TCP transfers"))
        self.assertGreater(happened, 4)
        self.assertGreater(transfers, 3)
        self.assert_nothing_left(soak)

    def test_attackers_beside_the_faults(self):
        """In the first rounds; how many attacks there are depends on how fast a round is."""
        soak = self.start("--seconds", "20", "--seed", str(SEED), "--hostile")
        self.assertEqual(soak.popen.wait(PATIENCE), 0, soak.output())
        begun = int(re.search(r"^(\d+) attacks, 4 at once", soak.output(), re.M)[1])
        self.assertGreaterEqual(begun, 3, soak.output())
        self.assertEqual(len(re.findall(r" s  attacks: \w+: ", soak.output())),
                         len(re.findall(r" s  round [1-9]", soak.output())))
        self.assert_nothing_left(soak)

    def test_a_killed_daemon_is_found(self):
        soak = self.start("--seconds", "60", "--seed", str(SEED))
        wait_until(lambda: "round 0: all pairs" in soak.output(), "the first transfers", 120)
        os.kill(self.pid_of("/ipoibd"), signal.SIGKILL)
        self.assertEqual(soak.popen.wait(PATIENCE), 1, soak.output())
        self.assert_nothing_left(soak)
        self.assertRegex(soak.output(), r"FAULT: .*host\d \(process \d+\) has ended by itself: it was killed "
                                        "by signal 9")
        logs = pathlib.Path(re.search(r"^logs: (.*)$", soak.output(), re.M)[1])
        self.assertIn("host1.log", {path.name for path in logs.iterdir()})

    def test_a_daemon_that_hangs_is_found(self):
        """In a round whose faults do not concern it; or after it, on a slow machine: transfers fail then."""
        def leaves_one_alone(seed):
            generator = faults.Generator(seed, ("host1", "host2", "host3"))
            return all(fault.target != generator.steady for fault in generator.round())
        soak = self.start("--seconds", "1", "--seed", str(next(filter(leaves_one_alone, range(999)))))
        wait_until(lambda: re.search(r" s  (host|subnet|softib)", soak.output()), "round 1 begins", 120)
        host = re.search(r"the daemon of (host\d) runs all the time", soak.output())[1]
        os.kill(self.pid_of("/ipoibd", environment=f"SOFTIB_HCA={host}\0"), signal.SIGSTOP)
        self.assertEqual(soak.popen.wait(PATIENCE), 1, soak.output())
        self.assertRegex(soak.output(), rf"FAULT: (host\d to {host}|{host} to host\d)"
                                        "(, IPv4, ib0: not reached|: no transfer is completed)")
        self.assert_nothing_left(soak)

    def test_leaves_nothing_when_interrupted(self):
        """It prints the seed, a random one, with which the run can be repeated."""
        seeds = set()
        for number, reached in ((signal.SIGINT, "starting 3 hosts"), (signal.SIGTERM, "round 0: all")):
            soak = self.start()
            wait_until(lambda: reached in soak.output(), reached, 120)
            self.assertEqual(soak.end(number, PATIENCE), 128 + number, soak.output())
            self.assert_nothing_left(soak)
            seed = re.search(r"soak: seed (\d+), 60 s", soak.output())[1]
            self.assertIn(f"interrupted: seed {seed}", soak.output())
            seeds.add(seed)
            (self.folder / "output").unlink()
        self.assertGreater(len(seeds), 1)

    def test_wrong_usage(self):
        for options in (["--colour"], ["--seconds"], ["--seconds", "0"], ["--seed", "x"],
                        ["--hosts", "1"], ["--topology"], ["5"]):
            done = subprocess.run([SOAK, *options], check=False, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (2, ""), options)
            self.assertIn("scripts/soak --help", done.stderr)
        done = subprocess.run([SOAK, "--help"], check=False, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("Usage: scripts/soak", done.stdout)


if __name__ == "__main__":
    hosts.main()
