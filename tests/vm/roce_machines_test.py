#!/usr/bin/env python3
"""Two machines with a cable between them and no RDMA device, with RoCE ports of softib: programs of an ordinary
user, and ipoibd.

A machine is a guest of scripts/vm. This program runs on the host, and with the argument "guest" in each of them.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import machine
from machine import ip

import hosts

PEERS = {"left": "right", "right": "left"}
NUMBERS = {"left": 1, "right": 2}
USER = "65534"
COPY = pathlib.Path("/tmp/programs")  # which every user may read
SECONDS = 420  # of a boot with its tests
PATIENCE = 120
GID = ("-d", "softib0", "-x", "0")


def address(name, kind="10.46.0.{}"):
    return kind.format(NUMBERS[name])


# Commands of the server, which the client runs with the address of the server at the end.
PAIRS = {
    "connections": ("ibv_rc_pingpong", "-d", "softib0", "-g", "0", "-n", "20"),
    "datagrams": ("ibv_ud_pingpong", "-d", "softib0", "-g", "0", "-n", "20", "-s", "512"),
    "write": ("ib_write_bw", *GID, "-F", "-n", "20", "-s", "60001"),
    "read": ("ib_read_bw", *GID, "-F", "-n", "20", "-s", "60001"),
    "send": ("ib_send_bw", *GID, "-F", "-n", "20", "-s", "60001"),
}


# --- In the guest ------------------------------------------------------------------------------


def wait_until(condition, what):
    return hosts.wait_until(lambda: condition() or time.sleep(0.5), what, PATIENCE)


def of_user(*command):
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "env", "SOFTIB_DIR=/tmp/roce",
            f"{COPY}/bin/softib", "run", "--roce", "eth0", "--", *command]


def reaches(to):
    return subprocess.run(["ping", "-c1", "-W2", to], check=False, capture_output=True).returncode == 0


class Meeting:
    """A folder in which each machine says what it has done."""

    def __init__(self, folder, name):
        self.folder, self.peer, self.name = folder, PEERS[name], name

    def done(self, step):
        (self.folder / f"{step}.{self.name}").touch()
        wait_until(lambda: f"{step}.{self.peer}" in os.listdir(self.folder), f"{self.peer} has done {step}")


def play(meeting, step, serve, ask):
    """The left machine runs a server, which ends with the client of the right one."""
    print(f"{step}:", flush=True)
    if meeting.name == "left":
        subprocess.run(of_user(*serve), check=True, timeout=PATIENCE)
    else:
        # Until the server listens.
        wait_until(lambda: subprocess.run(of_user(*ask), check=False, timeout=PATIENCE).returncode == 0,
                   f"{step} succeeds")
    meeting.done(step)


def link_of_ipoibd(meeting):
    """As root; the port of the user's programs ends a moment after the last of them."""
    wait_until(lambda: ":4791" not in subprocess.run(["ss", "-Hlnu"], check=True, capture_output=True, text=True).stdout,
               "the port of the user has ended")
    log = pathlib.Path("/tmp/ipoibd.log")
    with open(log, "w", encoding="utf-8") as output:
        daemon = subprocess.Popen([hosts.program("ipoibd"), "--roce=eth0"], stdout=output, stderr=output,
                                  env={**os.environ, "SOFTIB_DIR": "/tmp/roce-of-root"})
    try:
        wait_until(lambda: os.path.exists("/sys/class/net/ib0"), "ib0 is there")
        ip("addr", "add", f"{address(meeting.name, '10.47.0.{}')}/24", "dev", "ib0")
        wait_until(lambda: reaches(address(meeting.peer, "10.47.0.{}")), f"{meeting.peer} is reached by ib0")
        meeting.done("link")
    finally:
        daemon.terminate()
        daemon.wait(PATIENCE)
        print(log.read_text(encoding="utf-8"), flush=True)


def in_guest(name, folder):
    meeting = Meeting(folder, name)
    for part in ("bin", "lib"):
        source = pathlib.Path(hosts.BIN).resolve().parent / part
        shutil.copytree(source, COPY / part, symlinks=True, ignore=shutil.ignore_patterns("*.a"))
    subprocess.run(["rmmod", "rdma_rxe"], check=True)  # it receives at UDP port 4791, too
    ip("link", "set", "lo", "up")
    ip("addr", "add", f"{address(name)}/24", "dev", "eth0")
    ip("addr", "add", f"{address(name, 'fd46::{}')}/64", "dev", "eth0", "nodad")
    ip("link", "set", "eth0", "up")
    wait_until(lambda: reaches(address(meeting.peer)), f"{name} reaches {meeting.peer}")
    for step, command in PAIRS.items():
        play(meeting, step, command, (*command, address("left")))
    for kind in ("10.46.0.{}", "fd46::{}"):
        at = address("left", kind)
        play(meeting, f"rping-{kind[:4]}", ("rping", "-s", "-a", at, "-C", "3", "-v"),
             ("rping", "-c", "-a", at, "-C", "3", "-v"))
    link_of_ipoibd(meeting)


# --- On the host -------------------------------------------------------------------------------


class RoceMachines(unittest.TestCase):
    def test_programs_of_a_user_and_ipoibd_reach_the_other_machine(self):
        if why := machine.why_no_guest("IPOIB_VM"):
            self.skipTest(why)
        build = pathlib.Path(hosts.BIN).resolve().parent
        (build / "vm").mkdir(exist_ok=True)
        # The name of a socket must be short.
        with tempfile.TemporaryDirectory(dir=build / "vm") as folder, tempfile.TemporaryDirectory() as cable:
            guests = {}
            for name, peer in PEERS.items():
                log = open(f"{folder}/{name}.log", "w", encoding="utf-8")
                self.addCleanup(log.close)
                guests[name] = log, subprocess.Popen(
                    [machine.ROOT / "scripts/vm", "--seconds", str(SECONDS), "--network",
                     f"{cable}/{name},{cable}/{peer}", "--", "env", f"IPOIB_BIN={hosts.BIN}",
                     "PYTHONDONTWRITEBYTECODE=1", sys.executable, __file__, "guest", name, folder],
                    stdout=log, stderr=subprocess.STDOUT, cwd=folder)
            done = {name: guest.wait() for name, (_, guest) in guests.items()}
            for log, _ in guests.values():
                print(pathlib.Path(log.name).read_text(encoding="utf-8", errors="replace")[-30000:])
            self.assertEqual(done, dict.fromkeys(PEERS, 0))


if __name__ == "__main__":
    if sys.argv[1:2] == ["guest"]:
        in_guest(sys.argv[2], pathlib.Path(sys.argv[3]))
    else:
        unittest.main(verbosity=2)
