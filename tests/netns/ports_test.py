#!/usr/bin/env python3
"""HCAs with two ports, and ports with several LIDs."""

import json
import re

import hosts
from hosts import program, wait_until


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
