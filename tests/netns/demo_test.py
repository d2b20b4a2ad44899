#!/usr/bin/env python3
"""scripts/demo, as a stranger runs it: it shows two hosts, and leaves nothing behind however it ends."""

import fcntl
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

import hosts
from hosts import wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "scripts" / "demo"
STATE = pathlib.Path("/run/ipoibd-demo")
NAMES = ("host1", "host2")
NOBODY = "65534"
# It configures and builds what may have changed before it does anything.
DEMO_PATIENCE = 120


def processes():
    """All that run on the demo's subnet; it itself and what it leaves alone, too."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if f"SOFTIB_DIR={STATE}".encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def interfaces():
    links = subprocess.run(["ip", "-json", "link"], check=True, capture_output=True, text=True)
    return {link["ifname"] for link in json.loads(links.stdout)}


def namespaces():
    return [name for name in NAMES if os.path.exists(f"/run/netns/{name}")]


class Demo(unittest.TestCase):
    def setUp(self):
        # One such test at a time on this machine: the demo's names are fixed.
        lock = socket.socket(socket.AF_UNIX)
        self.addCleanup(lock.close)
        try:
            lock.bind("\0ipoibd-demo-test")
        except OSError:
            self.skipTest("the demo is being tested by somebody else")
        if namespaces() or STATE.exists():
            self.skipTest(f"there is a demo, or a network namespace of its names: {namespaces()}")
        self.interfaces = interfaces()
        self.addCleanup(subprocess.run, [DEMO, "--stop"], capture_output=True, check=False)

    def start(self, *options, environment=None):
        """Starts the demo in a session of its own, its output in a new file."""
        self.output = tempfile.NamedTemporaryFile("r", prefix="ipoibd-demo-test-")
        self.addCleanup(self.output.close)
        with open(self.output.name, "w", encoding="utf-8") as out:
            # A signal that is ignored at the start cannot be trapped by a shell.
            demo = subprocess.Popen([DEMO, *options], stdin=subprocess.DEVNULL, stdout=out,
                                    stderr=subprocess.STDOUT, start_new_session=True, env=environment,
                                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(self.end, demo)
        return demo

    @staticmethod
    def end(demo):
        if demo.poll() is None:
            os.killpg(demo.pid, signal.SIGKILL)  # and a build that it waits for
        demo.wait()

    def said(self):
        return pathlib.Path(self.output.name).read_text(encoding="utf-8", errors="replace")

    def demo(self, *options, status=0):
        """Runs it to its end, and returns what it has said."""
        self.assertEqual(self.start(*options).wait(DEMO_PATIENCE), status, self.said())
        return self.said()

    def assert_nothing_left(self):
        wait_until(lambda: not processes(), f"no process is left: {processes()}")
        self.assertEqual(namespaces(), [])
        self.assertFalse(STATE.exists(), STATE)
        self.assertEqual(interfaces(), self.interfaces)

    def recorded(self, name):
        """The lines of one of its own notes."""
        try:
            return (STATE / name).read_text(encoding="utf-8").splitlines()
        except OSError:
            return []

    def test_shows_two_hosts_and_leaves_nothing(self):
        said = self.demo()
        for line in ("host1 pings host2", "host2 pings host1", "ibarp on host1", "softib show"):
            self.assertIn(line, said)
        self.assertEqual(said.count(" 3 received"), 2, said)
        self.assert_nothing_left()

    def test_an_interrupted_one_leaves_nothing(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            demo = self.start()
            wait_until(lambda: "host1 pings host2" in self.said(), "it pings", DEMO_PATIENCE)
            os.killpg(demo.pid, number)
            self.assertEqual(demo.wait(hosts.PATIENCE), status, self.said())
            self.assert_nothing_left()

    def test_a_second_run_works_after_a_killed_one(self):
        phases = (lambda: STATE.exists(),
                  lambda: self.recorded("processes"),
                  lambda: self.recorded("namespaces"),
                  lambda: os.path.exists("/run/netns/host1"),
                  lambda: len(self.recorded("processes")) == 3,
                  lambda: "host1 pings host2" in self.said(),
                  lambda: "softib show" in self.said())
        for phase, reached in enumerate(phases):
            demo = self.start()
            wait_until(reached, f"it is in phase {phase}", DEMO_PATIENCE)
            demo.kill()
            demo.wait()
        said = self.demo()
        self.assertEqual(said.count(" 3 received"), 2, said)
        self.assert_nothing_left()

    def test_waits_for_another_script_that_builds(self):
        alone = {name: value for name, value in os.environ.items() if name != "IPOIB_BUILD_LOCKED"}
        with open(ROOT / "build" / ".lock", "a", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                ours = True
            except BlockingIOError:
                ours = False  # the script that runs the tests has it
            demo = self.start(environment=alone)
            wait_until(lambda: "waiting for another script" in self.said(), "it says that it waits")
            self.assertFalse(STATE.exists(), "it has not begun")
        if ours:
            self.assertEqual(demo.wait(DEMO_PATIENCE), 0, self.said())
            self.assert_nothing_left()

    def test_stays_when_asked_to(self):
        said = self.demo("--keep")
        self.assertIn("ip netns exec host1", said)
        self.assertIn("scripts/demo --stop", said)
        ping = subprocess.run(["ip", "netns", "exec", "host1", "ping", "-c", "2", "-i", "0.1", "-w",
                               "20", "10.44.0.2"], check=False, capture_output=True, text=True)
        self.assertEqual(hosts.received(ping), 2, ping.stdout)
        self.assertIn("--stop", self.demo("--keep", status=1))
        self.assertIn("--stop", self.demo(status=1))
        self.assertEqual(namespaces(), list(NAMES), "the refused ones have touched nothing")
        self.demo("--stop")
        self.assert_nothing_left()
        self.assertIn("no demo is running", self.demo("--stop", status=1))

    def test_leaves_a_stranger_s_namespace_alone(self):
        subprocess.run(["ip", "netns", "add", "host2"], check=True)
        self.addCleanup(subprocess.run, ["ip", "netns", "delete", "host2"], check=False)
        self.assertIn("host2", self.demo(status=1))
        self.assertEqual(namespaces(), ["host2"])
        self.assertFalse(STATE.exists())

    def test_says_what_is_wrong_with_its_use(self):
        self.assertIn("Usage:", self.demo("--colour", status=2))
        self.assertIn("Usage:", self.demo("--keep", "--stop", status=2))
        self.assertIn("Usage:", self.demo("--help"))
        done = subprocess.run(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}",
                               "--clear-groups", DEMO], check=False, capture_output=True, text=True)
        if done.returncode in (126, 127):
            self.skipTest("user nobody cannot reach the script")
        self.assertEqual(done.returncode, 1)
        self.assertIn("needs root", done.stderr)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: needs root for network namespaces and TUN devices")
        sys.exit(hosts.SKIPPED)
    if pathlib.Path(hosts.BIN).resolve() != ROOT / "build" / "bin":
        print(f"skipped: the demo runs what is in {ROOT}/build, which is not what is tested")
        sys.exit(hosts.SKIPPED)
    unittest.main(verbosity=2)
