#!/usr/bin/env python3
"""Partitions with the kernel's IPoIB (child interfaces) and ours in them."""

import pathlib

import guest
from guest import wait_until

RED, BLUE, GREEN = "8001", "8002", "8003"
NETWORKS = {"ib0": "10.44.0", f"ib0.{RED}": "10.44.1", f"ib0.{BLUE}": "10.44.2",
            f"ib0.{GREEN}": "10.44.3"}


def set_pkeys(device, *pkeys):
    pathlib.Path(f"/sys/class/infiniband/{device}/ib_pkeys").write_text(" ".join(pkeys),
                                                                        encoding="utf-8")


class Partitions(guest.KernelPeer):
    """Both hosts are full members of the red partition; in the blue one ours is a limited member, in the
    green one both are."""

    SA_OPTIONS = [f"--pkey=0x{pkey}" for pkey in ("ffff", RED, BLUE, GREEN)]

    @classmethod
    def prepare_ports(cls):
        set_pkeys("rxe1", "0xffff", "0x8001", "0x8002", "0x0003")
        set_pkeys("rxe2", "0xffff", "0x8001", "0x0002", "0x0003")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for pkey in (RED, BLUE, GREEN):
            cls.theirs.run("ip", "link", "add", "link", "ib0", "name", f"ib0.{pkey}", "type",
                           "ipoib", "pkey", f"0x{pkey}")
            cls.theirs.run("ip", "link", "set", f"ib0.{pkey}", "up")
        cls.ours.start_all()
        for interface, network in NETWORKS.items():
            for host, number in ((cls.ours, 1), (cls.theirs, 2)):
                wait_until(lambda at=host, of=interface: at.has_carrier(of),
                           f"{interface} of {host.name} has carrier")
                cls.configure(host, f"{network}.{number}/24", interface=interface)

    def test_two_full_members(self):
        self.assert_connected(f"{NETWORKS[f'ib0.{RED}']}.1", f"{NETWORKS[f'ib0.{RED}']}.2")

    def test_full_and_limited_member(self):
        self.assert_connected(f"{NETWORKS[f'ib0.{BLUE}']}.1", f"{NETWORKS[f'ib0.{BLUE}']}.2")

    def test_limited_members_do_not_reach_each_other(self):
        network = NETWORKS[f"ib0.{GREEN}"]
        self.assertFalse(self.ours.reaches(f"{network}.2"))
        self.assertFalse(self.theirs.reaches(f"{network}.1"))
        self.assert_connected()

    def test_members_of_the_default_partition(self):
        self.assert_connected()

    def test_partitions_are_isolated(self):
        """An address in one partition is not reachable in another. By default Linux replies to ARP
        on each interface for the addresses of all."""
        for host in (self.ours, self.theirs):
            host.run("sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1")
            self.addCleanup(host.run, "sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=0")
        self.ours.run("ip", "addr", "add", "10.45.0.1/24", "dev", f"ib0.{RED}")
        self.theirs.run("ip", "addr", "add", "10.45.0.2/24", "dev", f"ib0.{BLUE}")
        self.assertFalse(self.ours.reaches("10.45.0.2"))
        self.assertFalse(self.theirs.reaches("10.45.0.1"))

    def test_pkey_disappears_and_comes_back(self):
        network = NETWORKS[f"ib0.{RED}"]
        set_pkeys("rxe2", "0xffff", "0", "0x0002", "0x0003")
        wait_until(lambda: self.ours.link(f"ib0.{RED}") is None, "its interface is removed")
        set_pkeys("rxe2", "0xffff", "0", "0x0002", "0x0003", "0x8001")
        self.configure(self.ours, f"{network}.1/24", interface=f"ib0.{RED}")
        self.assert_connected(f"{network}.1", f"{network}.2")

    def test_new_queue_pair_of_theirs(self):
        """Their child interface is deleted and created again."""
        network, name = NETWORKS[f"ib0.{RED}"], f"ib0.{RED}"
        self.assert_connected(f"{network}.1", f"{network}.2")
        before = self.theirs.link(name)["address"]
        self.theirs.run("ip", "link", "del", name)
        self.theirs.run("ip", "link", "add", "link", "ib0", "name", name, "type", "ipoib", "pkey",
                        f"0x{RED}")
        self.theirs.run("ip", "link", "set", name, "up")
        wait_until(lambda: self.theirs.has_carrier(name), "the interface is up")
        self.configure(self.theirs, f"{network}.2/24", interface=name)
        self.assertNotEqual(self.theirs.link(name)["address"], before)
        wait_until(lambda: self.ours.reaches(f"{network}.2"), "ours reaches theirs", 120)
        wait_until(lambda: self.theirs.reaches(f"{network}.1"), "theirs reaches ours")


if __name__ == "__main__":
    guest.main()
