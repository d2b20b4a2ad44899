#!/usr/bin/env python3
"""Two ipoibd on an emulated subnet, each in its own network namespace."""

import json
import os
import signal
import sys

import hosts
import streams
from hosts import wait_until

BULK_MIB = int(os.environ.get("IPOIB_BULK_MIB", "1024"))
# Pings, one after the other; with sanitizers, as the bulk transfers, fewer.
FLOOD = 10 * BULK_MIB


class TwoHosts(hosts.Pair):
    def setUp(self):
        self.set_up()
        self.start()

    def test_ping_both_ways(self):
        for host, peer in ((self.left, "10.44.0.2"), (self.right, "10.44.0.1")):
            self.assertEqual(host.lost_of(3, peer, "-i", "0.05"), 0)

    def test_interface_looks_like_infiniband(self):
        link = self.left.link()
        self.assertEqual(link["link_type"], "infiniband")
        self.assertEqual(link["mtu"], 2044)
        self.assertEqual(self.left.addresses(), ["10.44.0.1"])

    def test_full_size_packets(self):
        for size in (1, 500, 2044 - 28):
            ping = self.left.ping("10.44.0.2", "-c", "1", "-W", "5", "-M", "do", "-s", str(size))
            self.assertEqual(hosts.received(ping), 1, ping.stdout)

    def test_unused_address_is_unreachable(self):
        self.left.run("ip", "addr", "add", "fd44::1/64", "dev", "ib0", "nodad")
        for address in "10.44.0.77", "fd44::77":
            for kind in "tcp", "udp", "tcp":  # the last one while the failure is remembered
                with self.subTest(address=address, kind=kind):
                    done = self.left.run(sys.executable, "-c", streams.CONNECT, address, kind)
                    self.assertEqual(done.stdout.strip(), "EHOSTUNREACH")
        self.assertGreater(self.left.counters()["unreachable_answers"], 0)

    def test_broadcast(self):
        self.right.run("sysctl", "-qw", "net.ipv4.icmp_echo_ignore_broadcasts=0")
        ping = self.left.ping("10.44.0.255", "-b", "-c", "1", "-W", "5")
        self.assertIn("from 10.44.0.2", ping.stdout)

    def test_flood_loses_nothing(self):
        self.assertEqual(self.left.lost_of(FLOOD, "10.44.0.2", "-i", "0"), 0)

    def test_tcp_transfer_arrives_whole(self):
        streams.tcp(self.left, self.right, "10.44.0.2", BULK_MIB)

    def test_recovers_from_kill(self):
        self.assert_connected()
        self.right.kill()
        wait_until(lambda: not self.right.has_carrier(), "ib0 has lost carrier")
        self.assertEqual(self.right.addresses(), ["10.44.0.2"], "interface and address stay")
        self.right.start()
        wait_until(self.right.has_carrier, "ib0 has carrier again")
        self.assert_connected()

    def test_exits_cleanly(self):
        self.assert_connected()
        self.assertEqual(self.right.daemon.end(signal.SIGTERM), 0, self.right.daemon.output())
        self.assertIsNone(self.right.link(), "the interface is removed")
        # A second signal comes before it has ended.
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
            self.left.daemon.popen.send_signal(number)
        self.assertEqual(self.left.daemon.end(signal.SIGINT), 0, self.left.daemon.output())
        self.assertIsNone(self.left.link(), "the interface is removed")

    def test_port_down_is_link_down(self):
        self.assert_connected()
        self.softib_set("port", "right", "down")
        wait_until(lambda: not self.right.has_carrier(), "ib0 has lost carrier")
        self.assertTrue(self.left.has_carrier())
        self.softib_set("port", "right", "up")
        wait_until(self.right.has_carrier, "ib0 has carrier again")
        self.assert_connected()

    def test_survives_the_subnet_process(self):
        self.assert_connected()
        self.subnet.kill_subnet()
        self.assert_connected()
        self.subnet.start_subnet()
        self.assert_connected()

    def test_exits_cleanly_without_a_subnet_process(self):
        self.assert_connected()
        self.subnet.kill_subnet()
        self.assertEqual(self.right.daemon.end(signal.SIGTERM), 0, self.right.daemon.output())
        self.assertIsNone(self.right.link(), "the interface is removed")

    def test_recovers_from_another_lid(self):
        self.assert_connected()
        self.softib_set("lid", "right", "0x77")
        wait_until(lambda: "LID 0x77" in self.right.daemon.output(), "right has its new LID")
        self.assert_connected()

    def test_recovers_from_an_error_of_its_queue_pair(self):
        self.assert_connected()
        self.softib_set("qp", "left", "error")
        self.left.wait_for_log("was in error", "is up again")
        self.assert_connected()
        self.softib_set("qp", "right", "error", str(self.right.ibarp("info")["qpn"]))
        self.right.wait_for_log("was in error", "is up again")
        self.assert_connected()
        shown = json.loads(self.subnet.run_softib("show", "--json").stdout)
        counters = {node["name"]: node["counters"] for node in shown["nodes"]}
        self.assertEqual([counters[host]["qp_errors"] for host in ("left", "right")], [1, 1])

    def test_joins_again_after_an_sm_restart(self):
        self.assert_connected()
        self.softib_set("sm", "restart")
        wait_until(lambda: self.members("ff12:401b:ffff::ffff:ffff") == {"left", "right"},
                   "both are members again")
        self.assertTrue(self.left.has_carrier())
        self.assert_connected()

    def test_leaves_its_groups(self):
        self.assert_connected()
        self.right.daemon.end(signal.SIGTERM)
        for group in ("ff12:401b:ffff::ffff:ffff", "ff12:401b:ffff::1"):
            self.assertEqual(self.members(group), {"left"}, group)

    def test_exits_when_its_interface_is_deleted(self):
        self.right.run("ip", "link", "del", "ib0")
        self.assertEqual(self.right.daemon.popen.wait(hosts.PATIENCE), 1)
        self.assertIn("deleted", self.right.daemon.output().splitlines()[-1])

    def test_host_with_many_addresses(self):
        batch = self.subnet.folder / "addresses"
        batch.write_text("".join(f"addr add 10.45.{i // 250}.{i % 250 + 1}/32 dev ib0\n"
                                 for i in range(1000)))
        self.right.run("ip", "-batch", str(batch))
        self.left.run("ip", "route", "add", "10.45.0.0/16", "dev", "ib0")
        wait_until(lambda: self.left.reaches("10.45.3.250"), "left reaches the last of them")

    def members(self, group):
        for line in self.subnet.run_softib("show", "groups").stdout.splitlines():
            if group in line.split():
                return set(line.split()) & {"left", "right"}
        return set()


class OtherSettings(hosts.Pair):
    def test_mtu_of_the_group(self):
        self.set_up("--mtu", "4096")
        self.start()
        self.assertEqual(self.left.link()["mtu"], 4092)
        ping = self.left.ping("10.44.0.2", "-c", "1", "-W", "5", "-M", "do", "-s", str(4092 - 28))
        self.assertEqual(hosts.received(ping), 1, ping.stdout)

    def test_mtu_option(self):
        self.set_up()
        self.start("--mtu", "1500")
        self.assertEqual(self.left.link()["mtu"], 1500)
        self.assert_connected()

    def test_operator_changes_the_mtu(self):
        self.set_up()
        self.start()
        self.left.run("ip", "link", "set", "ib0", "mtu", "1500")
        self.softib_set("port", "left", "down")
        wait_until(lambda: not self.left.has_carrier(), "ib0 has lost carrier")
        self.softib_set("port", "left", "up")
        wait_until(self.left.has_carrier, "ib0 has carrier again")
        self.assertEqual(self.left.link()["mtu"], 1500)
        self.assert_connected()
        ping = self.right.ping("10.44.0.1", "-c", "1", "-W", "5", "-s", str(2044 - 28))
        self.assertEqual(hosts.received(ping), 1, "larger packets are still received")

    def test_mtu_that_the_link_does_not_carry(self):
        self.set_up()
        self.left.start("--mtu", "4000", address="10.44.0.1/24")
        self.left.wait_for_log("--mtu 4000", "2044", "broadcast group")
        self.left.run("ip", "link", "set", "ib0", "mtu", "4000")
        self.left.wait_for_log("MTU 4000", "2044", "broadcast group")
        info = self.left.ibarp("info")
        self.assertEqual((info["mtu"], info["host_mtu"]), (2044, 4000))
        self.assertIn("more than the link carries", self.left.run(hosts.program("ibarp"), "info").stdout)

    def test_mtu_of_a_path(self):
        self.set_up()
        self.start()
        self.softib_set("mtu", "right", "1024")
        refused = self.left.ping("10.44.0.2", "-c", "2", "-i", "0.1", "-M", "do", "-s", "1500")
        self.assertIn("mtu = 1020", refused.stdout)
        # Without DF the host fragments, as soon as it knows the path MTU.
        wait_until(lambda: hosts.received(self.left.ping("10.44.0.2", "-c", "1", "-W", "1",
                                                         "-M", "dont", "-s", "1500")) == 1,
                   "fragments arrive")
        self.assertEqual(self.left.link()["mtu"], 2044, "the MTU of the link is unchanged")
        self.assertGreater(self.left.counters()["drop_path_mtu_exceeded"], 0)

    def test_mtu_of_an_ipv6_path(self):
        self.set_up("--mtu", "4096")
        self.start()
        for number, host in ((1, self.left), (2, self.right)):
            host.run("ip", "addr", "add", f"fd44::{number}/64", "dev", "ib0", "nodad")
        self.softib_set("mtu", "right", "2048")
        refused = self.left.ping("fd44::2", "-c", "2", "-i", "0.1", "-M", "do", "-s", "3000")
        self.assertRegex(refused.stdout + refused.stderr, "mtu[=:] ?2044")
        wait_until(lambda: hosts.received(self.left.ping("fd44::2", "-c", "1", "-W", "1",
                                                         "-s", "3000")) == 1, "fragments arrive")
        self.assertEqual(self.left.link()["mtu"], 4092, "the MTU of the link is unchanged")

    def test_pkey_option(self):
        self.set_up("--partition", "0x12=full")
        self.start("--pkey", "0x0012")
        self.assert_connected()

    def test_small_queues(self):
        self.set_up()
        self.start("--send-queue", "16", "--receive-queue", "64")
        self.assert_connected()
        # More packets at a time than the send queue holds: the rest waits and is not lost. They and
        # their answers are never more than the receive queue holds.
        for _ in range(20):
            self.assertEqual(self.left.lost_of(32, "10.44.0.2", "-l", "32"), 0)


class SoftibOption(hosts.Pair):
    def test_starts_a_subnet_and_joins_it(self):
        """Just ipoibd --softib on both hosts, as a user without an HCA would type."""
        self.set_up()
        self.subnet.kill_subnet()
        self.left.start_alone("--softib", address="10.44.0.1/24")
        self.right.start_alone("--softib=/other", address="10.44.0.2/24")
        self.assert_connected()
        self.assertIn("the emulated subnet was started", self.left.daemon.output())
        self.assertNotIn("the emulated subnet was started", self.right.daemon.output())
        self.assertEqual(self.left.daemon.end(), 0, self.left.daemon.output())


if __name__ == "__main__":
    hosts.main()
