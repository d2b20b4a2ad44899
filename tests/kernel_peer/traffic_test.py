#!/usr/bin/env python3
"""Traffic between the kernel's IPoIB and ours."""

import ipaddress
import json
import subprocess
import sys

import guest
from guest import KernelHost, KernelPeer, wait_until

import streams

OURS, THEIRS = ("10.44.0.1", "fd44::1"), ("10.44.0.2", "fd44::2")
TCP_MEBIBYTES = 4
UDP_ROUNDS = 20
HEADERS = {4: 28, 6: 48}  # IP, and ICMP or UDP
LARGEST_PACKET = {4: 65535, 6: 40 + 65535}
STEP = 7  # from one size of a packet to the next; odd, so that each alignment is among them

# Sends an echo request of each size, several at a time, and checks that the replies match.
ECHO = """
import os, socket, sys
address, may_be_fragmented, at_a_time = sys.argv[1], sys.argv[2] == 'fragments', int(sys.argv[3])
sizes = list(map(int, sys.argv[4:]))
if ':' in address:
    peer = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM, socket.IPPROTO_ICMPV6)
    peer.setsockopt(socket.IPPROTO_IPV6, 23, 1 if may_be_fragmented else 2)  # IPV6_MTU_DISCOVER
else:
    peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    peer.setsockopt(socket.IPPROTO_IP, 10, 1 if may_be_fragmented else 2)  # IP_MTU_DISCOVER
peer.settimeout(20)
peer.connect((address, 0))
request = b'\\x80' if ':' in address else b'\\x08'
while sizes:
    pending = {number.to_bytes(2, 'big') + os.urandom(sizes.pop()) for number in
               range(min(at_a_time, len(sizes)))}
    for data in pending:
        peer.send(request + bytes(5) + data)
    while pending:
        pending.remove(peer.recv(1 << 17)[6:])
"""


def version(address):
    return ipaddress.ip_address(address).version


class Exchange(KernelPeer):
    """Both hosts have an IPv4 and an IPv6 address."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.ours.start()
        for host, addresses in ((cls.ours, OURS), (cls.theirs, THEIRS)):
            cls.configure(host, f"{addresses[0]}/24", f"{addresses[1]}/64")

    def both_ways(self):
        for sender, receiver, addresses in ((self.ours, self.theirs, THEIRS),
                                            (self.theirs, self.ours, OURS)):
            for address in addresses:
                wait_until(lambda to=address, at=sender: at.reaches(to), f"{address} is reached")
                yield sender, receiver, address

    def echo(self, sender, address, fragments, at_a_time, packets):
        sender.run("sysctl", "-qw", "net.ipv4.ping_group_range=0 0")
        done = sender.run(sys.executable, "-c", ECHO, address, fragments, str(at_a_time),
                          *(str(packet - HEADERS[version(address)]) for packet in packets),
                          check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def ping_at_many_sizes(self, mtu, least=0):
        before = self.our_drops()
        for sender, receiver, address in self.both_ways():
            self.assertEqual((sender.link()["mtu"], receiver.link()["mtu"]), (mtu, mtu))
            headers = HEADERS[version(address)]
            self.echo(sender, address, "whole", 16, [*range(max(headers, least), mtu, STEP), mtu])
            self.echo(sender, address, "fragments", 1,
                      [mtu + 1, mtu + 2, 2 * mtu - 40, 2 * mtu, 5 * mtu + 1,
                       LARGEST_PACKET[version(address)]])
            too_large = sender.ping(address, "-c", "1", "-M", "do", "-s", str(mtu + 1 - headers))
            self.assertNotEqual(too_large.returncode, 0, too_large.stdout)
        self.assertEqual(self.our_drops(), before)

    def our_drops(self):
        return self.ours.ibarp("stats")["drops"]

    def tcp_and_udp(self):
        for sender, receiver, address in self.both_ways():
            streams.tcp(sender, receiver, address, TCP_MEBIBYTES)
            streams.udp(sender, receiver, address, UDP_ROUNDS, 8000)


class Traffic(Exchange):
    """The default settings."""

    def their_entry(self, address):
        """Returns the link-layer address that the kernel has for one of our addresses."""
        found = json.loads(self.theirs.run("ip", "-json", "neigh", "show", address).stdout)
        return found[0].get("lladdr") if found else None

    def our_entry(self, address):
        """Returns the link-layer address that we have for one of theirs."""
        for entry in json.loads(self.ours.run(guest.program("ibarp"), "show", "--json").stdout):
            if entry["address"] == address:
                return entry["lladdr"]
        return None

    def forget(self):
        self.theirs.run("ip", "neigh", "flush", "dev", "ib0")
        self.theirs.run("ip", "-6", "neigh", "flush", "dev", "ib0")
        self.ours.run(guest.program("ibarp"), "flush")

    def resolve(self, ours, theirs):
        """Whoever sends first, each side ends up with the other's link-layer address."""
        for first, address in ((self.ours, theirs), (self.theirs, ours)):
            self.forget()
            self.assertTrue(first.ping(address, "-c", "1", "-W", "20").returncode == 0)
            self.assertEqual(self.their_entry(ours), self.ours.ibarp("info")["lladdr"])
            self.assertEqual(self.our_entry(theirs), self.theirs.link()["address"])

    def test_arp_both_ways(self):
        self.resolve(OURS[0], THEIRS[0])

    def test_neighbour_discovery_both_ways(self):
        self.resolve(OURS[1], THEIRS[1])

    def test_their_address_has_the_flag_of_connected_mode(self):
        """The kernel always sets this flag, even in datagram mode."""
        self.assertEqual(self.theirs.link()["address"][:2], "80")
        self.assertEqual(self.ours.ibarp("info")["lladdr"][:2], "00")

    def test_ping_at_many_sizes(self):
        self.ping_at_many_sizes(2044)

    def test_tcp_and_udp(self):
        self.tcp_and_udp()

    def test_broadcast(self):
        for host in (self.ours, self.theirs):
            host.run("sysctl", "-qw", "net.ipv4.icmp_echo_ignore_broadcasts=0")
        for host, other in ((self.ours, THEIRS[0]), (self.theirs, OURS[0])):
            ping = host.ping("10.44.0.255", "-b", "-c", "3", "-W", "20")
            self.assertIn(f"from {other}", ping.stdout)


class Multicast(KernelPeer):
    """Ours, theirs, and a third host with the kernel's IPoIB."""

    PORTS = 4
    GROUPS = {"239.1.2.3": "ff12:401b:ffff::f01:203", "ff05::4321": "ff12:601b:ffff::4321"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.ours.start()
        cls.third = KernelHost(cls.subnet, "third", "ib3")
        for host, number in ((cls.ours, 1), (cls.theirs, 2), (cls.third, 3)):
            cls.configure(host, f"10.44.0.{number}/24", f"fd44::{number}/64")

    def listen(self, host, group, join):
        listener = self.start_process(host, sys.executable, "-c", streams.LISTENER, group, join)
        wait_until(lambda: "listening" in listener.output(), "the listener listens")
        return listener

    def speak(self, host, group, word):
        host.run(sys.executable, "-c", streams.SPEAKER, group, word)

    def our_membership(self, mgid):
        for group in self.ours.ibarp("info")["groups"]:
            if group["mgid"] == mgid:
                return group["membership"]
        return None

    def sa_has_granted(self, lid, mgid, method, state):
        """Returns whether the SA has granted a request of ours or theirs."""
        return any(line.startswith(f"SA: lid {lid} method {method} ")
                   and line.endswith(f" {mgid} js {state} -> 0") for line in self.sa.output().splitlines())

    def reaches_only_the_member(self, speaker, receiver, outsider, group):
        heard = self.listen(receiver, group, "join")
        overheard = self.listen(outsider, group, "without joining")
        wait_until(lambda: self.speak(speaker, group, "hello") or "hello" in heard.output(),
                   f"{receiver.name} receives {group}")
        self.speak(speaker, group, "last")
        wait_until(lambda: "last" in heard.output(), "the second message arrives")
        self.assertEqual(overheard.output().split(), ["listening"])
        heard.end()
        overheard.end()

    def test_theirs_reaches_ours(self):
        for group, mgid in self.GROUPS.items():
            self.reaches_only_the_member(self.theirs, self.ours, self.third, group)
            self.assertTrue(self.sa_has_granted(3, mgid, "0x2", 1), "ours had joined")
            wait_until(lambda at=mgid: self.sa_has_granted(3, at, "0x15", 1), "ours has left")
            wait_until(lambda at=mgid: self.our_membership(at) is None, "ours shows no membership")

    def test_ours_reaches_theirs(self):
        for group, mgid in self.GROUPS.items():
            self.reaches_only_the_member(self.ours, self.theirs, self.third, group)
            self.assertTrue(self.sa_has_granted(2, mgid, "0x2", 1), "theirs had joined")

    def test_ours_reaches_theirs_without_being_in_the_group(self):
        for group, mgid in self.GROUPS.items():
            self.reaches_only_the_member(self.third, self.theirs, self.ours, group)
            self.assertIsNone(self.our_membership(mgid))


class LargeMtu(Exchange):
    """An MTU of 4096, and a controlled Q_Key, which needs a privilege."""

    SA_OPTIONS = ("--mtu", "5", "--qkey", "0x80000b1b")

    def test_controlled_q_key(self):
        self.assertEqual(self.ours.ibarp("info")["qkey"], "0x80000b1b")

    def test_ping_at_many_sizes(self):
        self.ping_at_many_sizes(4092, least=2040)

    def test_tcp_and_udp(self):
        self.tcp_and_udp()


class ConnectedMode(Exchange):
    """The kernel's interface is in connected mode with an MTU of 65520, which it cannot use with ours."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.theirs.run("sh", "-c", "echo connected >/sys/class/net/ib0/mode")
        cls.theirs.run("ip", "link", "set", "ib0", "mtu", "65520")

    def test_ping_at_many_sizes(self):
        for sender, receiver, address in self.both_ways():
            self.echo(sender, address, "whole", 16, range(1940, 2045))
            # The kernel learns our smaller MTU by ICMP.
            wait_until(lambda at=sender, to=address: at.ping(
                to, "-c", "1", "-W", "5", "-s", "8000").returncode == 0, "fragments arrive")
            self.echo(sender, address, "fragments", 1, [2045, 4089, 8000, 60000])

    def test_tcp_and_udp(self):
        self.tcp_and_udp()

    def test_theirs_is_in_connected_mode(self):
        mode = self.theirs.run("cat", "/sys/class/net/ib0/mode").stdout.strip()
        self.assertEqual((mode, self.theirs.link()["mtu"]), ("connected", 65520))


class Loss(Exchange):
    """5 % of all packets to either host are lost, including MADs."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for port in ("b1", "b2"):
            subprocess.run(["tc", "qdisc", "add", "dev", port, "root", "netem", "loss", "5%"],
                           check=True)

    def test_ping(self):
        for sender, _, address in self.both_ways():
            ping = sender.ping(address, "-c", "100", "-i", "0.02", "-W", "5")
            self.assertGreater(guest.hosts.received(ping), 50, ping.stdout)

    def test_tcp(self):
        for sender, receiver, address in self.both_ways():
            streams.tcp(sender, receiver, address, 1)

    def test_resolution(self):
        for _ in range(5):
            self.theirs.run("ip", "neigh", "flush", "dev", "ib0")
            self.theirs.run("ip", "-6", "neigh", "flush", "dev", "ib0")
            self.ours.run(guest.program("ibarp"), "flush")
            for _ in self.both_ways():
                pass


if __name__ == "__main__":
    guest.main()
