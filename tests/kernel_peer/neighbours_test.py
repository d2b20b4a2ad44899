#!/usr/bin/env python3
"""What a host does for addresses that are not those of its interface, or of nobody: the kernel's
IPoIB and ours do the same."""

import sys

import guest
from guest import KernelPeer, wait_until

import streams

OURS, THEIRS = "10.44.0.1", "10.44.0.2"
THEIRS6 = "fd44::2"
STATION, STATION6 = "10.44.0.11", "fd44::11"
VIRTUAL, ROUTED = "10.99.0.1", "10.44.0.66"


class Neighbours(KernelPeer):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.start_ours()
        cls.configure(cls.theirs, f"{THEIRS}/24", f"{THEIRS6}/64")

    @classmethod
    def start_ours(cls):
        cls.ours.start()
        cls.configure(cls.ours, f"{OURS}/24", "fd44::1/64")

    def both_ways(self):
        for asker, owner in ((self.ours, self.theirs), (self.theirs, self.ours)):
            with self.subTest(owner=owner.name):
                yield asker, owner

    def reaches_again(self, asker, address):
        """Returns whether a host reaches an address that it has to resolve."""
        self.theirs.run("ip", "neigh", "flush", "dev", "ib0")
        self.ours.run(guest.program("ibarp"), "flush")
        return asker.reaches(address)

    def set_arp(self, host, **settings):
        host.run("sysctl", "-qw", *(f"net.ipv4.conf.ib0.{name}={value}"
                                    for name, value in settings.items()))

    def test_unused_address_is_unreachable(self):
        for host in self.ours, self.theirs:
            for address in "10.44.0.77", "fd44::77":
                for kind in "tcp", "udp":
                    with self.subTest(host=host.name, address=address, kind=kind):
                        done = host.run(sys.executable, "-c", streams.CONNECT, address, kind)
                        self.assertEqual(done.stdout.strip(), "EHOSTUNREACH", done.stderr)

    def test_virtual_address(self):
        for asker, owner in self.both_ways():
            owner.run("ip", "addr", "add", f"{VIRTUAL}/32", "dev", "lo")
            asker.run("ip", "route", "add", VIRTUAL, "dev", "ib0")
            wait_until(lambda a=asker: self.reaches_again(a, VIRTUAL), "the address is reached")
            self.set_arp(owner, arp_ignore=1)
            wait_until(lambda a=asker: not self.reaches_again(a, VIRTUAL), "arp_ignore is followed")
            self.set_arp(owner, arp_ignore=0)
            wait_until(lambda a=asker: self.reaches_again(a, VIRTUAL), "the address is reached again")
            asker.run("ip", "route", "del", VIRTUAL, "dev", "ib0")
            owner.run("ip", "addr", "del", f"{VIRTUAL}/32", "dev", "lo")

    def test_proxy_arp(self):
        for asker, owner in self.both_ways():
            owner.run("ip", "link", "add", "veth0", "type", "veth", "peer", "name", "veth1")
            owner.run("ip", "link", "set", "veth0", "up")
            owner.run("ip", "link", "set", "veth1", "up")
            owner.run("ip", "route", "add", ROUTED, "dev", "veth0")
            owner.run("sysctl", "-qw", "net.ipv4.conf.ib0.forwarding=1")
            self.reaches_again(asker, ROUTED)
            self.assertFalse(self.knows(asker, ROUTED), "no proxy yet")
            self.set_arp(owner, proxy_arp=1)
            wait_until(lambda a=asker: self.reaches_again(a, ROUTED) or self.knows(a, ROUTED),
                       "the proxy replies")
            self.set_arp(owner, proxy_arp=0)
            owner.run("ip", "link", "del", "veth0")

    def start_station(self):
        """Makes our interface an Ethernet one, and a port of a bridge; returns a host behind that."""
        ours = self.ours
        self.addCleanup(self.start_ours)
        ours.daemon.end()
        ours.start("--ethernet")
        self.addCleanup(ours.daemon.end)
        ours.bridge("ib0", mtu=2044)
        self.addCleanup(ours.run, "ip", "link", "delete", "br0")
        station = guest.Host(self.subnet, "station")
        self.addCleanup(station.close)
        ours.add_port("veth0", station, mtu=2044)
        for address in f"{STATION}/24", f"{STATION6}/64":
            station.run("ip", "addr", "add", address, "dev", "eth0")
        station.run("ip", "link", "set", "eth0", "up")
        return station

    def test_station_behind_a_bridge(self):
        """As a container or a virtual machine is."""
        station = self.start_station()
        for here, there in ((STATION, THEIRS), (STATION6, THEIRS6)):
            wait_until(lambda to=there: station.reaches(to), "the station reaches theirs")
            wait_until(lambda to=here: self.theirs.reaches(to), "theirs reaches the station")
            self.assertIn(self.ours.ibarp("info")["lladdr"][3:],
                          self.theirs.run("ip", "neigh", "show", here).stdout)
            streams.tcp(station, self.theirs, there, 4)
            streams.tcp(self.theirs, station, here, 4)
            streams.udp(self.theirs, station, here, 10, 8000)

    def knows(self, host, address):
        """Returns whether a host has the link-layer address of an IP address."""
        if host is self.theirs:
            return "lladdr" in host.run("ip", "neigh", "show", address).stdout
        shown = host.run(guest.program("ibarp"), "show", address, check=False).stdout
        return any(state in shown for state in ("reachable", "stale", "delay", "probing"))


if __name__ == "__main__":
    guest.main()
