#!/usr/bin/env python3
"""Hosts on an emulated subnet that reach others through gateways, and by multicast."""

import json
import sys

import hosts
from hosts import wait_until

# Joins a group on ib0 and prints each word that comes for it.
LISTENER = """
import socket, struct, sys
group = socket.inet_aton(sys.argv[1])
heard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
heard.bind(('', 5002))
index = socket.if_nametoindex('ib0')
if len(sys.argv) == 2:
    heard.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                     struct.pack('4s4si', group, bytes(4), index))
print('listening', flush=True)
while True:
    print(heard.recv(100).decode(), flush=True)
"""
SPEAKER = """
import socket, struct, sys
speaker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
speaker.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF,
                   struct.pack('4s4si', bytes(4), bytes(4), socket.if_nametoindex('ib0')))
speaker.sendto(sys.argv[2].encode(), (sys.argv[1], 5002))
"""


class OnASubnet(hosts.Pair):
    def setUp(self):
        self.set_up()
        self.others = []

    def another(self, name, address):
        host = self.subnet.host(name)
        host.start(address=address)
        return host

    def group(self, host, mgid):
        """How a host is in a group; None: not at all."""
        for group in host.ibarp("info")["groups"]:
            if group["mgid"] == mgid:
                return group["membership"]
        return None


class Gateways(OnASubnet):
    """10.44.0.1 and 10.45.0.2 on one link, with a router between their networks."""

    def setUp(self):
        super().setUp()
        self.left.start(address="10.44.0.1/24")
        self.right.start(address="10.45.0.2/24")
        self.router = self.another("router", "10.44.0.254/24")
        self.router.run("ip", "addr", "add", "10.45.0.254/24", "dev", "ib0")
        self.router.run("sysctl", "-qw", "net.ipv4.ip_forward=1",
                        "net.ipv4.conf.all.send_redirects=0", "net.ipv4.conf.ib0.send_redirects=0")

    def neighbours_for(self, address):
        """Whom left asks for when it reaches an address with nothing resolved; None: it does not. The
        daemon learns of a route a moment after the kernel."""
        self.left.run(hosts.program("ibarp"), "flush")
        if not self.left.reaches(address):
            return None
        shown = self.left.run(hosts.program("ibarp"), "show", "--json").stdout
        return [entry["address"] for entry in json.loads(shown)]

    def test_leads_both_ways(self):
        self.left.run("ip", "route", "add", "default", "via", "10.44.0.254")
        self.right.run("ip", "route", "add", "default", "via", "10.45.0.254")
        wait_until(lambda: self.left.reaches("10.45.0.2"), "left reaches right")
        wait_until(lambda: self.right.reaches("10.44.0.1"), "right reaches left")
        wait_until(lambda: self.neighbours_for("10.45.0.2") == ["10.44.0.254"],
                   "the gateway is asked for, and not the destination")

    def test_change_of_route_is_followed(self):
        self.left.run("ip", "route", "add", "10.45.0.0/24", "via", "10.44.0.200")
        self.right.run("ip", "route", "add", "default", "via", "10.45.0.254")
        wait_until(lambda: not self.left.reaches("10.45.0.2"), "there is no such gateway")
        self.left.run("ip", "route", "replace", "10.45.0.0/24", "via", "10.44.0.254")
        wait_until(lambda: self.left.reaches("10.45.0.2"), "left reaches right")

    def test_leads_to_an_ethernet(self):
        self.router.run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
        outside = self.subnet.host("outside")
        self.router.run("ip", "link", "set", "eth1", "netns", outside.namespace)
        self.router.run("ip", "addr", "add", "10.46.0.254/24", "dev", "eth0")
        self.router.run("ip", "link", "set", "eth0", "up")
        outside.run("ip", "addr", "add", "10.46.0.3/24", "dev", "eth1")
        outside.run("ip", "link", "set", "eth1", "up")
        outside.run("ip", "route", "add", "default", "via", "10.46.0.254")
        self.left.run("ip", "route", "add", "default", "via", "10.44.0.254")
        wait_until(lambda: self.left.reaches("10.46.0.3"), "left reaches the outside")
        wait_until(lambda: outside.reaches("10.44.0.1"), "the outside reaches left")


class Multicast(OnASubnet):
    GROUP, MGID = "239.1.2.3", "ff12:401b:ffff::f01:203"

    def setUp(self):
        super().setUp()
        self.start()
        self.third = self.another("third", "10.44.0.3/24")

    def listen(self, host, *options):
        log = self.subnet.folder / f"{host.name}.heard"
        log.unlink(missing_ok=True)
        listener = hosts.Process(host.command(sys.executable, "-c", LISTENER, self.GROUP, *options),
                                 log, self.subnet.environment)
        self.addCleanup(listener.end)
        wait_until(lambda: "listening" in listener.output(), "the listener listens")
        return listener

    def speak(self, host, word):
        host.run(sys.executable, "-c", SPEAKER, self.GROUP, word)

    def test_reaches_those_in_the_group_and_nobody_else(self):
        first, second = self.listen(self.right), self.listen(self.third)
        for host in (self.right, self.third):
            wait_until(lambda: self.group(host, self.MGID) == "full", "the group is joined")
        stranger = self.subnet.host("stranger")
        stranger.start(address="10.44.0.4/24")
        deaf = self.listen(stranger, "without joining")
        wait_until(lambda: self.speak(self.left, "hello") or "hello" in first.output(), "it hears")
        wait_until(lambda: "hello" in second.output(), "so does the other one")
        self.assertEqual(self.group(self.left, self.MGID), "send-only")
        self.assertNotIn("hello", deaf.output())
        self.assertIsNone(self.group(stranger, self.MGID))

    def test_group_is_left_with_its_last_listener(self):
        listener = self.listen(self.right)
        wait_until(lambda: self.group(self.right, self.MGID) == "full", "the group is joined")
        listener.end()
        wait_until(lambda: self.group(self.right, self.MGID) is None, "the group is left")

    def notices(self, host, trap):
        """How many reports of a trap have come to a host."""
        trace = json.loads(host.run(hosts.program("ibarp"), "trace", "--json").stdout)[0]
        return sum(record["keyword"] == "notice" and record["first"] == trap
                   for record in trace["records"])

    def test_news_of_a_group_are_heard(self):
        """It is missing until somebody is in it, and forgotten when nobody is any more, long before
        it would be for being idle: both are reports of the subnet administrator."""
        self.speak(self.left, "too early")
        wait_until(lambda: self.group(self.left, self.MGID) == "missing", "the group is missing")
        before = self.notices(self.left, 66)
        listener = self.listen(self.right)
        wait_until(lambda: self.notices(self.left, 66) > before, "trap 66 is reported")
        wait_until(lambda: self.group(self.left, self.MGID) is None, "it is missing no more")
        wait_until(lambda: self.group(self.right, self.MGID) == "full", "right is in it")
        self.speak(self.left, "hello")
        wait_until(lambda: "hello" in listener.output(), "the first packet is heard")
        self.assertEqual(self.group(self.left, self.MGID), "send-only")
        listener.end()
        wait_until(lambda: self.notices(self.left, 67) > 0, "trap 67 is reported")
        wait_until(lambda: self.group(self.left, self.MGID) is None, "the group is forgotten")

    def test_news_come_after_an_sm_restart_as_well(self):
        self.softib_set("sm", "restart")

        def is_reported():
            """Left may have subscribed again too late for the first."""
            listener = self.listen(self.right)
            wait_until(lambda: self.group(self.right, self.MGID) == "full", "the group is joined")
            listener.end()
            wait_until(lambda: self.group(self.right, self.MGID) is None, "the group is left")
            return self.notices(self.left, 67) > 0

        wait_until(is_reported, "trap 67 is reported")

    def start_second(self):
        """Another daemon on the left port."""
        log = self.subnet.folder / "second.log"
        second = hosts.Process(
            self.left.command(hosts.program("softib"), "run", "--hca", "left", "--",
                              hosts.program("ipoibd"), "--pkey", "0xffff", "--name", "ibx"),
            log, self.subnet.environment)
        self.addCleanup(second.end)
        self.left.configure("ibx", "10.44.9.1/24")
        return second

    def test_another_daemon_that_leaves_for_the_whole_port(self):
        self.left.daemon.end()
        self.left.start("--membership-check", "1", address="10.44.0.1/24")
        self.start_second().end()
        wait_until(lambda: "the port is no longer in it" in self.left.daemon.output(),
                   "the loss is noticed")
        gid = self.left.ibarp("info")["gid"]
        wait_until(lambda: all(gid in [member["gid"] for member in group["members"]]
                               for group in json.loads(self.left.run(
                                   hosts.program("ibarp"), "groups", "-j", "-i", "ib0").stdout)
                               if group["membership"] == "full"),
                   "the port is in all groups again")
        self.right.run(hosts.program("ibarp"), "flush")
        self.assert_connected()

    def test_without_reports_when_another_daemon_has_them(self):
        second = self.start_second()
        self.assertIn("another program has the subnet administrator's reports", second.output())
        self.assertNotIn("another program has", self.left.daemon.output())

    def test_group_that_nobody_is_in_is_not_made(self):
        self.speak(self.left, "hello")
        wait_until(lambda: self.group(self.left, self.MGID) == "missing", "the group is missing")
        wait_until(lambda: self.left.ibarp("stats")["drops"].get("drop_no_group", 0) > 0,
                   "the drop is counted, when there turn out to be no routers either")


if __name__ == "__main__":
    hosts.main()
