#!/usr/bin/env python3
"""Ethernet interfaces with the kernel's bridges, VLAN devices (ipoibd --vlan) and ipvlan devices, in a
virtual machine with a stock kernel. The subnet is an emulated one, since a RoCE port has only one partition.
"""

import machine

import hosts
import streams
from hosts import wait_until
from vlan_test import BLUE, OPTIONS, RED, UNTAGGED, OnTrunk

UNMAPPED = 20


class Container(hosts.Host):
    """A network namespace with an ipvlan device (L2) on ib0 of a host, as Docker's driver makes them."""

    def __init__(self, host, number):
        super().__init__(host.subnet, f"container{number}")
        host.subnet.hosts.append(self)
        self.address, self.address6 = f"10.44.0.{number}", f"fd44::{number}"
        host.run("ip", "link", "add", "link", "ib0", "name", f"ipvlan{number}", "type", "ipvlan", "mode", "l2")
        host.run("ip", "link", "set", f"ipvlan{number}", "netns", self.namespace, "name", "eth0")
        self.run("ip", "link", "set", "eth0", "up")
        self.run("ip", "addr", "add", f"{self.address}/24", "dev", "eth0")
        self.run("ip", "addr", "add", f"{self.address6}/64", "dev", "eth0", "nodad")


class KernelVlans(OnTrunk, machine.Cases):
    @classmethod
    def setUpClass(cls):
        cls.subnet = machine.Guest()

    def setUp(self):
        machine.Cases.setUp(self)
        OnTrunk.setUp(self)

    def start_switch(self, host):
        """VLAN 1, which is untagged, is that of ib0 itself."""
        host.run("ip", "link", "add", "br0", "type", "bridge", "vlan_filtering", "1")
        host.run("ip", "link", "set", "ib0", "master", "br0")
        for vlan in (RED, BLUE, UNMAPPED):
            host.run("bridge", "vlan", "add", "dev", "ib0", "vid", str(vlan))
        for vlan, station in self.behind[host].items():
            port = f"to-{station.name}"
            host.run("ip", "link", "set", port, "master", "br0")
            if vlan != UNTAGGED:
                host.run("bridge", "vlan", "del", "dev", port, "vid", "1")
                host.run("bridge", "vlan", "add", "dev", port, "vid", str(vlan), "pvid", "untagged")
        host.run("ip", "link", "set", "br0", "mtu", "2044", "up")

    def test_bridge_with_vlans(self):
        self.reach_each_other(UNTAGGED, RED, BLUE)
        self.check_isolation()
        self.check_streams(RED, mebibytes=2)

    def test_unmapped_vlan_of_a_bridge(self):
        red, far = self.pair(RED)
        self.reach_each_other(RED)
        port = f"to-{red.name}"
        self.left.run("bridge", "vlan", "del", "dev", port, "vid", str(RED))
        self.left.run("bridge", "vlan", "add", "dev", port, "vid", str(UNMAPPED), "pvid", "untagged")
        before = self.left.counters()["drop_ethernet_vlan"]
        self.assertFalse(red.reaches(far.address))
        self.assertGreater(self.left.counters()["drop_ethernet_vlan"], before)
        self.left.run("ip", "link", "set", "br0", "type", "bridge", "stp_state", "1")
        wait_until(lambda: self.left.counters()["drop_ethernet_stp"] > 0, "STP is dropped")

    def test_vlan_devices_of_the_host(self):
        """Left has a VLAN device on ib0 instead of the bridge, right has the bridge."""
        self.left.run("ip", "link", "del", "br0")
        for vlan in (RED, BLUE):
            self.left.run("ip", "link", "add", "link", "ib0", "name", f"ib0.{vlan}", "type", "vlan", "id",
                          str(vlan))
            self.left.run("ip", "addr", "add", f"10.44.{vlan}.1/24", "dev", f"ib0.{vlan}")
            self.left.run("ip", "link", "set", f"ib0.{vlan}", "up")
            far = self.behind[self.right][vlan]
            far.run("ip", "addr", "add", f"10.44.{vlan}.2/24", "dev", "eth0")
        for vlan, other in ((RED, BLUE), (BLUE, RED)):
            far = self.behind[self.right][vlan]
            wait_until(lambda a=f"10.44.{vlan}.2": self.left.reaches(a), f"the host reaches VLAN {vlan}")
            wait_until(lambda f=far, a=f"10.44.{vlan}.1": f.reaches(a), f"VLAN {vlan} reaches the host")
            self.assertIn(f"10.44.{vlan}.1", {one for one, _ in self.stations(self.left, f"ib0.{vlan}")})
            self.assertNotIn(f"10.44.{other}.1", {one for one, _ in self.stations(self.left, f"ib0.{vlan}")})
            streams.tcp(self.left, far, f"10.44.{vlan}.2", 2)
            streams.tcp(far, self.left, f"10.44.{vlan}.1", 2)
            self.assertGreater(self.left.counters(f"ib0.{vlan}")["tx_large_packets"], 0)

    def test_ipvlan_devices_of_the_host(self):
        """All have the MAC of ib0 of left."""
        self.left.run("ip", "link", "del", "br0")
        self.left.configure("ib0", "10.44.0.1/24")
        far = self.behind[self.right][UNTAGGED]
        containers = [Container(self.left, number) for number in (31, 32)]
        for one in containers:
            for to, back in ((far.address, one.address), (far.address6, one.address6)):
                wait_until(lambda s=one, t=to: s.reaches(t), f"{one.name} reaches {to}")
                wait_until(lambda t=back: far.reaches(t), f"{far.name} reaches {back}")
            streams.tcp(one, far, far.address, 2)
            streams.tcp(far, one, one.address, 2)
        wait_until(lambda: far.reaches("10.44.0.1"), "the host has an address beside them")

    def test_trunk_after_a_takeover(self):
        before = self.left.daemon
        self.addCleanup(before.end)
        self.left.start("--takeover", *OPTIONS, wait=False)
        wait_until(lambda: not before.is_running(), "the old daemon has ended")
        self.reach_each_other(RED, BLUE, UNTAGGED)


if __name__ == "__main__":
    why = machine.why_no_guest("IPOIB_VM")
    machine.main("vm", why, "--module", "8021q", "--module", "ipvlan")
