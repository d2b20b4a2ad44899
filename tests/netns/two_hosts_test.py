#!/usr/bin/env python3
"""Two ipoibd on an emulated subnet, each in a network namespace of its own."""

import os
import signal
import sys
import unittest

import hosts
from hosts import wait_until

FLOOD = 10000
BULK_MIB = int(os.environ.get("IPOIB_BULK_MIB", "1024"))

# Sends numbered blocks over TCP; both ends print the checksum of what they saw.
SENDER = """
import hashlib, os, socket, sys
block, digest = os.urandom(1 << 20), hashlib.blake2b()
with socket.create_connection((sys.argv[1], 5001)) as peer:
    for i in range(int(sys.argv[2])):
        data = i.to_bytes(8, 'big') + block[8:]
        digest.update(data)
        peer.sendall(data)
print(digest.hexdigest())
"""
RECEIVER = """
import hashlib, socket
digest = hashlib.blake2b()
server = socket.create_server(('0.0.0.0', 5001))
print('listening', flush=True)
peer, _ = server.accept()
while data := peer.recv(1 << 18):
    digest.update(data)
print(digest.hexdigest())
"""


class TwoHosts(unittest.TestCase):
    def setUp(self):
        self.subnet = hosts.Subnet()
        self.addCleanup(self.subnet.close)
        self.addCleanup(self.show_logs)
        self.left = self.subnet.host("left")
        self.right = self.subnet.host("right")
        self.left.start(address="10.44.0.1/24")
        self.right.start(address="10.44.0.2/24")

    def show_logs(self):
        outcome = self._outcome.result
        if any(test is self for test, _ in outcome.failures + outcome.errors):
            print(self.subnet.logs(), file=sys.stderr)

    def assert_connected(self):
        wait_until(lambda: self.left.reaches("10.44.0.2"), "left reaches right")
        wait_until(lambda: self.right.reaches("10.44.0.1"), "right reaches left")

    def test_ping_both_ways(self):
        for host, peer in ((self.left, "10.44.0.2"), (self.right, "10.44.0.1")):
            ping = host.ping(peer, "-c", "3", "-i", "0.05")
            self.assertEqual(hosts.received(ping), 3, ping.stdout)

    def test_interface_looks_like_infiniband(self):
        link = self.left.link()
        self.assertEqual(link["link_type"], "infiniband")
        self.assertEqual(link["mtu"], 2044)
        self.assertEqual(self.left.addresses(), ["10.44.0.1"])

    def test_full_size_packets(self):
        for size in (1, 500, 2044 - 28):
            ping = self.left.ping("10.44.0.2", "-c", "1", "-W", "5", "-M", "do", "-s", str(size))
            self.assertEqual(hosts.received(ping), 1, ping.stdout)

    def test_broadcast(self):
        self.right.run("sysctl", "-qw", "net.ipv4.icmp_echo_ignore_broadcasts=0")
        ping = self.left.ping("10.44.0.255", "-b", "-c", "1", "-W", "5")
        self.assertIn("from 10.44.0.2", ping.stdout)

    def test_flood_loses_nothing(self):
        ping = self.left.ping("10.44.0.2", "-f", "-q", "-c", str(FLOOD))
        self.assertEqual(hosts.received(ping), FLOOD, ping.stdout)

    def test_tcp_transfer_arrives_whole(self):
        log = os.path.join(self.subnet.folder, "receiver.out")
        receiver = hosts.Process(self.right.command(sys.executable, "-c", RECEIVER), log,
                                 self.subnet.environment)
        wait_until(lambda: "listening" in receiver.output(), "the receiver listens")
        sent = self.left.run(sys.executable, "-c", SENDER, "10.44.0.2", str(BULK_MIB))
        receiver.popen.wait(hosts.PATIENCE)
        self.assertEqual(receiver.output().split()[-1], sent.stdout.strip())

    def test_recovers_from_kill(self):
        self.assert_connected()
        self.right.kill()
        wait_until(lambda: not self.right.has_carrier(), "ib0 has lost carrier")
        self.assertEqual(self.right.addresses(), ["10.44.0.2"], "interface and address stay")
        self.right.start()
        wait_until(self.right.has_carrier, "ib0 has carrier again")
        self.assert_connected()

    def test_ends_in_order(self):
        self.assert_connected()
        self.assertEqual(self.right.daemon.end(signal.SIGTERM), 0, self.right.daemon.output())
        self.assertIsNone(self.right.link(), "the interface is removed")
        self.assertEqual(self.left.daemon.end(signal.SIGINT), 0, self.left.daemon.output())
        self.assertIsNone(self.left.link(), "the interface is removed")

    def test_port_down_is_link_down(self):
        self.assert_connected()
        self.softib_set("right", "down")
        wait_until(lambda: not self.right.has_carrier(), "ib0 has lost carrier")
        self.assertTrue(self.left.has_carrier())
        self.softib_set("right", "up")
        wait_until(self.right.has_carrier, "ib0 has carrier again")
        self.assert_connected()

    def test_survives_the_subnet_process(self):
        self.assert_connected()
        self.subnet.process.end(signal.SIGKILL)
        self.assert_connected()
        self.subnet.start()
        self.assert_connected()

    def softib_set(self, hca, state):
        done = self.subnet.softib("set", "port", hca, state)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: needs root for network namespaces and TUN devices")
        sys.exit(hosts.SKIPPED)
    unittest.main(verbosity=2)
