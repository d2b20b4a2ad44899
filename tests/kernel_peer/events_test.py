#!/usr/bin/env python3
"""Events of ports, of the SA and of either side, while the kernel's IPoIB and ours ping each other;
lost pings are counted."""

import pathlib
import subprocess

import guest
from guest import KernelHost, wait_until

OURS, THEIRS = ("10.44.0.1", "fd44::1"), ("10.44.0.2", "fd44::2")
# Lost pings, at ten per second: the bound in docs/states.md for a port that comes up.
OUTAGE = 50
# Numbers for ib_event.
PORT_ACTIVE, PORT_ERROR, LID_CHANGE, PKEY_CHANGE, SM_CHANGE, REREGISTER = 9, 10, 11, 12, 13, 17
# The SA's log line for our join of the broadcast group.
OUR_JOIN = "SA: lid 3 method 0x2 attr 0x38 mask 0x10083 ff12:401b:ffff::ffff:ffff js 1 -> 0"


def fire(event, device):
    pathlib.Path(f"/sys/class/infiniband/{device}/ib_event").write_text(str(event),
                                                                        encoding="utf-8")


def set_cable(number, state):
    """Sets the far end of port rxe<number>'s veth pair up or down. (If its own end went down, its
    address would be gone, and a failed send would break QP1 for the kernel's MAD layer.)"""
    subprocess.run(["ip", "link", "set", f"b{number}", state], check=True)


class Events(guest.KernelPeer):
    PORTS = 4

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

    def lost_during(self, event):
        """Returns how many pings ours and theirs lose during an event."""
        pings = [self.start_pings(self.ours, THEIRS[0]), self.start_pings(self.theirs, OURS[0])]
        event()
        for ping in pings:
            ping.wait_for(10)
        return [ping.end() for ping in pings]

    def lost_after(self):
        """Returns how many pings ours and theirs lose from now on, with IPv4 and IPv6."""
        return [ping.end() for ours, theirs in zip(OURS, THEIRS)
                for ping in (self.start_pings(self.ours, theirs), self.start_pings(self.theirs, ours))]

    def assert_harmless(self, event, name):
        """Checks that ours loses nothing when its port raises an event that does not apply. The
        kernel may lose packets, up to a bound."""
        line = f"rxe2: {name}"
        before = self.ours.daemon.output().count(line)
        for device, bound in (("rxe2", 0), ("rxe1", OUTAGE)):
            for lost in self.lost_during(lambda at=device: fire(event, at)):
                self.assertLessEqual(lost, bound, f"{name} of {device}")
        self.assertEqual(self.ours.daemon.output().count(line), before + 1, "ours has logged it")

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
        before = self.sa.output().count(OUR_JOIN)
        self.assert_harmless(REREGISTER, "client reregister")
        wait_until(lambda: self.sa.output().count(OUR_JOIN) > before,
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
        wait_until(self.ours.is_ready, "ours is ready")
        self.assertNotEqual(self.ours.ibarp("info")["lladdr"], before, "a new queue pair")
        for lost in self.lost_after():
            self.assertLessEqual(lost, OUTAGE)

    def test_interface_of_theirs_down_and_up(self):
        self.theirs.run("ip", "link", "set", "ib0", "down")
        self.assertFalse(self.ours.reaches(THEIRS[0]))
        self.theirs.run("ip", "link", "set", "ib0", "up")
        wait_until(self.theirs.has_carrier, "the interface is up")
        self.configure(self.theirs, f"{THEIRS[1]}/64")  # it is lost when the interface goes down
        for lost in self.lost_after():
            self.assertLessEqual(lost, OUTAGE)

    def test_interface_of_theirs_leaves_groups_for_ours_on_the_same_port(self):
        beside = guest.UserSpaceHost(self.subnet, "beside", "rxe1")
        self.addCleanup(self.restart_theirs)  # beside.close() leaves the groups for the whole port
        self.addCleanup(beside.close)
        beside.start("--membership-check", "1", address="10.44.0.3/24")
        join = OUR_JOIN.replace("lid 3", "lid 2")
        before = self.sa.output().count(join)
        self.theirs.run("ip", "link", "set", "ib0", "down")
        wait_until(lambda: "the port is no longer a member" in beside.daemon.output(),
                   "the loss is noticed")
        wait_until(lambda: self.sa.output().count(join) > before, "ours has joined again")
        wait_until(lambda: self.ours.reaches("10.44.0.3"), "the daemon on their port is reachable")

    def restart_theirs(self):
        for state in ("down", "up"):
            self.theirs.run("ip", "link", "set", "ib0", state)
        wait_until(self.theirs.has_carrier, "the interface is up")
        self.configure(self.theirs, f"{THEIRS[1]}/64")

    def test_driver_of_theirs_is_reloaded(self):
        before = self.theirs.link()["address"]
        subprocess.run(["modprobe", "-r", "ib_ipoib"], check=True)
        subprocess.run(["modprobe", "ib_ipoib"], check=True)
        type(self).theirs = KernelHost(self.subnet, "theirs again", "ib1")
        self.assertNotEqual(self.theirs.link()["address"], before, "a new queue pair")
        self.configure(self.theirs, f"{THEIRS[0]}/24", f"{THEIRS[1]}/64")
        for address in OURS:
            self.assertEqual(self.theirs.ping(address, "-c", "1", "-W", "20").returncode, 0)
        self.assertEqual(self.lost_after(), [0, 0, 0, 0], "peers know the new address at once")

    def move_sa(self, number):
        """Moves the SA to port rxe<number>."""
        old = self.sa
        type(self).sa = guest.start_sa(number)
        old.end()
        pathlib.Path("/sys/module/rdma_rxe/parameters/sm_lid").write_text(str(number + 1),
                                                                          encoding="utf-8")

    @staticmethod
    def announce_move(*ports):
        """Raises the events of an SM that has moved."""
        for event in (SM_CHANGE, REREGISTER):
            for port in ports:
                fire(event, port)

    def test_sa_moves_to_another_port(self):
        for number in (3, 0):
            lost = self.lost_during(lambda to=number: self.move_sa(to))
            self.assertEqual(lost, [0, 0], "no port has an event")
            self.assertEqual(self.lost_during(lambda: self.announce_move("rxe2")), [0, 0], "ours has the events")
            for lost in self.lost_during(lambda: self.announce_move("rxe1")):
                self.assertLessEqual(lost, OUTAGE, "theirs has the events")
            wait_until(lambda: OUR_JOIN in self.sa.output(), "ours has joined at the new SA")
            self.ours.run(guest.program("ibarp"), "flush")
            self.theirs.run("ip", "neigh", "flush", "dev", "ib0")
            self.assert_connected()
            self.assertIn("SA: lid 3 method 0x1 attr 0x35", self.sa.output(),
                          "paths are requested there, too")


if __name__ == "__main__":
    guest.main()
