#!/usr/bin/env python3
"""Stations behind Ethernet interfaces: network namespaces on bridges, as containers and virtual machines."""

import json
import signal
import sys
import time

import dhcp
import hosts
import ospf
import streams
from hosts import needs, needs_users, wait_until
from monitor import Monitor

STATIONS = 3  # behind each bridge
ANNOUNCEMENT_SECONDS = 2.5  # an announcement is repeated after 2


# Announces an IPv4 and an IPv6 address of eth0, which has this MAC.
ANNOUNCE = """
import socket, struct, sys
mac, ipv4 = bytes.fromhex(sys.argv[1].replace(':', '')), socket.inet_aton(sys.argv[2])
ipv6 = socket.inet_pton(socket.AF_INET6, sys.argv[3])
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind(('eth0', 0))
link.send(b'\\xff' * 6 + mac + struct.pack('!HHHBBH', 0x806, 1, 0x800, 6, 4, 1) +
          mac + ipv4 + bytes(6) + ipv4)
nodes = socket.inet_pton(socket.AF_INET6, 'ff02::1')
message = struct.pack('!BBHI', 136, 0, 0, 0x20000000) + ipv6 + b'\\x02\\x01' + mac
whole = ipv6 + nodes + struct.pack('!II', len(message), 58) + message
total = sum(struct.unpack(f'!{len(whole) // 2}H', whole))
total = (total & 0xffff) + (total >> 16)
checksum = 0xffff - ((total & 0xffff) + (total >> 16))
message = message[:2] + struct.pack('!H', checksum) + message[4:]
link.send(b'\\x33\\x33\\0\\0\\0\\1' + mac + struct.pack('!HIHBB', 0x86dd, 6 << 28, len(message), 58, 255) +
          ipv6 + nodes + message)
"""


# Joins so many groups on eth0, and waits.
LISTENS_TO_MANY = """
import socket, sys, time
with socket.socket(type=socket.SOCK_DGRAM) as one:
    index = socket.if_nametoindex('eth0').to_bytes(4, sys.byteorder)
    for number in range(int(sys.argv[1])):
        group = bytes([239, 1, number >> 8, number & 255])
        one.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group + bytes(4) + index)
    print('listening', flush=True)
    time.sleep(1000)
"""


class Station(hosts.Host):
    """A network namespace with a veth on the bridge of a host."""

    def __init__(self, host, number, mac, *, name=None):
        super().__init__(host.subnet, name or f"{host.name}{number}")
        host.subnet.hosts.append(self)
        self.address, self.address6 = f"10.44.0.{number}", f"fd44::{number}"
        self.mac = mac
        self.plug(host)

    def plug(self, host):
        """Connects it to the bridge of a host, with the MAC and the addresses that it has."""
        self.bridged_by = host
        self.connect_to(host)
        self.run("ip", "addr", "add", f"{self.address}/24", "dev", "eth0")
        self.run("ip", "addr", "add", f"{self.address6}/64", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")

    def connect_to(self, host):
        host.add_port(f"to-{self.name}", self, "address", self.mac)

    def announce(self):
        """By gratuitous ARP and an unsolicited advertisement, as virtual machines do after a migration."""
        self.run(sys.executable, "-c", ANNOUNCE, self.mac, self.address, self.address6)

    def unplug(self):
        self.bridged_by.run("ip", "link", "delete", f"to-{self.name}")

    def move(self, host):
        """Puts its port on another bridge. It keeps its addresses, and what it knows of its neighbours."""
        port, left = f"to-{self.name}", self.bridged_by
        left.run("ip", "link", "set", port, "netns", host.namespace)
        host.run("ip", "link", "set", port, "master", "br0", "up")
        self.bridged_by = host
        wait_until(lambda: "forwarding" in host.run("bridge", "link", "show", "dev", port).stdout,
                   "its port forwards")

    def neighbour(self, address):
        found = json.loads(self.run("ip", "-json", "neigh", "show", "dev", "eth0").stdout)
        return next((entry.get("lladdr") for entry in found if entry["dst"] == address), None)


class Bridged(hosts.Pair):
    """Two hosts, each with a bridge: 10.44.0.11 to .13 are behind left, .21 to .23 behind right. The MACs of
    the latter begin as those of neighbours, as Linux may choose them."""

    def setUp(self):
        self.set_up()
        self.behind = {}
        for host, first, begin in ((self.left, 11, "02"), (self.right, 21, "06")):
            self.start_bridge(host)
            self.behind[host] = [Station(host, first + i, f"{begin}:00:00:00:00:{first + i:02x}")
                                 for i in range(STATIONS)]
        self.stations = [station for each in self.behind.values() for station in each]

    @staticmethod
    def start_bridge(host, *options):
        host.start("--ethernet", *options)
        host.bridge("ib0")
        wait_until(host.has_carrier, "carrier")

    def all_reach_all(self):
        for sender in self.stations:
            for receiver in self.stations:
                if sender is receiver:
                    continue
                for to in (receiver.address, receiver.address6):
                    wait_until(lambda s=sender, t=to: s.reaches(t),
                               f"{sender.name} reaches {receiver.name}, {to}")

    def count(self, host, name):
        return host.counters()[name]

    def announces(self, host):
        """Whether the host announces an address in the time after which it repeats announcements."""
        before = self.count(host, "announcements_sent")
        time.sleep(ANNOUNCEMENT_SECONDS)
        return self.count(host, "announcements_sent") != before


class Stations(Bridged):
    def test_all_pairs_over_ipv4_and_ipv6(self):
        self.all_reach_all()
        one, far = self.behind[self.left][0], self.behind[self.right][0]
        # What a station sees of another one behind the other bridge: an Ethernet address of the view.
        self.assertTrue(one.neighbour(far.address).startswith("06:"))
        for host in (self.left, self.right):
            self.assertEqual(self.count(host, "station_duplicate_addresses"), 0)
            self.assertEqual(self.count(host, "drop_station_address"), 0)
            self.assertGreaterEqual(self.count(host, "station_addresses_appeared"), 2 * STATIONS)

    def test_streams_with_valid_checksums(self):
        one, far = self.behind[self.left][0], self.behind[self.right][0]
        for sender, receiver in ((one, far), (far, one)):
            for address in (receiver.address, receiver.address6):  # both are usable then
                wait_until(lambda s=sender, a=address: s.reaches(a), f"{sender.name} reaches {address}")
            with self.subTest(sender=sender.name):
                streams.tcp(sender, receiver, receiver.address, 16)
                streams.udp(sender, receiver, receiver.address, 20, 1400)
                streams.tcp(sender, receiver, receiver.address6, 4)

    def test_station_and_host_with_a_tun(self):
        peer = self.add_host("peer", "10.44.0.99/24")
        one = self.behind[self.left][0]
        # The station has not sent any packet to it.
        wait_until(lambda: peer.reaches(one.address), "the peer reaches the station")
        wait_until(lambda: one.reaches("10.44.0.99"), "and vice versa")
        streams.tcp(one, peer, "10.44.0.99", 8)
        streams.tcp(peer, one, one.address, 8)

    def test_bridge_has_addresses_of_its_own(self):
        self.left.run("ip", "addr", "add", "10.44.0.1/24", "dev", "br0")
        far, near = self.behind[self.right][0], self.behind[self.left][0]
        wait_until(lambda: far.reaches("10.44.0.1"), "a far station reaches the bridge")
        wait_until(lambda: near.reaches("10.44.0.1"), "a near one does")
        wait_until(lambda: self.left.reaches(far.address), "the bridge's host reaches a far station")
        wait_until(lambda: self.left.reaches(near.address), "and a near one")

    def test_station_moves_to_the_other_bridge(self):
        mover, near, far = *self.behind[self.left][:2], self.behind[self.right][0]
        peer = self.add_host("peer", "10.44.0.99/24")
        others = (near, far, peer)
        for other in others:
            for to in (mover.address, mover.address6):
                if other is not peer or ":" not in to:
                    wait_until(lambda o=other, t=to: o.reaches(t), f"{other.name} reaches {to}")
        # At its new place the station would take left's second announcement for that of a duplicate.
        wait_until(lambda: not self.announces(self.left), "left has announced all addresses twice")
        mover.unplug()
        mover.plug(self.right)
        wait_until(lambda: "forwarding" in self.right.run(
            "bridge", "link", "show", "dev", f"to-{mover.name}").stdout, "its port forwards")
        mover.announce()
        wait_until(lambda: self.count(self.left, "station_addresses_moved") >= 2,
                   "left has given up both addresses")
        for other in others:
            wait_until(lambda o=other: o.reaches(mover.address), f"{other.name} reaches it again")
        for other in (near, far):
            wait_until(lambda o=other: o.reaches(mover.address6), f"{other.name}, by IPv6")
        for address in (mover.address, mover.address6):  # its link-local address was not announced
            self.assertFalse(self.right.logged("duplicate address", f"has {address},"))

    def test_station_moves_and_goes_on_with_its_cache(self):
        """Nothing announces it: it has its entries set, so it and the others do not ask either."""
        mover, near, far = *self.behind[self.left][:2], self.behind[self.right][0]
        for other in (near, far):
            wait_until(lambda o=other: mover.reaches(o.address), f"it reaches {other.name}")
            for one, to in ((mover, other), (other, mover)):
                mac = one.neighbour(to.address)
                one.run("ip", "neigh", "replace", to.address, "lladdr", mac, "dev", "eth0", "nud",
                        "noarp")
        mover.run("sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=1")
        mover.move(self.right)
        wait_until(lambda: mover.reaches(near.address), "it reaches one behind the old host")
        wait_until(lambda: near.reaches(mover.address), "and that one reaches it")
        wait_until(lambda: far.reaches(mover.address), "one behind the new host reaches it")
        self.assertGreaterEqual(self.count(self.left, "station_addresses_moved"), 1)

    @needs("arping")
    def test_duplicate_address_is_reported(self):
        first, peer = self.behind[self.left][0], self.behind[self.right][0]
        wait_until(lambda: peer.reaches(first.address), "the first one is known")
        double = Station(self.right, 29, "02:00:00:00:00:29")
        double.run("ip", "addr", "add", f"{first.address}/24", "dev", "eth0")
        double.run("arping", "-c", "1", "-A", "-I", "eth0", first.address)
        double.ping(peer.address, "-I", first.address, "-c", "1", "-W", "1")
        self.right.wait_for_log("duplicate address", first.address, double.mac)

    def test_station_with_an_address_of_the_host(self):
        self.left.run("ip", "addr", "add", "10.44.0.1/24", "dev", "br0")
        far, liar = self.behind[self.right][0], self.behind[self.left][0]
        wait_until(lambda: far.reaches("10.44.0.1"), "the host is reached")
        liar.run("ip", "addr", "add", "10.44.0.1/32", "dev", "eth0")
        liar.ping(far.address, "-I", "10.44.0.1", "-c", "2", "-W", "1")
        wait_until(lambda: self.count(self.left, "drop_station_address") > 0, "its packets are dropped")
        self.assertTrue(far.reaches("10.44.0.1"))

    def test_packet_that_is_too_large_gets_an_icmp_error(self):
        """The MTU of the station is larger than that of the partition."""
        one, far = self.behind[self.left][0], self.behind[self.right][0]
        for device in ("ib0", f"to-{one.name}", "br0"):
            self.left.run("ip", "link", "set", device, "mtu", "4000")
        one.run("ip", "link", "set", "eth0", "mtu", "4000")
        wait_until(lambda: one.reaches(far.address), "they reach each other")
        done = one.ping(far.address, "-M", "do", "-s", "3000", "-c", "2", "-W", "2")
        self.assertRegex(done.stdout + done.stderr, r"mtu ?= ?2044")

    def test_multicast_streams(self):
        one, near, far = *self.behind[self.left][:2], self.behind[self.right][0]
        peer = self.add_host("peer", "10.44.0.99/24")
        for group in ("239.1.2.3", "ff15::4711"):
            for speaker, listeners in ((one, (far, near, peer)), (peer, (one, far))):
                with self.subTest(group=group, speaker=speaker.name):
                    self.check_multicast(group, speaker, listeners)

    def check_multicast(self, group, speaker, listeners):
        def interface(host):
            return "eth0" if isinstance(host, Station) else "ib0"
        running = [streams.start(host, streams.LISTENER, self.subnet.folder, f"listener-{group}",
                                 group, "join", interface(host)) for host in listeners]

        def all_hear():
            # Fails until the speaker has an IPv6 address.
            speaker.run(sys.executable, "-c", streams.SPEAKER, group, "hello", interface(speaker),
                        check=False)
            return all("hello" in one.output() for one in running)
        try:
            wait_until(all_hear, f"all hear {group}")
        finally:
            for one in running:
                one.end()

    def test_group_is_left_when_no_station_listens(self):
        one, group = self.behind[self.left][0], "239.1.2.4"
        listener = streams.start(one, streams.LISTENER, self.subnet.folder, "listener", group, "join",
                                 "eth0")

        def is_member():
            found = json.loads(self.left.run(hosts.program("ibarp"), "--json", "groups").stdout)
            return any(each.get("address") == group and each["membership"] == "full"
                       for each in found)
        wait_until(is_member, "left is a member")
        listener.end()
        wait_until(lambda: not is_member(), "it has left")

    def test_a_station_that_listens_to_too_many_groups_is_reported(self):
        one = self.behind[self.left][0]
        one.run("sysctl", "-qw", "net.ipv4.igmp_max_memberships=1000")
        listener = streams.start(one, LISTENS_TO_MANY, self.subnet.folder, "listener", "400")
        try:
            self.left.wait_for_log(f"station {one.mac} listens to too many multicast groups: ",
                                   " are left out (320 at most, 384 of all stations)")
        finally:
            listener.end()

    @needs("dhclient", "dhcpcd")
    @needs_users()
    def test_dhcp_from_the_other_side(self):
        """A server behind one bridge, and different clients behind both, and one on a TUN."""
        server_host = self.behind[self.right][0]
        server = dhcp.start_server(server_host, self.subnet.folder, interface="eth0")
        self.addCleanup(server.end)
        peer = self.subnet.host("peer")
        peer.start()
        wait_until(peer.has_carrier, "carrier")
        clients = [(self.behind[self.left][0], "eth0", "dhcpcd"),
                   (self.behind[self.left][1], "eth0", "dhclient"),
                   (self.behind[self.right][1], "eth0", "dhclient"),
                   (self.behind[self.right][2], "eth0", "udhcpc"), (peer, "ib0", "udhcpc")]
        for host, interface, program in clients:
            host.run("ip", "-4", "addr", "flush", "dev", interface)
            client = dhcp.start_client(host, self.subnet.folder, interface, program)
            self.addCleanup(client.end)
        leased = [wait_until(lambda h=host, i=interface: h.addresses(interface=i),
                             f"{host.name} has an address") for host, interface, _ in clients]
        self.assertEqual(len({address for each in leased for address in each}), len(clients), leased)
        for host, _, _ in clients:
            wait_until(lambda h=host: h.reaches(server_host.address), f"{host.name} reaches the server")

    def test_dhcp_server_on_a_tun(self):
        peer = self.add_host("peer", "10.44.0.99/24")
        server = dhcp.start_server(peer, self.subnet.folder)
        self.addCleanup(server.end)
        for station in self.behind[self.left][:2]:
            station.run("ip", "-4", "addr", "flush", "dev", "eth0")
            client = dhcp.start_client(station, self.subnet.folder, "eth0")
            self.addCleanup(client.end)
        addresses = [wait_until(lambda s=station: s.addresses(interface="eth0"),
                                f"{station.name} has an address") for station in self.behind[self.left][:2]]
        self.assertNotEqual(addresses[0], addresses[1])
        wait_until(lambda: self.behind[self.left][0].reaches("10.44.0.99"), "it reaches the server")

    def route(self, version):
        """Routers behind both bridges, and one on a TUN."""
        peer = self.add_host("peer", "10.44.0.99/24")
        one, far = self.behind[self.left][0], self.behind[self.right][0]
        for station in (one, far):  # OSPF compares MTUs
            station.bridged_by.run("ip", "link", "set", f"to-{station.name}", "mtu", "2044")
            station.run("ip", "link", "set", "eth0", "mtu", "2044")
        ospf.run(self, version, [(one, 11, "eth0"), (far, 21, "eth0"), (peer, 99, "ib0")])

    @needs("bird", "birdc")
    def test_ospf_v2(self):
        self.route(ospf.V2)

    @needs("bird", "birdc")
    def test_ospf_v3(self):
        self.route(ospf.V3)

    def test_ipv6_autoconfiguration(self):
        """A router behind one bridge, a station behind the other, and a host with a TUN."""
        router, station = self.behind[self.right][0], self.behind[self.left][0]
        peer = self.subnet.host("peer")
        peer.start()
        router.run("ip", "addr", "add", "fd45::1/64", "dev", "eth0", "nodad")
        server = dhcp.start_server(router, self.subnet.folder, "--enable-ra",
                                   "--dhcp-range=fd45::,ra-only", interface="eth0")
        self.addCleanup(server.end)
        for host, interface in ((station, "eth0"), (peer, "ib0")):
            wait_until(lambda h=host, i=interface: any(
                address.startswith("fd45:") for address in h.addresses("inet6", i)),
                f"{host.name} has configured an address")
            wait_until(lambda h=host: h.reaches("fd45::1"), f"{host.name} reaches the router")

    def test_link_local_addresses(self):
        one, far = self.behind[self.left][0], self.behind[self.right][0]
        to = next(entry["local"] for entry in far.link("eth0")["addr_info"]
                  if entry["family"] == "inet6" and entry["scope"] == "link")
        wait_until(lambda: one.reaches(f"{to}%eth0"), "they reach each other")

    def test_ibarp_shows_stations(self):
        one, far = self.behind[self.left][0], self.behind[self.right][0]
        wait_until(lambda: one.reaches(far.address), "they reach each other")
        found = json.loads(self.left.run(hosts.program("ibarp"), "--json", "stations").stdout)
        mine = next(each for each in found if each["address"] == one.address)
        self.assertEqual((mine["mac"], mine["served"], mine["interface"]), (one.mac, True, "ib0"))
        self.assertIn(mine["state"], ("reachable", "probing"))
        text = self.left.run(hosts.program("ibarp"), "stations").stdout
        self.assertRegex(text, rf"{one.address} +ib0 +{mine['state']} .* {one.mac}")
        # A TUN has none; that is an error only if it was named.
        peer = self.subnet.host("peer")
        peer.start()
        self.assertEqual(peer.run(hosts.program("ibarp"), "--json", "stations").stdout, "[]\n")
        done = peer.run(hosts.program("ibarp"), "stations", check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("--ethernet", done.stderr)
        done = peer.run(hosts.program("ibarp"), "stations", "dev", "ib0", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--ethernet", done.stderr)

    def test_ibarp_monitor_shows_what_happens_to_stations(self):
        monitor = Monitor(self.right, "stations")
        self.addCleanup(lambda: monitor.process.end(signal.SIGKILL))
        mover, far = self.behind[self.left][0], self.behind[self.right][0]

        def wait_for(change, state):
            return monitor.wait_for(f"{mover.address} has {change}", lambda event:
                                    event["change"] == change and event["station"]["state"] == state
                                    and event["station"]["address"] == mover.address)
        wait_until(lambda: far.reaches(mover.address), "it is known")
        mover.unplug()
        mover.plug(self.right)
        wait_until(lambda: mover.reaches(far.address), "it speaks behind the other bridge")
        appeared = wait_for("appeared", "reachable")
        self.assertEqual(appeared["event"], "station")
        self.assertEqual(appeared["station"]["mac"], mover.mac)
        self.assertTrue(appeared["station"]["served"])
        mover.unplug()
        mover.plug(self.left)
        mover.announce()
        wait_until(lambda: mover.reaches(far.address), "it is back")
        moved = wait_for("moved_out", "gone")
        self.assertIn(self.left.ibarp("info")["lladdr"], moved["why"])

    def test_other_frames_are_dropped_and_counted(self):
        self.left.run("ip", "link", "set", "br0", "type", "bridge", "stp_state", "1")
        wait_until(lambda: self.count(self.left, "drop_ethernet_stp") > 0, "STP is dropped")


class Limited(Bridged):
    def setUp(self):
        self.set_up()

    def test_number_of_stations_is_limited(self):
        self.start_bridge(self.left, "--ethernet-stations", "2")
        self.right.start(address="10.44.0.99/24")
        stations = [Station(self.left, 11 + i, f"02:00:00:00:00:{11 + i:02x}") for i in range(4)]
        wait_until(lambda: sum(one.reaches("10.44.0.99") for one in stations) == 2,
                   "two reach the other host")
        self.assertGreater(self.count(self.left, "drop_station_limit"), 0)
        self.assertEqual(self.count(self.left, "stations"), 2)


class Macvlan(hosts.Pair):
    """Containers without a bridge."""

    def test_macvlans_reach_the_fabric(self):
        self.set_up()
        self.left.start("--ethernet", address="10.44.0.1/24")
        self.right.start(address="10.44.0.2/24")
        container = self.subnet.host("container")
        done = self.left.run("ip", "link", "add", "mv0", "link", "ib0", "type", "macvlan", "mode",
                             "bridge", check=False)
        if done.returncode != 0:
            self.skipTest(f"no macvlan here: {done.stderr.strip()}")
        self.left.run("ip", "link", "set", "mv0", "netns", container.namespace, "name", "eth0")
        container.run("ip", "link", "set", "eth0", "up")
        container.run("ip", "addr", "add", "10.44.0.11/24", "dev", "eth0")
        wait_until(lambda: container.reaches("10.44.0.2"), "the container reaches a host")
        wait_until(lambda: self.right.reaches("10.44.0.11"), "and vice versa")
        self.assert_connected()
        streams.tcp(container, self.right, "10.44.0.2", 8)


if __name__ == "__main__":
    hosts.main()
