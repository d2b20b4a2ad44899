#!/usr/bin/env python3
"""Tests scripts/demo: two hosts reach each other, and nothing is left behind however it ends."""

import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

import hosts
from hosts import wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "scripts" / "demo"
STATE = pathlib.Path("/run/ipoibd-demo")
NAMES = ("host1", "host2")
NOBODY = "65534"
# The demo configures and builds first.
DEMO_PATIENCE = 120


def processes():
    return hosts.processes_with(f"SOFTIB_DIR={STATE}")


def interfaces():
    links = subprocess.run(["ip", "-json", "link"], check=True, capture_output=True, text=True)
    return {link["ifname"] for link in json.loads(links.stdout)}


def namespaces():
    return [name for name in NAMES if os.path.exists(f"/run/netns/{name}")]


class Demo(unittest.TestCase):
    def setUp(self):
        # One such test at a time, because the demo's names are fixed.
        lock = socket.socket(socket.AF_UNIX)
        self.addCleanup(lock.close)
        try:
            lock.bind("\0ipoibd-demo-test")
        except OSError:
            self.skipTest("another test of the demo is running")
        if namespaces() or STATE.exists():
            self.skipTest(f"a demo is running, or its namespaces exist: {namespaces()}")
        self.interfaces = interfaces()
        self.addCleanup(subprocess.run, [DEMO, "--stop"], capture_output=True, check=False)

    def start(self, *options, environment=None):
        """Starts the demo in its own session, with its output in a new file."""
        self.output = tempfile.NamedTemporaryFile("r", prefix="ipoibd-demo-test-")
        self.addCleanup(self.output.close)
        with open(self.output.name, "w", encoding="utf-8") as out:
            # A shell cannot trap a signal that was ignored when it started.
            demo = subprocess.Popen([DEMO, *options], stdin=subprocess.DEVNULL, stdout=out,
                                    stderr=subprocess.STDOUT, start_new_session=True, env=environment,
                                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(self.end, demo)
        return demo

    @staticmethod
    def end(demo):
        if demo.poll() is None:
            os.killpg(demo.pid, signal.SIGKILL)  # including a build
        demo.wait()

    def shown(self):
        return pathlib.Path(self.output.name).read_text(encoding="utf-8", errors="replace")

    def demo(self, *options, status=0):
        """Runs the demo to its end, and returns its output."""
        self.assertEqual(self.start(*options).wait(DEMO_PATIENCE), status, self.shown())
        return self.shown()

    def assert_nothing_left(self):
        wait_until(lambda: not processes(), f"no process is left: {processes()}")
        self.assertEqual(namespaces(), [])
        self.assertFalse(STATE.exists(), STATE)
        self.assertEqual(interfaces(), self.interfaces)

    def recorded(self, name):
        """Returns the lines of a file in its state folder."""
        try:
            return (STATE / name).read_text(encoding="utf-8").splitlines()
        except OSError:
            return []

    def test_shows_two_hosts_and_leaves_nothing(self):
        output = self.demo()
        for line in ("host1 pings host2", "host2 pings host1", "ibarp on host1", "softib show"):
            self.assertIn(line, output)
        self.assertEqual(output.count(" 3 received"), 2, output)
        self.assert_nothing_left()

    def test_interrupted_demo_leaves_nothing(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            demo = self.start()
            wait_until(lambda: "host1 pings host2" in self.shown(), "the demo pings", DEMO_PATIENCE)
            os.killpg(demo.pid, number)
            self.assertEqual(demo.wait(hosts.PATIENCE), status, self.shown())
            self.assert_nothing_left()

    def test_a_second_run_works_after_a_killed_one(self):
        phases = (lambda: STATE.exists(),
                  lambda: self.recorded("processes"),
                  lambda: self.recorded("namespaces"),
                  lambda: os.path.exists("/run/netns/host1"),
                  lambda: len(self.recorded("processes")) == 3,
                  lambda: "host1 pings host2" in self.shown(),
                  lambda: "softib show" in self.shown())
        for phase, reached in enumerate(phases):
            demo = self.start()
            wait_until(reached, f"the demo is in phase {phase}", DEMO_PATIENCE)
            demo.kill()
            demo.wait()
        output = self.demo()
        self.assertEqual(output.count(" 3 received"), 2, output)
        self.assert_nothing_left()

    def test_waits_for_another_script_that_builds(self):
        alone = {name: value for name, value in os.environ.items()
                 if name not in ("IPOIB_BUILD_LOCKED", "IPOIB_NO_BUILD")}
        with open(ROOT / "build" / ".lock", "a", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                ours = True
            except BlockingIOError:
                ours = False  # the script that runs the tests holds the lock
            demo = self.start(environment=alone)
            wait_until(lambda: "waiting for another script" in self.shown(),
                       "the demo waits for the lock")
            self.assertFalse(STATE.exists(), "the demo has not started")
        if ours:
            self.assertEqual(demo.wait(DEMO_PATIENCE), 0, self.shown())
            self.assert_nothing_left()

    def test_keep_leaves_it_running(self):
        output = self.demo("--keep")
        self.assertIn("ip netns exec host1", output)
        self.assertIn("scripts/demo --stop", output)
        ping = subprocess.run(["ip", "netns", "exec", "host1", "ping", "-c", "2", "-i", "0.1", "-w",
                               "20", "10.44.0.2"], check=False, capture_output=True, text=True)
        self.assertEqual(hosts.received(ping), 2, ping.stdout)
        self.assertIn("--stop", self.demo("--keep", status=1))
        self.assertIn("--stop", self.demo(status=1))
        self.assertEqual(namespaces(), list(NAMES), "refused runs change nothing")
        self.demo("--stop")
        self.assert_nothing_left()
        self.assertIn("no demo is running", self.demo("--stop", status=1))

    def test_leaves_other_namespaces_alone(self):
        subprocess.run(["ip", "netns", "add", "host2"], check=True)
        self.addCleanup(subprocess.run, ["ip", "netns", "delete", "host2"], check=False)
        self.assertIn("host2", self.demo(status=1))
        self.assertEqual(namespaces(), ["host2"])
        self.assertFalse(STATE.exists())

    def test_wrong_options(self):
        self.assertIn("Usage:", self.demo("--colour", status=2))
        self.assertIn("Usage:", self.demo("--keep", "--stop", status=2))
        self.assertIn("Usage:", self.demo("--help"))

    def test_ordinary_user(self):
        """The demo in a user namespace, with the programs that are built."""
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        namespaces_script = DEMO.parent / "namespaces"
        may = subprocess.run([*user, namespaces_script, "true"], capture_output=True, text=True,
                             check=False)
        if may.returncode != 0:
            self.skipTest(f"user nobody: {may.stderr.strip()}")

        def demo(*options):
            return subprocess.run([*user, "env", "IPOIB_NO_BUILD=1", DEMO, *options], check=False,
                                  capture_output=True, text=True, timeout=DEMO_PATIENCE)
        state = pathlib.Path(f"/tmp/ipoibd-demo-{NOBODY}")
        self.addCleanup(demo, "--stop")
        # The demo has the build lock, as after a build; in a folder of its own, which user nobody may
        # write.
        folder = tempfile.TemporaryDirectory(prefix="ipoibd-demo-test-")
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o777)
        script = '. "$1"; build_dir=$2; lock_build; exec "$3" --keep'
        done = subprocess.run([*user, "env", "-u", "IPOIB_BUILD_LOCKED", "IPOIB_NO_BUILD=1", "bash", "-c",
                               script, "bash", DEMO.parent / "common.sh", folder.name, DEMO],
                              check=False, capture_output=True, text=True, timeout=DEMO_PATIENCE)
        self.assertEqual((done.returncode, done.stdout.count(" 3 received")), (0, 2), done)
        enter = re.search(r"To enter one: (.*) bash", done.stdout)[1].split()
        ping = subprocess.run([*user, *enter, "ping", "-c", "1", "-w", "20", "10.44.0.2"], check=False,
                              capture_output=True, text=True)
        self.assertEqual(hosts.received(ping), 1, ping)
        with open(pathlib.Path(folder.name) / ".lock", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # no process of the demo holds it
        self.assertEqual(demo().returncode, 1)
        self.assertEqual(demo("--stop").returncode, 0)
        self.assertFalse(state.exists())
        self.assert_nothing_left()

    def test_folder_of_another_user(self):
        """Another user may create the folder in /tmp first, and name processes in it."""
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        if subprocess.run([*user, "true"], check=False, capture_output=True).returncode != 0:
            self.skipTest("there are no other users in this user namespace")
        state = pathlib.Path(f"/tmp/ipoibd-demo-{NOBODY}")
        own = tempfile.TemporaryDirectory(prefix="ipoibd-demo-test-")
        self.addCleanup(own.cleanup)
        shutil.chown(own.name, int(NOBODY), int(NOBODY))
        victim = subprocess.Popen([*user, "sleep", "1000"])
        self.addCleanup(victim.wait)
        self.addCleanup(victim.kill)
        wait_until(lambda: "sleep" in pathlib.Path(f"/proc/{victim.pid}/comm").read_text("ascii"),
                   "the victim runs")
        start = pathlib.Path(f"/proc/{victim.pid}/stat").read_text("ascii").rsplit(") ", 1)[1].split()[19]

        def prepare_folder():
            state.mkdir()
            (state / "processes").write_text(f"{victim.pid} {start}\n", encoding="ascii")
            (state / "namespaces").touch()
            for name in ("processes", "namespaces"):
                (state / name).chmod(0o666)
            self.addCleanup(shutil.rmtree, state, ignore_errors=True)

        def prepare_link():
            shutil.rmtree(state)
            state.symlink_to(own.name)
            os.lchown(state, int(NOBODY), int(NOBODY))
            self.addCleanup(state.unlink, missing_ok=True)
        for prepare in (prepare_folder, prepare_link):
            prepare()
            done = subprocess.run([*user, "env", "IPOIB_NO_BUILD=1", DEMO, "--stop"], check=False,
                                  capture_output=True, text=True, timeout=DEMO_PATIENCE)
            self.assertEqual(done.returncode, 1, done)
            self.assertIn(f"{state} is not ours", done.stderr)
            self.assertIsNone(victim.poll(), "it is not ended")
            self.assertEqual(os.listdir(own.name), [])

    def test_ordinary_user_without_namespaces(self):
        """Without user namespaces the message says so, and what to do."""
        forbid = ("unshare", "--user", "--map-root-user", "sh", "-c",
                  'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"', "sh")
        done = subprocess.run([*forbid, DEMO.parent / "namespaces", "--status", "9", "true"],
                              check=False, capture_output=True, text=True)
        self.assertEqual(done.returncode, 9, done)
        self.assertIn("max_user_namespaces", done.stderr)


if __name__ == "__main__":
    if pathlib.Path(hosts.BIN).resolve() != ROOT / "build" / "bin":
        hosts.softib_subnet.skip(f"the demo runs the programs in {ROOT}/build, not those under test")
    hosts.main()
