#!/usr/bin/env python3
"""What happens to ports, to the subnet administrator and to either side, while the kernel's IPoIB
and ours talk to each other. Both ping the other all the time, and what is lost is counted."""

import pathlib
import subprocess

import guest
from guest import KernelHost, wait_until

OURS, THEIRS = ("10.44.0.1", "fd44::1"), ("10.44.0.2", "fd44::2")
# Pings, ten to a second: what docs/states.md states for a port that comes up.
OUTAGE = 50
# As ib_event of a port takes them.
PORT_ACTIVE, PORT_ERROR, LID_CHANGE, PKEY_CHANGE, SM_CHANGE, REREGISTER = 9, 10, 11, 12, 13, 17
# Of the broadcast group, as the subnet administrator writes it down.
OUR_JOIN = "SA: lid 3 method 0x2 attr 0x38 mask 0x10083 ff12:401b:ffff::ffff:ffff js 1 -> 0"


def fire(event, device):
    pathlib.Path(f"/sys/class/infiniband/{device}/ib_event").write_text(str(event),
                                                                        encoding="utf-8")


def set_cable(number, state):
    """Of port rxe<number>. (The port's own end is let alone: without its address for a moment, a
    soft port could not send, and its QP1 would be lost to the kernel's MAD layer for ever.)"""
    subprocess.run(["ip", "link", "set", f"b{number}", state], check=True)


class Events(guest.KernelPeer):
    PORTS = 4

    sa_log = pathlib.Path("/run/sa.log")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.ours.start()
        cls.configure(cls.ours, f"{OURS[0]}/24", f"{OURS[1]}/64")
        cls.configure(cls.theirs, f"{THEIRS[0]}/24", f"{THEIRS[1]}/64")

    def setUp(self):
        super().setUp()
        for ours, theirs in zip(OURS, THEIRS):
            self.assert_connected(ours, theirs)

    def said_by_administrator(self):
        return self.sa_log.read_text(encoding="utf-8")

    def lost_during(self, event):
        """The pings that ours and theirs have lost."""
        pings = [self.start_pings(self.ours, THEIRS[0]), self.start_pings(self.theirs, OURS[0])]
        event()
        for ping in pings:
            ping.wait_for(10)
        return [ping.end() for ping in pings]

    def lost_after(self):
        """The same from now on, when something has just come back; with IPv6 as well."""
        return [ping.end() for ours, theirs in zip(OURS, THEIRS)
                for ping in (self.start_pings(self.ours, theirs), self.start_pings(self.theirs, ours))]

    def assert_harmless(self, event, name):
        """Ours loses nothing whatever its port says, as long as it is not so. What theirs does is
        its own affair, up to a bound."""
        said = f"rxe2: {name}"
        before = self.ours.daemon.output().count(said)
        for device, bound in (("rxe2", 0), ("rxe1", OUTAGE)):
            for lost in self.lost_during(lambda at=device: fire(event, at)):
                self.assertLessEqual(lost, bound, f"{name} of {device}")
        self.assertEqual(self.ours.daemon.output().count(said), before + 1, "ours has noticed")

    def test_port_active(self):
        self.assert_harmless(PORT_ACTIVE, "port active")

    def test_port_error(self):
        self.assert_harmless(PORT_ERROR, "port down")

    def test_lid_change(self):
        self.assert_harmless(LID_CHANGE, "LID change")

    def test_pkey_change(self):
        self.assert_harmless(PKEY_CHANGE, "P_Key table change")

    def test_sm_change(self):
        self.assert_harmless(SM_CHANGE, "subnet manager change")

    def test_client_reregister(self):
        before = self.said_by_administrator().count(OUR_JOIN)
        self.assert_harmless(REREGISTER, "client reregister")
        wait_until(lambda: self.said_by_administrator().count(OUR_JOIN) > before,
                   "ours has joined again")

    def test_port_down_and_up(self):
        for number, host in ((2, self.ours), (1, self.theirs)):
            set_cable(number, "down")
            wait_until(lambda at=host: not at.has_carrier(), "carrier is lost")
            set_cable(number, "up")
            wait_until(host.has_carrier, "carrier is back")
            for lost in self.lost_after():
                self.assertLessEqual(lost, OUTAGE, host.name)

    def test_ours_is_killed_and_comes_back(self):
        before = self.ours.ibarp("info")["lladdr"]
        self.ours.kill()
        self.ours.start()
        wait_until(self.ours.is_ready, "it is back")
        self.assertNotEqual(self.ours.ibarp("info")["lladdr"], before, "a new queue pair")
        for lost in self.lost_after():
            self.assertLessEqual(lost, OUTAGE)

    def test_interface_of_theirs_down_and_up(self):
        self.theirs.run("ip", "link", "set", "ib0", "down")
        self.assertFalse(self.ours.reaches(THEIRS[0]))
        self.theirs.run("ip", "link", "set", "ib0", "up")
        wait_until(self.theirs.has_carrier, "it is up")
        self.configure(self.theirs, f"{THEIRS[1]}/64")  # which does not stay
        for lost in self.lost_after():
            self.assertLessEqual(lost, OUTAGE)

    def test_interface_of_theirs_leaves_groups_for_ours_on_the_same_port(self):
        beside = guest.UserSpaceHost(self.subnet, "beside", "rxe1")
        self.addCleanup(self.restart_theirs)  # which ours in turn leaves for
        self.addCleanup(beside.close)
        beside.start("--membership-check", "1", address="10.44.0.3/24")
        join = OUR_JOIN.replace("lid 3", "lid 2")
        before = self.said_by_administrator().count(join)
        self.theirs.run("ip", "link", "set", "ib0", "down")
        wait_until(lambda: "the port is no longer in it" in beside.daemon.output(),
                   "the loss is noticed")
        wait_until(lambda: self.said_by_administrator().count(join) > before, "it has joined again")
        wait_until(lambda: self.ours.reaches("10.44.0.3"), "it is reached")

    def restart_theirs(self):
        for state in ("down", "up"):
            self.theirs.run("ip", "link", "set", "ib0", state)
        wait_until(self.theirs.has_carrier, "it is up")
        self.configure(self.theirs, f"{THEIRS[1]}/64")

    def test_driver_of_theirs_is_loaded_anew(self):
        before = self.theirs.link()["address"]
        subprocess.run(["modprobe", "-r", "ib_ipoib"], check=True)
        subprocess.run(["modprobe", "ib_ipoib"], check=True)
        type(self).theirs = KernelHost(self.subnet, "theirs again", "ib1")
        self.assertNotEqual(self.theirs.link()["address"], before, "a new queue pair")
        self.configure(self.theirs, f"{THEIRS[0]}/24", f"{THEIRS[1]}/64")
        for address in OURS:
            self.assertEqual(self.theirs.ping(address, "-c", "1", "-W", "20").returncode, 0)
        self.assertEqual(self.lost_after(), [0, 0, 0, 0], "whom it asks knows it at once")

    def move_administrator(self, number):
        """To port rxe<number>, from the one where it is now."""
        (old,) = subprocess.run(["pidof", "sa_responder"], check=True, capture_output=True,
                                text=True).stdout.split()
        type(self).sa_log = pathlib.Path(f"/run/sa{number}.log")
        with open(self.sa_log, "wb") as out:
            subprocess.Popen(["/run/sa_responder", "-d", f"rxe{number}", "-v"], stdout=out)
        wait_until(lambda: "SA ready" in self.said_by_administrator(), "it serves")
        subprocess.run(["kill", old], check=True)
        pathlib.Path("/sys/module/rdma_rxe/parameters/sm_lid").write_text(str(number + 1),
                                                                          encoding="utf-8")

    @staticmethod
    def tell(*ports):
        """That the administrator has moved."""
        for event in (SM_CHANGE, REREGISTER):
            for port in ports:
                fire(event, port)

    def test_subnet_administrator_moves_to_another_port(self):
        for number in (3, 0):
            lost = self.lost_during(lambda to=number: self.move_administrator(to))
            self.assertEqual(lost, [0, 0], "nobody knows")
            self.assertEqual(self.lost_during(lambda: self.tell("rxe2")), [0, 0], "ours is told")
            for lost in self.lost_during(lambda: self.tell("rxe1")):
                self.assertLessEqual(lost, OUTAGE, "theirs is told")
            wait_until(lambda: OUR_JOIN in self.said_by_administrator(), "ours has joined there")
            self.ours.run(guest.program("ibarp"), "flush")
            self.theirs.run("ip", "neigh", "flush", "dev", "ib0")
            self.assert_connected()
            self.assertIn("SA: lid 3 method 0x1 attr 0x35", self.said_by_administrator(),
                          "where paths are asked for, too")


if __name__ == "__main__":
    guest.main()
