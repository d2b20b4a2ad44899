#!/usr/bin/env python3
"""Two machines with a cable between them: each gets the package, a line of configuration and a service
on a soft RoCE port. After a reboot both reach each other without further help.

A machine is a disk with which scripts/vm boots several guests. This program runs on the host, and with
the argument "guest" in each of them.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import machine
import service
from service import configure, recipe, run, wait_until

import hosts

PACKAGES = service.Packages("packages-for-two")
VERSION = "0.2.0-1"
UNIT = "ipoibd-roce@rxe0:1.service"
ADDRESSES = {"left": "10.44.0.1", "right": "10.44.0.2"}
PEERS = {"left": "right", "right": "left"}
INTERFACE = "roce0"
SECONDS = 420  # of a boot with its tests

# The kernel's Neighbour Discovery finds the peer's Ethernet address.
ETHERNET = "[Match]\nName=eth0\n[Network]\nLinkLocalAddressing=ipv6\n"


# --- In the guest ------------------------------------------------------------------------------


def install(name):
    """What an operator does on a new machine."""
    PACKAGES.install(VERSION)
    configure("rxe0:1.conf", f"name = {INTERFACE}")
    rule = "/etc/udev/rules.d/91-rxe0.rules"
    pathlib.Path(rule).write_text(recipe("roce.md", rule), encoding="utf-8")
    network = pathlib.Path("/etc/systemd/network")
    text = recipe("service.md", str(network / "ib0.network"))
    text = text.replace("ib0", INTERFACE).replace(ADDRESSES["left"], ADDRESSES[name])
    (network / f"{INTERFACE}.network").write_text(text, encoding="utf-8")
    (network / "eth0.network").write_text(ETHERNET, encoding="utf-8")
    run("udevadm", "control", "--reload")
    run("udevadm", "trigger", "--action=add", "/sys/class/net/eth0")
    run("systemctl", "enable", "--now", "systemd-networkd.service", UNIT)


def meet(name, meeting):
    """Waits until the peer is reached, and until the peer has said the same."""
    peer = PEERS[name]
    wait_until(lambda: run("ping", "-c1", "-W2", "-I", INTERFACE, ADDRESSES[peer],
                           check=False).returncode == 0, f"{name} reaches {peer}")
    (meeting / name).touch()
    wait_until(lambda: peer in os.listdir(meeting), f"{peer} reaches {name}")


def in_guest(name, boot, meeting):
    if boot == "first":
        install(name)
    try:
        meet(name, meeting)
    except AssertionError:
        print(run("journalctl", "--boot", "--lines", "200", "--output", "short-monotonic").stdout)
        print(run("ip", "addr").stdout, run("systemctl", "--failed").stdout)
        raise


# --- On the host -------------------------------------------------------------------------------


class Reboot(unittest.TestCase):
    def boot(self, boot):
        """Boots both machines, and waits until they have shut down."""
        meeting = self.folder / boot
        meeting.mkdir()
        guests = {}
        for name, peer in PEERS.items():
            log = open(self.folder / f"{name}-{boot}.log", "w", encoding="utf-8")
            self.addCleanup(log.close)
            guests[name] = log, subprocess.Popen(
                [machine.ROOT / "scripts/vm", "--systemd", "--seconds", str(SECONDS), "--disk",
                 self.folder / f"{name}.disk", "--network",
                 f"{self.cable}/{name},{self.cable}/{peer}", "--",
                 "env", f"IPOIB_BIN={hosts.BIN}", "PYTHONDONTWRITEBYTECODE=1", sys.executable,
                 __file__, "guest", name, boot, str(meeting)],
                stdout=log, stderr=subprocess.STDOUT, cwd=self.folder)
        done = {name: guest.wait() for name, (_, guest) in guests.items()}
        for log, _ in guests.values():
            print(pathlib.Path(log.name).read_text(encoding="utf-8", errors="replace")[-30000:])
        self.assertEqual(done, dict.fromkeys(PEERS, 0))

    def test_two_machines_reach_each_other_again(self):
        if why := service.why_not():
            self.skipTest(why)
        PACKAGES.make(VERSION)
        # The name of a socket must be short.
        with tempfile.TemporaryDirectory(dir=service.BUILD / "vm") as folder, \
                tempfile.TemporaryDirectory() as self.cable:
            self.folder = pathlib.Path(folder)
            self.boot("first")
            self.boot("second")


if __name__ == "__main__":
    if sys.argv[1:2] == ["guest"]:
        in_guest(*sys.argv[2:4], pathlib.Path(sys.argv[4]))
    else:
        unittest.main(verbosity=2)
