#!/usr/bin/env python3
"""VLANs of an Ethernet interface as partitions (ipoibd --vlan).

Each host has a bridge with VLANs, whose trunk is ib0, and network namespaces on it. The bridge is
vlan_switch.py, since not each kernel has VLANs; tests/vm/vlan_bridge_test.py has the kernel's bridge.
"""

import json
import pathlib
import signal
import sys

import dhcp
import hosts
import streams
from hosts import wait_until
from stations_test import Station

UNTAGGED, RED, BLUE = 0, 18, 19  # the VLANs; 0: the partition of ib0 itself
OPTIONS = ("--ethernet", "--vlan", "18=0x8012", "--vlan", "19=0x8013")

# Sends to ib0 a frame of an unmapped VLAN, two with two tags, of which the outer one is mapped or that of
# a provider, and one each of STP, LLDP and LACP.
OTHER_FRAMES = """
import socket, struct
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind(('ib0', 0))
source = bytes.fromhex('020000000099')
for head in (b'\\xff' * 6 + source + struct.pack('!HHH', 0x8100, 20, 0x806),
             b'\\xff' * 6 + source + struct.pack('!HHHHH', 0x8100, 18, 0x8100, 19, 0x806),
             b'\\xff' * 6 + source + struct.pack('!HHHHH', 0x88a8, 18, 0x8100, 19, 0x806),
             bytes.fromhex('0180c2000000') + source + struct.pack('!H', 38),
             bytes.fromhex('0180c200000e') + source + struct.pack('!H', 0x88cc),
             bytes.fromhex('0180c2000002') + source + struct.pack('!H', 0x8809)):
    link.send(head + bytes(46))
"""
REASONS = {"ib0": {"drop_ethernet_vlan": 2, "drop_ethernet_stp": 1, "drop_ethernet_lldp": 1,
                   "drop_ethernet_type": 1},
           "ib0.18": {"drop_ethernet_vlan": 1}}


class InVlan(Station):
    """A network namespace on a port of the switch of a host."""

    def __init__(self, host, number, vlan, name):
        self.vlan = vlan
        super().__init__(host, number, f"02:00:00:00:{vlan:02x}:{number:02x}", name=name)

    def connect_to(self, host):
        host.run("ip", "link", "add", f"to-{self.name}", "type", "veth", "peer", "name", "eth0",
                 "address", self.mac, "netns", self.namespace)
        host.run("ip", "link", "set", f"to-{self.name}", "mtu", "2044", "up")
        self.run("ip", "link", "set", "eth0", "mtu", "2044")


class OnTrunk(hosts.Pair):
    """Behind each host, a station without a VLAN and one in each VLAN. The two VLANs use the same addresses:
    10.44.0.12 behind left, .22 behind right."""

    def setUp(self):
        self.set_up("--partition", "18=full", "--partition", "19=full")
        self.behind = {}
        for host, first in ((self.left, 11), (self.right, 21)):
            self.start_host(host)
            self.behind[host] = {
                UNTAGGED: InVlan(host, first, UNTAGGED, f"{host.name}0"),
                RED: InVlan(host, first + 1, RED, f"{host.name}18"),
                BLUE: InVlan(host, first + 1, BLUE, f"{host.name}19")}
            self.start_switch(host)

    @staticmethod
    def start_host(host):
        host.start(*OPTIONS)
        wait_until(host.has_carrier, "carrier")
        host.run("sysctl", "-qw", "net.ipv6.conf.ib0.accept_dad=0")

    def start_switch(self, host):
        ports = [f"to-{one.name}={vlan}" for vlan, one in self.behind[host].items()]
        script = pathlib.Path(__file__).parent / "vlan_switch.py"
        process = hosts.Process(host.command(sys.executable, str(script), "ib0", *ports),
                                self.subnet.folder / f"{host.name}-switch.log", self.subnet.environment)
        self.addCleanup(process.end, signal.SIGKILL)
        wait_until(lambda: "switching" in process.output(), f"the switch of {host.name} runs")

    def pair(self, vlan):
        return self.behind[self.left][vlan], self.behind[self.right][vlan]

    def reach_each_other(self, *vlans):
        for vlan in vlans:
            one, far = self.pair(vlan)
            for sender, receiver in ((one, far), (far, one)):
                for to in (receiver.address, receiver.address6):
                    wait_until(lambda s=sender, t=to: s.reaches(t), f"{sender.name} reaches {to}")

    def stations(self, host, interface):
        found = json.loads(host.run(hosts.program("ibarp"), "--json", "stations", "dev",
                                    interface).stdout)
        return {(each["address"], each["mac"]) for each in found if each["served"]}

    def check_isolation(self):
        """A station that only one VLAN has: 10.44.0.11 is untagged behind left."""
        self.reach_each_other(UNTAGGED, RED)
        untagged, red = self.behind[self.left][UNTAGGED], self.behind[self.right][RED]
        self.assertFalse(red.reaches(untagged.address))
        self.assertFalse(red.reaches(untagged.address6))
        self.assertFalse(untagged.reaches(red.address))
        for vlan in (RED, BLUE):
            heard = {address for address, _ in self.stations(self.left, f"ib0.{vlan}")}
            self.assertNotIn(untagged.address, heard)

    def check_streams(self, *vlans, mebibytes=8):
        """Large packets with partial checksums, both ways."""
        for vlan in vlans:
            one, far = self.pair(vlan)
            for sender, receiver in ((one, far), (far, one)):
                self.reach_each_other(vlan)
                streams.tcp(sender, receiver, receiver.address, mebibytes)
                streams.udp(sender, receiver, receiver.address, 10, 1400)
                streams.tcp(sender, receiver, receiver.address6, mebibytes)
            interface = f"ib0.{vlan}" if vlan else "ib0"
            counters = self.left.counters(interface)
            self.assertGreater(counters["tx_large_packets"], 0, "the kernel leaves segmentation to ipoibd")
            self.assertEqual(counters["drop_host_malformed"], 0)
            self.assertEqual(counters["drop_host_refused"], 0)


class Trunks(OnTrunk):
    def test_each_vlan_reaches_its_peers(self):
        """Two VLANs with the same addresses: each has its own stations and neighbours."""
        self.reach_each_other(UNTAGGED, RED, BLUE)
        for vlan in (RED, BLUE):
            one, far = self.pair(vlan)
            self.assertIn((one.address, one.mac), self.stations(self.left, f"ib0.{vlan}"))
            self.assertTrue(one.neighbour(far.address).startswith("06:"))
            info = self.left.ibarp("info", f"ib0.{vlan}")
            self.assertEqual(info["pkey"], f"0x80{vlan:02x}")
            self.assertEqual(info["state"], "up")
        self.assertEqual({mac for _, mac in self.stations(self.left, "ib0")},
                         {self.behind[self.left][UNTAGGED].mac})

    def test_vlans_are_isolated(self):
        self.check_isolation()

    def test_large_packets_and_checksums(self):
        self.check_streams(RED, UNTAGGED)

    def test_peer_with_a_tun_in_the_partition(self):
        peer = self.subnet.host("peer")
        peer.start("--pkey", "0x8012", address="10.44.0.99/24")
        red, blue = self.behind[self.left][RED], self.behind[self.left][BLUE]
        wait_until(lambda: peer.reaches(red.address), "the peer reaches the station of its partition")
        wait_until(lambda: red.reaches("10.44.0.99"), "and vice versa")
        self.assertFalse(blue.reaches("10.44.0.99"), "another partition")
        streams.tcp(red, peer, "10.44.0.99", 4)
        streams.tcp(peer, red, red.address, 4)

    def test_multicast_in_a_vlan(self):
        red, far, blue = *self.pair(RED), self.behind[self.right][BLUE]
        self.reach_each_other(RED)
        group = "239.1.2.3"
        running = {one: streams.start(one, streams.LISTENER, self.subnet.folder, "listener", group, "join",
                                      "eth0") for one in (far, blue)}

        def is_heard():
            red.run(sys.executable, "-c", streams.SPEAKER, group, "hello", "eth0", check=False)
            return "hello" in running[far].output()
        try:
            wait_until(is_heard, "the station of the VLAN hears it")
            self.assertNotIn("hello", running[blue].output())
        finally:
            for one in running.values():
                one.end()

    def test_dhcp_in_a_vlan(self):
        """Server and client are in one VLAN, behind different hosts."""
        client, server_host = self.pair(RED)
        server = dhcp.start_server(server_host, self.subnet.folder, interface="eth0")
        self.addCleanup(server.end)
        client.run("ip", "-4", "addr", "flush", "dev", "eth0")
        running = dhcp.start_client(client, self.subnet.folder, "eth0")
        self.addCleanup(running.end)
        wait_until(lambda: client.addresses(interface="eth0"), "the client has an address")
        wait_until(lambda: client.reaches(server_host.address), "it reaches the server")

    def test_other_frames_are_dropped_by_reason(self):
        def counted():
            return {interface: {name: self.left.counters(interface)[name] for name in reasons}
                    for interface, reasons in REASONS.items()}
        self.assertEqual({n for reasons in counted().values() for n in reasons.values()}, {0})
        self.left.run(sys.executable, "-c", OTHER_FRAMES)
        wait_until(lambda: counted() == REASONS, "each frame is counted once, by its reason")

    def test_partition_disappears_while_it_is_mapped(self):
        self.reach_each_other(RED, BLUE)
        self.subnet.run_softib("set", "partition", "18", "left", "none")
        red, far = self.pair(RED)
        wait_until(lambda: not red.reaches(far.address), "the partition has gone")
        self.assertEqual(self.left.ibarp("info", "ib0.18")["state"], "no_pkey")
        self.reach_each_other(BLUE, UNTAGGED)
        self.subnet.run_softib("set", "partition", "18", "left", "full")
        self.reach_each_other(RED)

    def test_operator_ends_a_vlan_and_adds_it_again(self):
        self.reach_each_other(RED)
        red, far = self.pair(RED)
        before = self.left.counters()["drop_vlan_queue"]
        self.left.run(hosts.program("ibarp"), "interface", "del", "ib0.18")
        self.assertFalse(red.reaches(far.address))
        self.assertGreater(self.left.counters()["drop_vlan_queue"], before)
        self.reach_each_other(BLUE, UNTAGGED)
        self.left.run(hosts.program("ibarp"), "interface", "add", "0x8012")
        self.reach_each_other(RED)
        self.assertEqual(self.left.ibarp("info", "ib0.18")["pkey"], "0x8012")
        refused = self.left.run(hosts.program("ibarp"), "interface", "del", "ib0", check=False)
        self.assertIn("last interface", refused.stderr)

    def test_another_daemon_takes_over(self):
        self.reach_each_other(RED)
        before = self.left.daemon
        self.addCleanup(before.end)
        # It has one VLAN more, whose partition the port is not in.
        self.left.start("--takeover", *OPTIONS, "--vlan", "20=0x8014", wait=False)
        wait_until(lambda: not before.is_running(), "the old daemon has ended", 2 * hosts.PATIENCE)
        self.reach_each_other(RED, BLUE, UNTAGGED)
        self.assertEqual(self.left.ibarp("info", "ib0.20")["state"], "no_pkey")
        self.assertTrue(self.left.logged("taking over from process"))
        # One that does not know the VLANs leaves the running one alone.
        running = self.left.daemon
        self.left.start("--takeover", "--ethernet", wait=False)
        other, self.left.daemon = self.left.daemon, running
        wait_until(lambda: not other.is_running(), "another one refuses")
        self.assertNotEqual(other.end(), 0)
        self.reach_each_other(RED)

    def test_renamed_trunk_renames_its_vlans(self):
        self.reach_each_other(RED)
        self.left.run("ip", "link", "set", "ib0", "down")
        self.left.run("ip", "link", "set", "ib0", "name", "lan")
        self.left.run("ip", "link", "set", "lan", "up")

        def answers(interface):
            return self.left.run(hosts.program("ibarp"), "info", "-i", interface,
                                 check=False).returncode == 0

        wait_until(lambda: answers("lan.18") and answers("lan.19"), "they have the new name")
        self.assertFalse(answers("ib0.18"))
        wait_until(lambda: self.left.ibarp("info", "lan.18")["interface"] == "lan.18", "it says so")
        self.left.wait_for_log("lan.18: renamed")

    def test_daemon_is_killed(self):
        self.reach_each_other(RED)
        self.left.kill()
        self.left.start(*OPTIONS)
        self.reach_each_other(RED, UNTAGGED)

    def test_exits_cleanly(self):
        self.assertEqual(self.left.daemon.end(signal.SIGTERM), 0, self.left.daemon.output())
        self.assertIsNone(self.left.link())


if __name__ == "__main__":
    hosts.main()
