#!/usr/bin/env python3
"""The first datagram to a neighbour or a group arrives, also the largest one, which is sent in 33
fragments."""

import hosts
import streams
from hosts import wait_until

LARGEST = 65507  # bytes that an ICMP echo or a UDP datagram over IPv4 carries; IPv6: 20 bytes fewer
NEIGHBOURS = 4


class FirstDatagram(hosts.Pair):
    def setUp(self):
        self.set_up()
        self.start()
        for host, own in (self.left, 1), (self.right, 2):
            host.run("ip", "addr", "add", f"fd44::{own}/64", "dev", "ib0", "nodad")
        for number in range(NEIGHBOURS):
            self.left.run("ip", "addr", "add", f"10.44.0.{10 + number}/24", "dev", "ib0")
            self.right.run("ip", "addr", "add", f"10.44.0.{20 + number}/24", "dev", "ib0")

    def assert_nothing_dropped(self):
        drops = self.left.ibarp("stats")["drops"]
        self.assertEqual({name: count for name, count in drops.items() if "parked" in name and count}, {})

    def test_reaches_a_neighbour(self):
        for address, size in ("10.44.0.2", LARGEST), ("fd44::2", LARGEST - 20):
            with self.subTest(address):
                self.assertFalse(self.left.lost_of(1, address, "-s", str(size)))
        self.assert_nothing_dropped()

    def test_reaches_several_neighbours_at_once(self):
        """The host sends all of them before the first neighbour has responded."""
        # A ping with a raw socket gets the replies of all, for which its buffer may be too small.
        self.left.run("sysctl", "-qw", "net.ipv4.ping_group_range=0 0")
        script = "; ".join(f"ping -n -c 1 -W {hosts.PATIENCE} -s {LARGEST} -I 10.44.0.{10 + number} "
                           f"10.44.0.{20 + number} &" for number in range(NEIGHBOURS)) + " wait"
        script = script.replace("&;", "&")
        done = self.left.run("sh", "-c", script)
        self.assertEqual(done.stdout.count(" 1 received"), NEIGHBOURS, done.stdout)
        self.assert_nothing_dropped()

    def test_reaches_a_group(self):
        group, mgid = "239.1.2.9", "ff12:401b:ffff::f01:209"
        listening = streams.start(self.right, streams.LISTENER, self.subnet.folder, "group", group, "join")
        self.addCleanup(listening.end)
        wait_until(lambda: self.is_member(self.right, mgid), "right is a member")
        self.left.run("python3", "-c", streams.SPEAKER, group, "m" * LARGEST)
        wait_until(lambda: "mmm" in listening.output(), "the datagram arrives")
        self.assert_nothing_dropped()

    @staticmethod
    def is_member(host, mgid):
        return any(entry["mgid"] == mgid and entry["membership"] == "full"
                   for entry in host.ibarp("info")["groups"])


class FirstDatagramOnEthernet(hosts.Pair):
    def test_reaches_a_neighbour(self):
        self.set_up()
        self.start("--ethernet")
        self.assertFalse(self.left.lost_of(1, "10.44.0.2", "-s", str(LARGEST)))


if __name__ == "__main__":
    hosts.main()
