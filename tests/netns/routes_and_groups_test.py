#!/usr/bin/env python3
"""Gateways and multicast on an emulated subnet."""

import json
import signal
import sys

import hosts
import other_program
import streams
from hosts import wait_until

BROADCAST = "ff12:401b:ffff::ffff:ffff"


# Prints the sizes of the UDP datagrams that arrive.
RECEIVER = """
import socket
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(('', 4455))
print('listening', flush=True)
while True:
    print('got', len(receiver.recv(65536)), flush=True)
"""
# Sends one UDP datagram to sys.argv[1], without DF.
DATAGRAM = """
import socket, sys
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.setsockopt(socket.IPPROTO_IP, 10, 0)  # IP_MTU_DISCOVER, IP_PMTUDISC_DONT
sender.sendto(bytes(int(sys.argv[2])), (sys.argv[1], 4455))
"""


class OnASubnet(hosts.Pair):
    def setUp(self):
        self.set_up()

    def group(self, host, mgid):
        """Returns the membership of a host in a group; None if it has none."""
        for group in host.ibarp("info")["groups"]:
            if group["mgid"] == mgid:
                return group["membership"]
        return None


class Gateways(OnASubnet):
    """10.44.0.1 and 10.45.0.2 on one link, with a router between their networks."""

    def setUp(self):
        super().setUp()
        self.router = self.start_with_router()

    def neighbours_for(self, address):
        """Returns the neighbours that left resolves to reach an address; None if it does not reach it.
        The daemon learns of a route slightly later than the kernel."""
        self.left.run(hosts.program("ibarp"), "flush")
        if not self.left.reaches(address):
            return None
        shown = self.left.run(hosts.program("ibarp"), "show", "--json").stdout
        return [entry["address"] for entry in json.loads(shown)]

    def test_forwards_both_ways(self):
        self.left.run("ip", "route", "add", "default", "via", "10.44.0.254")
        self.right.run("ip", "route", "add", "default", "via", "10.45.0.254")
        wait_until(lambda: self.left.reaches("10.45.0.2"), "left reaches right")
        wait_until(lambda: self.right.reaches("10.44.0.1"), "right reaches left")
        wait_until(lambda: self.neighbours_for("10.45.0.2") == ["10.44.0.254"],
                   "left resolves the gateway, not the destination")

    def test_routes_beyond_the_maximum_are_ignored_and_reported(self):
        batch = self.subnet.folder / "batch"
        batch.write_text("".join(
            f"route add 172.{16 + (number >> 16)}.{number >> 8 & 255}.{number & 255}/32 dev ib0\n"
            for number in range(65_546)), encoding="ascii")
        self.left.run("ip", "-batch", str(batch))
        self.left.wait_for_log(" routes through the interface are ignored, beyond the maximum of 65536: "
                               "replace some by routes of shorter prefixes")
        self.assertTrue(self.left.reaches("10.44.0.254"))

    def test_change_of_route_is_followed(self):
        self.left.run("ip", "route", "add", "10.45.0.0/24", "via", "10.44.0.200")
        self.right.run("ip", "route", "add", "default", "via", "10.45.0.254")
        wait_until(lambda: not self.left.reaches("10.45.0.2"), "there is no such gateway")
        self.left.run("ip", "route", "replace", "10.45.0.0/24", "via", "10.44.0.254")
        wait_until(lambda: self.left.reaches("10.45.0.2"), "left reaches right")

    def test_redirect_is_followed(self):
        """The router says that left had better use right for 10.46.0.0/24."""
        self.right.run("ip", "addr", "add", "10.44.0.253/24", "dev", "ib0")
        self.right.run("ip", "addr", "add", "10.46.0.2/32", "dev", "lo")
        self.router.run("sysctl", "-qw", "net.ipv4.conf.all.send_redirects=1",
                        "net.ipv4.conf.ib0.send_redirects=1")
        self.router.run("ip", "route", "add", "10.46.0.0/24", "via", "10.44.0.253")
        self.left.run("ip", "route", "add", "default", "via", "10.44.0.254")
        wait_until(lambda: self.neighbours_for("10.46.0.2") == ["10.44.0.253"],
                   "left uses right as the gateway")
        self.left.run("ip", "route", "flush", "cache")
        self.router.run("sysctl", "-qw", "net.ipv4.conf.all.send_redirects=0",
                        "net.ipv4.conf.ib0.send_redirects=0")
        self.left.run("ip", "route", "add", "10.99.0.0/24", "via", "10.44.0.254")
        wait_until(lambda: self.neighbours_for("10.46.0.2") == ["10.44.0.254"],
                   "left uses the router again")

    def test_dead_router_is_replaced(self):
        second = self.add_host("second", "10.44.0.252/24")
        second.run("ip", "addr", "add", "10.45.0.252/24", "dev", "ib0")
        second.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        self.left.run("ip", "route", "add", "10.45.0.0/24", "nexthop", "via", "10.44.0.254",
                      "nexthop", "via", "10.44.0.252")
        self.right.run("ip", "route", "add", "10.44.0.0/24", "dev", "ib0")
        destinations = [f"10.45.0.{number}" for number in range(10, 18)]  # some by each router
        for address in destinations:
            self.right.run("ip", "addr", "add", f"{address}/32", "dev", "ib0")
        self.router.kill()
        for address in destinations:
            wait_until(lambda to=address: self.left.reaches(to), f"left reaches {address}")

        def state_of_the_dead_one():
            shown = json.loads(self.left.run(hosts.program("ibarp"), "show", "--json").stdout)
            return [entry["state"] for entry in shown if entry["address"] == "10.44.0.254"]

        wait_until(lambda: state_of_the_dead_one() == ["failed"], "left has noticed")

    def send_datagrams(self, size):
        """Left sends right UDP datagrams without DF until one arrives."""
        receiver = streams.start(self.right, RECEIVER, self.subnet.folder, f"datagram-{size}")
        self.addCleanup(receiver.end)

        def arrives():
            self.left.run(sys.executable, "-c", DATAGRAM, "10.45.0.2", str(size))
            return f"got {size}" in receiver.output()

        wait_until(arrives, f"a datagram of {size} bytes arrives")

    def test_fragments_packets_without_df(self):
        """The path from the router to right has a smaller MTU than the link."""
        self.softib_set("mtu", "right", "1024")
        self.left.run("ip", "route", "add", "default", "via", "10.44.0.254")
        self.right.run("ip", "route", "add", "default", "via", "10.45.0.254")
        wait_until(lambda: self.left.reaches("10.45.0.2"), "left reaches right")
        self.send_datagrams(1900)
        self.assertGreater(self.router.counters().get("packets_fragmented", 0), 0)
        self.assertEqual(self.left.ping("10.45.0.2", "-c", "3", "-i", "0.2", "-M", "do", "-s", "1900",
                                        ).returncode, 1)
        self.assertGreater(self.router.counters().get("too_big_answers", 0), 0)

    def test_forwards_to_an_ethernet(self):
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
        self.third = self.add_host("third", "10.44.0.3/24")

    def listen(self, host, join="join"):
        listener = streams.start(host, streams.LISTENER, self.subnet.folder, "heard", self.GROUP, join)
        self.addCleanup(listener.end)
        return listener

    def speak(self, host, word):
        host.run(sys.executable, "-c", streams.SPEAKER, self.GROUP, word)

    def test_reaches_only_members(self):
        first, second = self.listen(self.right), self.listen(self.third)
        for host in (self.right, self.third):
            wait_until(lambda: self.group(host, self.MGID) == "full", "the group is joined")
        outsider = self.subnet.host("outsider")
        outsider.start(address="10.44.0.4/24")
        overheard = self.listen(outsider, "without joining")
        wait_until(lambda: self.speak(self.left, "hello") or "hello" in first.output(),
                   "the first member receives it")
        wait_until(lambda: "hello" in second.output(), "the second member receives it")
        self.assertEqual(self.group(self.left, self.MGID), "send-only")
        self.assertNotIn("hello", overheard.output())
        self.assertIsNone(self.group(outsider, self.MGID))

    def test_group_is_left_with_its_last_listener(self):
        listener = self.listen(self.right)
        wait_until(lambda: self.group(self.right, self.MGID) == "full", "the group is joined")
        listener.end()
        wait_until(lambda: self.group(self.right, self.MGID) is None, "the group is left")

    def notices(self, host, trap, interface="ib0"):
        """Returns how many reports of a trap a host has received."""
        trace = json.loads(host.run(hosts.program("ibarp"), "trace", "--json", "-i",
                                    interface).stdout)[0]
        return sum(record["keyword"] == "notice" and record["first"] == trap
                   for record in trace["records"])

    def test_sender_follows_reports_about_a_group(self):
        """The group is missing until it has a member, and left when the last member leaves, long before
        the idle timeout: the SA reports both."""
        self.speak(self.left, "too early")
        wait_until(lambda: self.group(self.left, self.MGID) == "missing", "the group is missing")
        before = self.notices(self.left, 66)
        listener = self.listen(self.right)
        wait_until(lambda: self.notices(self.left, 66) > before, "trap 66 is reported")
        wait_until(lambda: self.group(self.left, self.MGID) is None, "the group is no longer missing")
        wait_until(lambda: self.group(self.right, self.MGID) == "full", "right is in it")
        self.speak(self.left, "hello")
        wait_until(lambda: "hello" in listener.output(), "the first packet arrives")
        self.assertEqual(self.group(self.left, self.MGID), "send-only")
        listener.end()
        wait_until(lambda: self.notices(self.left, 67) > 0, "trap 67 is reported")
        wait_until(lambda: self.group(self.left, self.MGID) is None, "the sender has left the group")

    def test_reports_arrive_after_an_sm_restart(self):
        self.softib_set("sm", "restart")

        def is_reported():
            """Left may subscribe again too late for the first report."""
            listener = self.listen(self.right)
            wait_until(lambda: self.group(self.right, self.MGID) == "full", "the group is joined")
            listener.end()
            wait_until(lambda: self.group(self.right, self.MGID) is None, "the group is left")
            return self.notices(self.left, 67) > 0

        wait_until(is_reported, "trap 67 is reported")

    def start_second(self):
        """Starts another daemon on the left port."""
        log = self.subnet.folder / "second.log"
        second = hosts.Process(
            self.left.command(hosts.program("softib"), "run", "--hca", "left", "--",
                              hosts.program("ipoibd"), "--pkey", "0xffff", "--name", "ibx"),
            log, self.subnet.environment)
        self.addCleanup(second.end)
        self.left.configure("ibx", "10.44.9.1/24")
        return second

    def receivers(self):
        """Returns the names of the HCAs that receive broadcasts."""
        groups = json.loads(self.subnet.softib("show", "--json"))["groups"]
        return next(set(group["receivers"]) for group in groups if group["mgid"] == BROADCAST)

    def test_end_of_another_daemon_on_the_port(self):
        listener = self.listen(self.left)
        wait_until(lambda: self.group(self.left, self.MGID) == "full", "the group is joined")
        second = self.start_second()
        self.assertEqual(second.end(), 0)
        self.assertIn("left", self.receivers())
        self.right.run(hosts.program("ibarp"), "flush")
        self.assert_connected()
        wait_until(lambda: self.speak(self.right, "hello") or "hello" in listener.output(),
                   "left still receives its group")
        self.assertNotIn("no longer a member", self.left.daemon.output())

    def test_end_of_the_first_daemon_on_the_port(self):
        self.start_second()
        self.assertEqual(self.left.daemon.end(), 0)
        self.assertIn("left", self.receivers())
        self.right.run("ip", "addr", "add", "10.44.9.2/24", "dev", "ib0")
        wait_until(lambda: self.right.reaches("10.44.9.1"), "right reaches the second one")

    def test_last_daemon_on_the_port_leaves(self):
        second = self.start_second()
        self.left.daemon.end()
        self.assertIn("left", self.receivers())
        second.end()
        self.assertNotIn("left", self.receivers())

    def test_end_of_a_daemon_after_another_one_was_killed(self):
        second = self.start_second()
        second.end(signal.SIGKILL)
        self.left.daemon.end()
        self.assertNotIn("left", self.receivers())

    def test_another_program_that_leaves_for_the_whole_port(self):
        """It is noticed long before the next regular check, two minutes later."""
        self.right.run("ping", "-b", "-c", "1", "-W", "1", "10.44.0.255", check=False)
        other_program.leave(self.subnet, "left", BROADCAST, other_program.FULL)
        self.left.wait_for_log("broadcast group", "no longer a member")
        wait_until(lambda: "left" in self.receivers(), "left receives broadcasts again")
        self.assertGreater(self.left.counters()["memberships_lost"], 0)
        self.right.run(hosts.program("ibarp"), "flush")
        self.assert_connected()

    def test_reports_are_taken_over_when_the_other_daemon_ends(self):
        second = self.start_second()
        self.assertIn("another program on the port receives the SA's reports", second.output())
        self.assertNotIn("another program on", self.left.daemon.output())
        self.left.daemon.end()
        wait_until(lambda: "receiving the SA's reports from now on" in second.output(),
                   "the second one receives them")
        before = self.notices(self.left, 66, "ibx")
        self.listen(self.right)
        wait_until(lambda: self.notices(self.left, 66, "ibx") > before, "trap 66 is reported")

    def test_group_without_members_is_not_created(self):
        self.speak(self.left, "hello")
        wait_until(lambda: self.group(self.left, self.MGID) == "missing", "the group is missing")
        wait_until(lambda: self.left.counters().get("multicast_unheard", 0) > 0,
                   "the drop is counted, since there are no multicast routers either")


class MulticastRouter(OnASubnet):
    """A static multicast route from the link to an Ethernet behind the host `router`."""

    GROUP, MGID = "239.1.2.3", "ff12:401b:ffff::f01:203"
    ALL_ROUTERS = "ff12:401b:ffff::2"
    # Forwards packets of 10.44.0.1 to the group from the first interface to the second.
    ROUTER = """
import socket, struct, sys, time
MRT_INIT, MRT_ADD_VIF, MRT_ADD_MFC, USE_IFINDEX, MAXVIFS = 200, 202, 204, 8, 32
control = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_IGMP)
control.setsockopt(socket.IPPROTO_IP, MRT_INIT, 1)
for number, name in enumerate(sys.argv[2:]):
    control.setsockopt(socket.IPPROTO_IP, MRT_ADD_VIF,
                       struct.pack('HBBIi4s', number, USE_IFINDEX, 1, 0, socket.if_nametoindex(name),
                                   bytes(4)))
limits = bytearray(MAXVIFS)
limits[1] = 1
control.setsockopt(socket.IPPROTO_IP, MRT_ADD_MFC,
                   socket.inet_aton('10.44.0.1') + socket.inet_aton(sys.argv[1]) +
                   struct.pack('H', 0) + limits + bytes(2) + struct.pack('IIIi', 0, 0, 0, 0))
print('listening', flush=True)
while True:
    time.sleep(60)
"""

    def test_forwards_a_group_without_joining_it(self):
        self.start()
        router = self.add_host("router", "10.44.0.254/24")
        router.run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
        outside = self.subnet.host("outside")
        router.run("ip", "link", "set", "eth1", "netns", outside.namespace)
        router.run("ip", "addr", "add", "10.46.0.254/24", "dev", "eth0")
        router.run("ip", "link", "set", "eth0", "up")
        outside.run("ip", "addr", "add", "10.46.0.3/24", "dev", "eth1")
        outside.run("ip", "link", "set", "eth1", "up")
        outside.run("ip", "route", "add", "default", "via", "10.46.0.254")
        member = streams.start(self.right, streams.LISTENER, self.subnet.folder, "member",
                               self.GROUP, "join")
        self.addCleanup(member.end)
        wait_until(lambda: self.group(self.right, self.MGID) == "full", "the group exists")
        heard = streams.start(outside, streams.LISTENER.replace("ib0", "eth1"), self.subnet.folder,
                              "outside", self.GROUP, "join")
        self.addCleanup(heard.end)
        self.assertIsNone(self.group(router, self.MGID))
        routing = streams.start(router, self.ROUTER, self.subnet.folder, "routing", self.GROUP,
                                "ib0", "eth0")
        self.addCleanup(routing.end)
        wait_until(lambda: self.group(router, self.MGID) == "routed", "the router receives the group")
        may_leave = "speaker.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 8)\nspeaker.sendto"
        speaker = streams.SPEAKER.replace("speaker.sendto", may_leave)
        wait_until(lambda: self.left.run(sys.executable, "-c", speaker, self.GROUP, "hello")
                   and "hello" in heard.output(), "the packet leaves the link")
        member.end()
        wait_until(lambda: self.group(router, self.MGID) is None, "the group has no members")
        wait_until(lambda: self.left.run(sys.executable, "-c", speaker, self.GROUP, "again")
                   and "again" in heard.output(), "the packet goes to the routers")
        self.assertEqual(self.group(router, self.ALL_ROUTERS), "full")
        routing.end()
        wait_until(lambda: self.group(router, self.ALL_ROUTERS) is None,
                   "the router has left the group of the routers")


if __name__ == "__main__":
    hosts.main()
