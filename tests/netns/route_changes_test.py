#!/usr/bin/env python3
"""Changes of routes take effect for the first packet after them."""

import json
import sys

import hosts
import streams
from hosts import wait_until

# How often a change is made; before, 5 to 10 of 10 first packets took the old route.
ROUNDS = 10


class Changes(hosts.Pair):
    """left, and the gateways right and third, which have the addresses behind them. The peers reply only for
    addresses of ib0, so that a packet that takes the destination to be on the link does not arrive."""

    def setUp(self):
        self.set_up()
        self.start()
        self.third = self.add_host("third", "10.44.0.3/24")
        for host, number in ((self.left, 1), (self.right, 2), (self.third, 3)):
            host.run("sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.ib0.arp_ignore=1")
            host.run("ip", "-6", "addr", "add", f"fd96::{number}/64", "dev", "ib0", "nodad")
        for host in (self.right, self.third):
            for number in range(2 * ROUNDS):
                host.run("ip", "addr", "add", f"10.50.{number}.1/32", "dev", "lo")
                host.run("ip", "-6", "addr", "add", f"fd50:{number}::1/128", "dev", "lo")
            host.run("ip", "-6", "route", "add", "fd90::/16", "via", "fd96::1", check=False)
            wait_until(lambda to=host: self.left.reaches("10.44.0.2" if to is self.right else "10.44.0.3"),
                       "left reaches the gateway")
            wait_until(lambda to=host: self.left.reaches("fd96::2" if to is self.right else "fd96::3"),
                       "left reaches the gateway by IPv6")

    def first_pings(self, change, address):
        """Makes change(i), then pings address(i) once, at once, ROUNDS times. Returns how many were lost."""
        lost = []
        for number in range(ROUNDS):
            commands = " && ".join([*change(number), f"ping -n -c 1 -W 1 {address(number)}"])
            done = self.left.run("sh", "-c", commands, check=False)
            if done.returncode != 0:
                lost.append((commands, done.stdout, done.stderr))
        return lost

    def solicited(self):
        """Returns the addresses off the link that left has entries for."""
        shown = json.loads(self.left.run(hosts.program("ibarp"), "show", "--json").stdout)
        return [entry["address"] for entry in shown
                if entry["address"].startswith(("10.50.", "fd50:"))]

    def check_first_pings(self, change, address):
        self.assertEqual(self.first_pings(change, address), [])
        self.assertEqual(self.solicited(), [], "nothing off the link is solicited")

    def test_first_packet_by_a_new_ipv6_route(self):
        self.check_first_pings(lambda i: [f"ip -6 route add fd50:{i}::/64 via fd96::2"],
                               lambda i: f"fd50:{i}::1")

    def test_first_packet_by_a_new_ipv4_route(self):
        self.check_first_pings(lambda i: [f"ip route add 10.50.{i}.0/24 via 10.44.0.2"],
                               lambda i: f"10.50.{i}.1")

    def test_first_packet_by_a_new_nexthop_object(self):
        self.check_first_pings(lambda i: [f"ip nexthop add id {i + 7} via fd96::2 dev ib0",
                                          f"ip -6 route add fd50:{i}::/64 nhid {i + 7}"],
                               lambda i: f"fd50:{i}::1")
        self.check_first_pings(lambda i: [f"ip nexthop add id {i + 107} via 10.44.0.2 dev ib0",
                                          f"ip route add 10.50.{i}.0/24 nhid {i + 107}"],
                               lambda i: f"10.50.{i}.1")

    def test_first_packet_by_a_replaced_nexthop_object(self):
        for mode in ("1", "0"):
            self.left.run("sysctl", "-qw", f"net.ipv4.nexthop_compat_mode={mode}")
            self.left.run("ip", "nexthop", "replace", "id", "7", "via", "fd96::9", "dev", "ib0")
            self.left.run("ip", "-6", "route", "replace", "fd50::/16", "nhid", "7")
            self.check_first_pings(lambda i: ["ip nexthop replace id 7 via fd96::9 dev ib0",
                                              "ip nexthop replace id 7 via fd96::2 dev ib0"],
                                   lambda i: f"fd50:{i}::1")

    def test_first_packet_by_a_replaced_route(self):
        """There is no host at the old gateway."""
        self.check_first_pings(lambda i: [f"ip route add 10.50.{i}.0/24 via 10.44.0.9",
                                          f"ip route replace 10.50.{i}.0/24 via 10.44.0.2"],
                               lambda i: f"10.50.{i}.1")
        self.check_first_pings(lambda i: [f"ip -6 route add fd50:{i}::/64 via fd96::9",
                                          f"ip -6 route replace fd50:{i}::/64 via fd96::2"],
                               lambda i: f"fd50:{i}::1")

    def test_first_packet_by_another_route_after_one_was_deleted(self):
        self.left.run("ip", "route", "add", "10.50.0.0/16", "via", "10.44.0.2")
        self.left.run("ip", "-6", "route", "add", "fd50::/16", "via", "fd96::2")
        self.check_first_pings(lambda i: [f"ip route add 10.50.{i}.0/24 via 10.44.0.9",
                                          f"ip route del 10.50.{i}.0/24"], lambda i: f"10.50.{i}.1")
        self.check_first_pings(lambda i: [f"ip -6 route add fd50:{i}::/64 via fd96::9",
                                          f"ip -6 route del fd50:{i}::/64"], lambda i: f"fd50:{i}::1")

    def test_first_packet_by_a_new_rule(self):
        for family, gateway, prefix in (("-4", "10.44.0", "10.50.0.0/16"), ("-6", "fd96:", "fd50::/16")):
            self.left.run("ip", family, "route", "add", prefix, "via", f"{gateway}{'.' if family == '-4' else ':'}9")
            self.left.run("ip", family, "route", "add", prefix, "via",
                          f"{gateway}{'.' if family == '-4' else ':'}2", "table", "100")
        self.check_first_pings(lambda i: [f"ip rule add to 10.50.{i}.0/24 table 100"],
                               lambda i: f"10.50.{i}.1")
        self.check_first_pings(lambda i: [f"ip -6 rule add to fd50:{i}::/64 table 100"],
                               lambda i: f"fd50:{i}::1")

    def test_first_packet_after_an_address_has_gone(self):
        """With an address go its subnet, and the IPv4 routes that have it as their source, in silence."""
        self.left.run("ip", "route", "add", "10.50.0.0/16", "via", "10.44.0.2")
        self.check_first_pings(lambda i: ["ip addr add 10.50.0.200/16 dev ib0 metric 1",
                                          "ip addr del 10.50.0.200/16 dev ib0"],
                               lambda i: f"10.50.{i}.1")
        self.check_first_pings(lambda i: ["ip addr add 10.51.0.200/32 dev ib0",
                                          f"ip route add 10.50.{i}.0/24 via 10.44.0.9 src 10.51.0.200",
                                          "ip addr del 10.51.0.200/32 dev ib0"],
                               lambda i: f"10.50.{i}.1")

    def test_first_packet_after_the_interface_was_down(self):
        """IPv4 routes go with it, in silence."""
        self.check_first_pings(lambda i: ["ip route replace 10.50.0.0/16 via 10.44.0.9",
                                          "ip link set ib0 down", "ip link set ib0 up",
                                          "ip route add 10.50.0.0/16 via 10.44.0.2"],
                               lambda i: f"10.50.{i}.1")

    def test_a_packet_without_a_route_is_refused(self):
        """Its sender is bound to the interface. Nobody is asked for the address."""
        before = self.left.counters()
        ping = self.left.ping("10.50.0.1", "-c", "1", "-W", "1", "-I", "ib0")
        self.assertIn("Destination Net Unreachable", ping.stdout)
        after = self.left.counters()
        self.assertEqual(self.solicited(), [])
        self.assertEqual(after["arp_requests_broadcast"], before["arp_requests_broadcast"])
        self.assertEqual(after["drop_no_route"] - before["drop_no_route"], 1)


if __name__ == "__main__":
    hosts.main()
