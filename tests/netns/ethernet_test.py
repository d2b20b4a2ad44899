#!/usr/bin/env python3
"""Interfaces as TAPs: ipoibd --ethernet."""

import json
import sys

import dhcp
import hosts
import streams
from hosts import needs, needs_users, wait_until

LEFT, RIGHT = "10.44.0.1", "10.44.0.2"


class Ethernet(hosts.Pair):
    """A TAP on the left and a TUN on the right."""

    def setUp(self):
        self.set_up()
        self.left.start("--ethernet", address=f"{LEFT}/24")
        self.right.start(address=f"{RIGHT}/24")

    def neighbour(self, host, address):
        """Returns the kernel's entry; None if it has none."""
        found = json.loads(host.run("ip", "-json", "neigh", "show", "dev", "ib0").stdout)
        return next((entry for entry in found if entry["dst"] == address), None)

    def mac_in_ibarp(self, host, address):
        found = json.loads(host.run(hosts.program("ibarp"), "--json", "show").stdout)
        return next(entry["mac"] for entry in found if entry["address"] == address)

    def link_local(self, host):
        return next(entry["local"] for entry in host.link()["addr_info"]
                    if entry["family"] == "inet6" and entry["scope"] == "link")

    def test_looks_like_ethernet_and_reaches_its_peer(self):
        link = self.left.link()
        self.assertEqual(link["link_type"], "ether")
        self.assertEqual(link["mtu"], 2044)
        guid = self.left.ibarp("info")["lladdr"].split(":")[12:]
        self.assertEqual(link["address"], ":".join(["02", *guid[3:]]))
        self.assert_connected()

    def test_kernel_knows_its_neighbours(self):
        self.assert_connected()
        entry = wait_until(lambda: self.neighbour(self.left, RIGHT), "the kernel has an entry")
        self.assertTrue(entry["lladdr"].startswith("06:"))
        self.assertEqual(entry["lladdr"], self.mac_in_ibarp(self.left, RIGHT))
        wide = self.left.run(hosts.program("ibarp"), "-w", "show").stdout
        self.assertIn(entry["lladdr"], wide)

    def test_unused_address_is_unreachable(self):
        done = self.left.run(sys.executable, "-c", streams.CONNECT, "10.44.0.77", "tcp")
        self.assertEqual(done.stdout.strip(), "EHOSTUNREACH")

    def test_ipv6(self):
        for host, peer in ((self.left, self.right), (self.right, self.left)):
            to = self.link_local(peer)
            wait_until(lambda h=host, a=to: h.reaches(f"{a}%ib0"), f"{host.name} reaches its peer")
        entry = self.neighbour(self.left, self.link_local(self.right))
        self.assertEqual(entry["lladdr"], self.mac_in_ibarp(self.left, self.link_local(self.right)))

    def test_duplicate_address_is_detected(self):
        # With a single solicitation, a reply that takes a second would come too late.
        self.left.run("sysctl", "-qw", "net.ipv6.conf.ib0.dad_transmits=10")
        self.right.run("ip", "addr", "add", "fd44::1/64", "dev", "ib0", "nodad")
        self.left.run("ip", "addr", "add", "fd44::1/64", "dev", "ib0")
        wait_until(lambda: any(entry.get("dadfailed") and entry["local"] == "fd44::1"
                               for entry in self.left.link()["addr_info"]), "it is detected")

    def test_broadcast(self):
        self.assert_connected()
        self.right.run("sysctl", "-qw", "net.ipv4.icmp_echo_ignore_broadcasts=0")
        self.left.run("sysctl", "-qw", "net.ipv4.icmp_echo_ignore_broadcasts=0")
        for host in (self.left, self.right):
            wait_until(lambda h=host: hosts.received(
                h.ping("10.44.0.255", "-b", "-c", "1", "-W", "1")), "a broadcast is answered")

    def test_peer_with_another_queue_pair(self):
        self.assert_connected()
        before = self.neighbour(self.left, RIGHT)["lladdr"]
        self.right.kill()
        self.right.start()
        wait_until(self.right.has_carrier, "carrier")
        self.assert_connected()
        wait_until(lambda: self.neighbour(self.left, RIGHT)["lladdr"] != before,
                   "the kernel knows the new MAC")

    def test_restarted_daemon_adopts_its_interface(self):
        self.assert_connected()
        self.left.run("ip", "link", "set", "ib0", "address", "02:00:00:00:00:77")
        self.left.kill()
        self.left.start("--ethernet")
        wait_until(self.left.has_carrier, "carrier")
        self.assertEqual(self.left.link()["address"], "02:00:00:00:00:77")
        self.assert_connected()

    def test_another_daemon_takes_over(self):
        self.assert_connected()
        before = self.left.daemon
        self.addCleanup(before.end)
        self.left.start("--ethernet", "--takeover", wait=False)
        wait_until(lambda: not before.is_running(), "the first one has ended")
        self.assertTrue(self.left.daemon.is_running())
        self.assertEqual(self.left.link()["link_type"], "ether")
        self.assert_connected()

    def test_left_over_tap_is_no_tun(self):
        self.left.kill()
        self.left.start(wait=False)
        wait_until(lambda: not self.left.daemon.is_running(), "the daemon ends")
        self.assertIn("--cleanup", self.left.daemon.output())
        self.left.daemon.end()
        done = self.left.run(hosts.program("softib"), "run", "--hca", "left", "--",
                             hosts.program("ipoibd"), "--port", "1", "--cleanup", check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIsNone(self.left.link())

    def test_streams_with_valid_checksums(self):
        self.assert_connected()
        for sender, receiver, to in ((self.left, self.right, RIGHT),
                                     (self.right, self.left, LEFT)):
            with self.subTest(sender=sender.name):
                streams.tcp(sender, receiver, to, 16)
                streams.udp(sender, receiver, to, 20, 8000)

    def test_dhcp_client(self):
        server = dhcp.start_server(self.right, self.subnet.folder)
        self.addCleanup(server.end)
        client = dhcp.start_client(self.left, self.subnet.folder)
        self.addCleanup(client.end)
        wait_until(lambda: any(address.startswith("10.44.0.1") and address != LEFT
                               for address in self.left.addresses()), "the client has an address")

    @needs("dhclient", "dhcpcd")
    @needs_users()
    def test_clients_that_refuse_a_tun(self):
        server = dhcp.start_server(self.right, self.subnet.folder)
        self.addCleanup(server.end)
        for program in ("dhclient", "dhcpcd"):
            with self.subTest(program):
                self.left.run("ip", "-4", "addr", "flush", "dev", "ib0")
                client = dhcp.start_client(self.left, self.subnet.folder, program=program)
                self.addCleanup(client.end)
                wait_until(lambda: any(address.startswith("10.44.0.1") and address != LEFT
                                       for address in self.left.addresses()),
                           "the client has an address")
                client.end()

    @needs("arping")
    def test_arping_shows_the_mac_of_the_neighbour(self):
        self.assert_connected()
        mac = self.mac_in_ibarp(self.left, RIGHT).upper()
        done = self.left.run("arping", "-c", "2", "-w", "10", "-I", "ib0", RIGHT)
        self.assertIn(f"from {RIGHT} [{mac}]", done.stdout)
        self.assertIn("Received 2 response", done.stdout)
        # Nobody else has the address, so a host may take it only if nothing answers.
        for address, status in ((RIGHT, 1), ("10.44.0.77", 0)):
            done = self.left.run("arping", "-D", "-c", "2", "-w", "10", "-I", "ib0", address,
                                 check=False)
            self.assertEqual(done.returncode, status, done.stdout)

    @needs("tcpdump")
    @needs_users()
    def test_tcpdump_shows_ethernet(self):
        dump = hosts.Process(self.left.command("tcpdump", "-e", "-n", "-l", "-i", "ib0"),
                             self.subnet.folder / "tcpdump", self.subnet.environment)
        self.addCleanup(dump.end)
        wait_until(lambda: "link-type EN10MB (Ethernet)" in dump.output(), "it captures")
        self.left.run("ip", "neigh", "flush", "dev", "ib0")
        self.assert_connected()
        mac = self.left.link()["address"]
        peer = self.mac_in_ibarp(self.left, RIGHT)
        for line in (f"{mac} > ff:ff:ff:ff:ff:ff, ethertype ARP (0x0806), length 42: "
                     f"Request who-has {RIGHT} tell {LEFT}",
                     f"{peer} > {mac}, ethertype ARP (0x0806), length 42: Reply {RIGHT} is-at {peer}",
                     f"{mac} > {peer}, ethertype IPv4 (0x0800), length 98: {LEFT} > {RIGHT}: ICMP",
                     f"{peer} > {mac}, ethertype IPv4 (0x0800), length 98: {RIGHT} > {LEFT}: ICMP"):
            wait_until(lambda line=line: line in dump.output(), line)

    def test_multicast(self):
        group = "239.1.2.3"
        for sender, receiver in ((self.left, self.right), (self.right, self.left)):
            with self.subTest(sender=sender.name):
                listener = streams.start(receiver, streams.LISTENER, self.subnet.folder, "listener",
                                         group, "join")
                self.addCleanup(listener.end)

                def is_heard(listener=listener, sender=sender):
                    sender.run(sys.executable, "-c", streams.SPEAKER, group, "hello")
                    return "hello" in listener.output()
                wait_until(is_heard, "the group is heard")


class EthernetPair(hosts.Pair):
    def test_reach_each_other(self):
        self.set_up()
        self.start("--ethernet=0xffff")
        for host in (self.left, self.right):
            self.assertEqual(host.link()["link_type"], "ether")
        self.assert_connected()
        streams.tcp(self.left, self.right, RIGHT, 16)
        to = next(entry["local"] for entry in self.right.link()["addr_info"]
                  if entry["family"] == "inet6")
        wait_until(lambda: self.left.reaches(f"{to}%ib0"), "by IPv6, too")


class EthernetOfOnePartition(hosts.Pair):
    def test_others_are_tuns(self):
        self.set_up("--partition", "1=full")
        self.left.start_all("--ethernet=0x8001")
        wait_until(lambda: self.left.link("ib0.8001"), "the second interface")
        self.assertEqual(self.left.link("ib0.8001")["link_type"], "ether")
        self.assertEqual(self.left.link("ib0")["link_type"], "infiniband")


if __name__ == "__main__":
    hosts.main()
