#!/usr/bin/env python3
"""Segmentation and checksum offload: large packets are segmented and coalesced on the way."""

import subprocess
import sys

import hosts
import streams
from hosts import need, wait_until

MIB = 64

# Sends random bytes in datagrams of one size, many in one call.
DATAGRAMS = """
import os, socket, sys
SEGMENT = 103  # UDP_SEGMENT of linux/udp.h
size, count = 1000, 40
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
peer = socket.socket(family, socket.SOCK_DGRAM)
peer.settimeout(30)
peer.setsockopt(socket.IPPROTO_UDP, SEGMENT, size)
peer.connect((sys.argv[1], 5001))
for call in range(50):
    data = os.urandom(size * count - 1)
    peer.send(data)
    back = [peer.recv(1 << 16) for _ in range(count)]
    assert [len(part) for part in back] == [size] * (count - 1) + [size - 1]
    assert b''.join(back) == data, 'all datagrams arrive in order'
"""


class Pair(hosts.Pair):
    def features(self, host, *changes):
        host.run("ethtool", "-K", "ib0", *changes)

    def count(self, host, name):
        return host.counters()[name]

    def add_ipv6(self):
        """Returns the IPv4 and the IPv6 address of right."""
        self.right.run("ip", "addr", "add", "fd44::2/64", "dev", "ib0", "nodad")
        self.left.run("ip", "addr", "add", "fd44::1/64", "dev", "ib0", "nodad")
        wait_until(lambda: self.left.reaches("fd44::2"), "left reaches right by IPv6")
        return ("10.44.0.2", "fd44::2")

    def assert_nothing_malformed(self):
        for host in (self.left, self.right):
            self.assertEqual(self.count(host, "drop_host_malformed"), 0)
            self.assertEqual(self.count(host, "drop_host_refused"), 0)


class Offload(Pair):
    def setUp(self):
        self.set_up()
        self.start()

    def test_tcp_is_segmented_and_coalesced(self):
        for address in self.add_ipv6():
            before = self.count(self.left, "tx_segments"), self.count(self.right, "rx_segments")
            streams.tcp(self.left, self.right, address, MIB)
            packets = MIB * (1 << 20) // 2044
            self.assertGreater(self.count(self.left, "tx_segments") - before[0], packets // 2)
            self.assertGreater(self.count(self.right, "rx_segments") - before[1], packets // 10)
        self.assert_nothing_malformed()

    def test_tcp_without_offloads(self):
        addresses = self.add_ipv6()
        for host, features in ((self.left, ("tso", "off", "gso", "off")), (self.right, ("tx", "off"))):
            self.features(host, *features)
        before = self.count(self.left, "tx_segments")
        for address in addresses:
            streams.tcp(self.left, self.right, address, MIB // 4)
        self.assertEqual(self.count(self.left, "tx_segments"), before)
        self.assert_nothing_malformed()

    def test_udp_segments_arrive_unchanged(self):
        for address in self.add_ipv6():
            listening = streams.start(self.right, streams.UDP_ECHO, self.subnet.folder, "udp")
            try:
                done = self.left.run(sys.executable, "-c", DATAGRAMS, address, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
            finally:
                listening.end()
        self.assert_nothing_malformed()

    def test_smaller_path_mtu(self):
        self.softib_set("mtu", "right", "1024")
        streams.tcp(self.left, self.right, "10.44.0.2", MIB // 4)
        self.assertEqual(self.left.link()["mtu"], 2044, "the MTU of the link is unchanged")
        self.assertGreater(self.count(self.left, "drop_path_mtu_exceeded"), 0)
        self.assertGreater(self.count(self.left, "tx_segments"), 0, "the kernel passes large packets")

    def test_small_send_queue(self):
        self.left.daemon.end()
        self.left.start("--send-queue", "32", address="10.44.0.1/24")
        self.assert_connected()
        streams.tcp(self.left, self.right, "10.44.0.2", MIB // 4)
        self.assertEqual(self.count(self.left, "tx_segments"), 0, "the kernel does the segmentation")


class Gateway(Pair):
    def test_forwards_coalesced_packets(self):
        self.set_up()
        router = self.start_with_router()
        self.left.run("ip", "route", "add", "default", "via", "10.44.0.254")
        self.right.run("ip", "route", "add", "default", "via", "10.45.0.254")
        wait_until(lambda: self.left.reaches("10.45.0.2"), "left reaches right")
        streams.tcp(self.left, self.right, "10.45.0.2", MIB // 4)
        self.assertGreater(self.count(router, "rx_segments"), 0)
        self.assertGreater(self.count(router, "tx_segments"), 0)


class Captured(Pair):
    def setUp(self):
        self.set_up()
        self.left.capture = self.subnet.folder / "left.erf"
        self.right.capture = self.subnet.folder / "right.erf"
        self.start()

    def test_checksums_on_the_wire(self):
        streams.tcp(self.left, self.right, "10.44.0.2", 2)
        for host in (self.left, self.right):
            host.daemon.end()
            shown = subprocess.run(
                ["tshark", "-r", str(host.capture), "-o", "tcp.check_checksum:TRUE", "-o",
                 "ip.check_checksum:TRUE", "-Y", "tcp", "-T", "fields", "-e", "ip.len", "-e",
                 "ip.checksum.status", "-e", "tcp.checksum.status", "-e", "tcp.checksum"],
                check=True, capture_output=True, text=True).stdout
            rows = [line.split("\t") for line in shown.splitlines()]
            self.assertGreater(len(rows), 1000)
            self.assertLessEqual(max(int(row[0]) for row in rows), 2044)
            self.assertEqual([row for row in rows if row[1:3] != ["1", "1"]], [],
                             "all checksums are valid")


if __name__ == "__main__":
    need("ethtool", "tshark")
    hosts.main()
