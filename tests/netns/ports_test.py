#!/usr/bin/env python3
"""HCAs with two ports, and ports with several LIDs."""

import json
import re
import tempfile

import hosts
from hosts import program, wait_until

# The ports of left are on two switches.
TWO_SWITCHES = """
Switch 8 "first"
[1] "left"[1]
[2] "right"[1]
[8] "second"[8]

Switch 8 "second"
[1] "left"[2]
[8] "first"[8]

Hca 2 "left"
[1] "first"[1]
[2] "second"[1]

Hca 1 "right"
[1] "first"[2]
"""


class SecondPort(hosts.Pair):
    """The HCA on the left has two ports, of which the second one is connected."""

    def setUp(self):
        self.set_up()

    def start_left(self, port, address=None):
        self.left.start_alone("--softib=default/left", "--port", str(port), "--pkey", "0xffff",
                              address=address)

    def on_left(self, *command):
        return self.left.run(program("softib"), "run", "--hca", "left", "--", *command).stdout

    def test_ping_both_ways(self):
        self.start_left(2, "10.44.0.1/24")
        self.right.start(address="10.44.0.2/24")
        self.assert_connected()
        self.assertEqual(self.left.ibarp("info")["port"], 2)

    def test_rdma_core_sees_two_ports(self):
        hosts.need("ibv_devinfo", "ibstat", "smpquery")
        self.start_left(2)
        devinfo = self.on_left("ibv_devinfo")
        self.assertRegex(devinfo, r"phys_port_cnt:\s+2\b")
        states = re.findall(r"port:\s+(\d)\s+state:\s+(\w+)", devinfo)
        self.assertEqual(states, [("1", "PORT_DOWN"), ("2", "PORT_ACTIVE")])
        ibstat = self.on_left("ibstat")
        self.assertRegex(ibstat, r"(?s)Port 1:\s+State: Down\s+Physical state: Polling"
                                 r".*Port 2:\s+State: Active")
        node = self.on_left("smpquery", "-D", "nodeinfo", "0")
        self.assertRegex(node, r"NumPorts:\.+2\n")
        self.assertRegex(node, r"LocalPort:\.+2\n")
        first = self.on_left("smpquery", "-D", "portinfo", "0", "1")
        self.assertRegex(first, r"LinkState:\.+Down\n")

    def test_port_down_is_link_down(self):
        self.start_left(2, "10.44.0.1/24")
        self.right.start(address="10.44.0.2/24")
        self.softib_set("port", "left", "down")
        wait_until(lambda: not self.left.has_carrier(), "ib0 has lost carrier")
        self.softib_set("port", "left", "up")
        wait_until(self.left.has_carrier, "ib0 has carrier again")
        self.assert_connected()

    def test_port_without_a_cable_waits(self):
        hosts.need("smpquery")
        self.start_left(2)
        self.left.daemon.end()
        self.left.start_alone("--softib=default/left", "--pkey", "0xffff")
        self.assertIn("which is DOWN and polls for a partner", self.left.ibarp("info")["waiting_for"])
        self.assertFalse(self.left.has_carrier())
        lost = self.left.run(program("softib"), "run", "--hca", "left", "--", "smpquery", "-t", "100",
                             "-P", "1", "-D", "nodeinfo", "0", check=False)
        self.assertNotEqual(lost.returncode, 0, "no reply through the unconnected port")

    def test_another_port_of_the_same_hca_is_refused(self):
        self.start_left(2)
        refused = self.subnet.run_softib("run", "--hca", "left:1", "--", "true")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("'left' is connected by its port 2", refused.stderr)


class BothPorts(hosts.Pair):
    """Left and other have a daemon each, on ports 1 and 2 of one HCA."""

    def setUp(self):
        with tempfile.NamedTemporaryFile("w", suffix=".net") as file:
            file.write(TWO_SWITCHES)
            file.flush()
            self.set_up("--topology", file.name)
        self.other = self.subnet.host("other")
        self.all = {"10.44.0.1": self.left, "10.44.0.2": self.right, "10.44.0.3": self.other}
        for port, address in ((1, "10.44.0.1"), (2, "10.44.0.3")):
            self.all[address].start_alone("--port", str(port), "--pkey", "0xffff", address=f"{address}/24",
                                          command=(program("softib"), "run", "--hca", "left", "--",
                                                   program("ipoibd")))
        self.right.start(address="10.44.0.2/24")

    def sent(self):
        """What each port has sent."""
        nodes = self.subnet.nodes()
        return [nodes[name]["counters"]["sent_packets"] for name in ("left[1]", "left[2]")]

    def assert_all_connected(self):
        for sender in self.all.values():
            for address, receiver in self.all.items():
                if receiver is not sender:
                    wait_until(lambda s=sender, a=address: s.reaches(a), f"{sender.name} reaches {address}")

    def test_each_daemon_uses_its_port(self):
        self.assert_all_connected()
        nodes = self.subnet.nodes()
        for host, name, port in ((self.left, "left[1]", 1), (self.other, "left[2]", 2)):
            info = host.ibarp("info")
            self.assertEqual((info["port"], info["lid"], info["gid"]),
                             (port, nodes[name]["lid"], nodes[name]["gid"]))
        for host, port in ((self.left, 0), (self.other, 1)):
            before = self.sent()
            # Nothing but pings, so that a port that is not used sends less than they are.
            self.assertEqual(host.lost_of(200, "10.44.0.2", "-i", "0.002"), 0)
            more = [now - then for then, now in zip(before, self.sent())]
            self.assertGreaterEqual(more[port], 200)
            self.assertLess(more[1 - port], 100)

    def test_one_port_fails_without_the_other(self):
        self.assert_all_connected()
        for number, lost, kept in ((1, self.left, self.other), (2, self.other, self.left)):
            self.softib_set("port", f"left[{number}]", "down")
            wait_until(lambda host=lost: not host.has_carrier(), f"port {number} has lost carrier")
            self.assertTrue(kept.has_carrier())
            self.assertEqual(kept.lost_of(20, "10.44.0.2", "-i", "0.01"), 0)
            self.assertFalse(self.right.reaches(self.address_of(lost)))
            self.softib_set("port", f"left[{number}]", "up")
            wait_until(lost.has_carrier, f"port {number} has carrier again")
            self.assert_all_connected()

    def test_a_lost_switch_is_a_lost_port(self):
        self.assert_all_connected()
        self.softib_set("switch", "second", "absent")
        wait_until(lambda: not self.other.has_carrier(), "port 2 has lost carrier")
        self.assertEqual(self.left.lost_of(20, "10.44.0.2", "-i", "0.01"), 0)
        self.softib_set("switch", "second", "present")
        self.assert_all_connected()

    def address_of(self, host):
        return next(address for address, each in self.all.items() if each is host)


class ManyLids(hosts.Pair):
    """Four LIDs for each port."""

    def setUp(self):
        self.set_up("--lmc", "2")
        self.start()

    def test_ping_both_ways(self):
        self.assert_connected()
        for host in (self.left, self.right):
            self.assertEqual(host.counters().get("path_lid_mismatches", 0), 0)

    def test_peer_that_changes_lid_is_found_again(self):
        self.assert_connected()
        self.softib_set("lid", "right", "0x44")
        self.assert_connected()
        refused = self.subnet.run_softib("set", "lid", "right", "0x46")
        self.assertIn("a multiple of 4", refused.stderr)

    def test_rdma_core_sees_four_lids(self):
        hosts.need("ibv_devinfo", "smpquery", "saquery")
        devinfo = self.subnet.run("left", "ibv_devinfo").stdout
        self.assertRegex(devinfo, r"port_lmc:\s+0x02\b")
        lid = int(re.search(r"port_lid:\s+(\d+)", devinfo).group(1))
        self.assertEqual(lid % 4, 0)
        for each in range(lid, lid + 4):
            output = self.subnet.run("right", "smpquery", "nodedesc", str(each)).stdout
            self.assertRegex(output, r"Node Description:\.+left\n")
        gids = [node["gid"] for node in json.loads(self.subnet.softib("show", "--json"))["nodes"]
                if node["name"] in ("left", "right")]
        paths = self.subnet.run("left", "saquery", "PathRecord", "--sgid", gids[0],
                                "--dgid", gids[1]).stdout
        pairs = set(re.findall(r"dlid\.+(\d+)\s+slid\.+(\d+)", paths))
        self.assertEqual(len(pairs), 16, paths)


class GrhRequired(hosts.Pair):
    """Ports that require a GRH, like those of virtual functions."""

    def setUp(self):
        self.set_up("--grh-required")
        self.start()

    def test_ping_both_ways(self):
        self.assert_connected()

    def test_sm_restart(self):
        """Joins, path requests and acknowledgements of reports have a global route."""
        self.assert_connected()
        self.softib_set("sm", "restart")
        self.assert_connected()
        node = json.loads(self.subnet.softib("show", "--json"))
        self.assertTrue(all(each["grh_required"] for each in node["nodes"]), node["nodes"])

    def test_requests_without_a_grh_are_refused(self):
        """saquery sends its requests without a GRH."""
        hosts.need("saquery")
        other = hosts.Subnet()  # without --grh-required
        self.addCleanup(other.close)
        self.assertIn("left", other.run("left", "saquery").stdout)
        refused = self.subnet.run("left", "saquery", "-t", "100", check=False)
        self.assertNotEqual(refused.returncode, 0, refused.stdout)


if __name__ == "__main__":
    hosts.main()
