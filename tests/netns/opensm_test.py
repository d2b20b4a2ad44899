#!/usr/bin/env python3
"""Hosts on an emulated subnet managed by OpenSM, which assigns LIDs, tables, partitions and groups."""

import json
import re
import signal
import sys

import hosts
import other_program
import streams
from hosts import wait_until
from opensm import PARTITIONS, OpenSm

BROADCAST = 0xc000  # the first MLID that is assigned
ALL_NODES, ALL_NODES_OF_IPV6 = "ff12:401b:ffff::1", "ff12:601b:ffff::1"


class UnderOpenSm(hosts.Pair):
    PARTITIONS = PARTITIONS
    OPTIONS = ""
    SUBNET = ("--sm", "none")

    def setUp(self):
        self.set_up(*self.SUBNET)
        self.manager = OpenSm(self.subnet, partitions=self.PARTITIONS, options=self.OPTIONS)

    def show_logs(self):
        super().show_logs()
        if self.has_failed():
            print(self.manager.output()[-8000:], file=sys.stderr)


class HostsUnderOpenSm(UnderOpenSm):
    OPTIONS = "sm_priority 5\n"

    def setUp(self):
        super().setUp()
        self.start()

    def test_ping_both_ways(self):
        for host, peer in ((self.left, "10.44.0.2"), (self.right, "10.44.0.1")):
            self.assertEqual(host.lost_of(3, peer, "-i", "0.05"), 0)

    def test_broadcast_and_multicast(self):
        self.right.run("sysctl", "-qw", "net.ipv4.icmp_echo_ignore_broadcasts=0")
        for group in ("10.44.0.255", "224.0.0.1"):
            ping = self.left.ping(group, "-b", "-c", "1", "-W", "5", "-I", "ib0")
            self.assertIn("from 10.44.0.2", ping.stdout)

    def test_ipv6(self):
        for host, address in ((self.left, "fd44::1/64"), (self.right, "fd44::2/64")):
            host.run("ip", "addr", "add", address, "dev", "ib0", "nodad")
        wait_until(lambda: self.left.reaches("fd44::2"), "left reaches right")
        wait_until(lambda: self.right.reaches("fd44::1"), "right reaches left")

    def test_an_hca_that_comes_later(self):
        third = self.add_host("third", "10.44.0.3/24")
        self.assertEqual(self.subnet.nodes()["third"]["state"], "active")
        wait_until(lambda: third.reaches("10.44.0.1"), "the third reaches left")
        wait_until(lambda: self.right.reaches("10.44.0.3"), "right reaches the third")

    def test_a_cable_is_pulled(self):
        self.assert_connected()
        self.softib_set("port", "right", "down")
        wait_until(lambda: not self.right.has_carrier(), "ib0 has lost carrier")
        self.softib_set("port", "right", "up")
        wait_until(self.right.has_carrier, "ib0 has carrier again")
        self.assert_connected()

    def test_opensm_restarts(self):
        self.assert_connected()
        for number in (signal.SIGKILL, signal.SIGTERM):
            before = self.subnet.nodes()["right"]["reregister_count"]
            self.manager.end(number)
            self.assert_connected()
            self.manager.start()
            wait_until(lambda: self.subnet.nodes()["right"]["reregister_count"] > before,
                       "right is asked to register again")
            wait_until(lambda: self.members() == {"left", "right"}, "both are members again")
            self.assert_connected()

    def test_opensm_exits_cleanly(self):
        self.assertEqual(self.manager.end(), 0)

    def test_survives_the_subnet_process(self):
        self.assert_connected()
        before = self.subnet.nodes()
        self.subnet.kill_subnet()
        self.assert_connected()
        self.subnet.start_subnet()
        after = self.subnet.nodes()
        for name in ("softib-switch", "sm", "left", "right"):
            self.assertEqual(after[name]["lid"], before[name]["lid"])
            self.assertEqual(after[name]["reregister_count"], before[name]["reregister_count"])
        self.assert_connected()
        third = self.add_host("third", "10.44.0.3/24")
        wait_until(lambda: third.reaches("10.44.0.1"), "the third reaches left")

    def test_another_opensm_takes_over(self):
        self.assert_connected()
        standby = OpenSm(self.subnet, "standby", until="Entering STANDBY state",
                         options="sminfo_polling_timeout 1000\npolling_retry_number 2\n")
        self.manager.end(signal.SIGKILL)
        standby.wait_for_line("SUBNET UP")
        lid = self.subnet.nodes()["standby"]["lid"]
        wait_until(lambda: self.subnet.nodes()["left"]["sm_lid"] == lid, "left has the new SM LID")
        wait_until(lambda: self.members() == {"left", "right"}, "both are members again")
        self.assert_connected()

    def test_an_opensm_of_higher_priority_takes_over(self):
        """The old master keeps running and hands over (IBA 14.4.1)."""
        self.assert_connected()
        OpenSm(self.subnet, "better", options="sm_priority 15\n")
        lid = self.subnet.nodes()["better"]["lid"]
        wait_until(lambda: self.subnet.nodes()["left"]["sm_lid"] == lid, "left has the new SM LID")
        self.manager.wait_for_line("Entering STANDBY state")
        wait_until(lambda: self.members() == {"left", "right"}, "both are members again")
        self.assert_connected()

    def test_set_refuses_what_opensm_manages(self):
        for change in (("lid", "left", "77"), ("mtu", "left", "1024"), ("sm", "restart"),
                       ("partition", "0x12", "left", "full"), ("pkey", "0xffff", "left", "3"),
                       ("port", "left", "armed")):
            refused = self.subnet.run_softib("set", *change)
            self.assertNotEqual(refused.returncode, 0, change)
            self.assertIn("--sm none", refused.stderr)

    def test_programs_see_the_subnet(self):
        output = self.subnet.run("left", "ibnetdiscover").stdout
        for name in ("softib-switch", "sm", "left", "right"):
            self.assertIn(f'"{name}"', output)
        self.assertNotIn("softib-sm", output)
        self.assertIn("SMINFO_MASTER", self.subnet.run("left", "sminfo").stdout)
        for name in ("sm", "left", "right"):
            lid = self.subnet.run("left", "saquery", "-L", name).stdout.strip()
            self.assertEqual(int(lid), self.subnet.nodes()[name]["lid"])

    def test_show_lists_groups_by_mlid(self):
        shown = json.loads(self.subnet.softib("show", "--json"))
        groups = {group["mlid"]: set(group["receivers"]) for group in shown["groups"]}
        self.assertEqual(groups[f"{BROADCAST:#06x}"], {"left", "right"})
        rows = [line.split() for line in self.subnet.softib("show", "groups").splitlines()]
        row = next(row for row in rows if row[:1] == [f"{BROADCAST:#06x}"])
        self.assertEqual(set(row[-2:]), {"left", "right"})

    def members(self):
        """Returns the members of the broadcast group according to OpenSM."""
        output = self.subnet.run("left", "saquery", "--smkey", "1", "-m", check=False).stdout
        records = [record for record in output.split("dump:") if f"{BROADCAST:X}" in record]
        return {name for name in ("left", "right")
                if any(f"..{name}" in record for record in records)}


class Memberships(UnderOpenSm):
    """Groups of hosts that another program on their port, or the operator of the subnet, changes."""

    GROUP, MGID = "239.1.2.3", "ff12:401b:ffff::f01:203"
    PARTITIONS = "Default=0x7fff,ipoib,mtu=4,rate=3:ALL=full;\n"

    def listen(self, host):
        listener = streams.start(host, streams.LISTENER, self.subnet.folder, "heard", self.GROUP,
                                 "join")
        self.addCleanup(listener.end)
        wait_until(lambda: self.join_state(host.name) & other_program.FULL, "the group is joined")
        return listener

    def speak(self, word):
        self.left.run(sys.executable, "-c", streams.SPEAKER, self.GROUP, word)

    def records(self):
        """Returns (group, member) -> JoinState according to OpenSM."""
        output = self.subnet.run("left", "saquery", "--smkey", "1", "-m", check=False).stdout
        found = {}
        for record in output.split("dump:")[1:]:
            fields = dict(re.findall(r"(\w+)\.{2,}(\S+)", record))
            if {"MGID", "NodeDescription", "ScopeState"} <= fields.keys():
                state = int(fields["ScopeState"], 16) & 0xf
                found[fields["MGID"], fields["NodeDescription"]] = state
        return found

    def join_state(self, name):
        return self.records().get((self.MGID, name), 0)

    def hears(self, listener, word):
        wait_until(lambda: self.speak(word) or word in listener.output(), f"'{word}' is received")


class MembershipsUnderOpenSm(Memberships):
    def setUp(self):
        super().setUp()
        self.start("--membership-check", "2")

    def test_lost_full_member_bit_is_restored(self):
        listener = self.listen(self.right)
        self.hears(listener, "before")
        other_program.join(self.subnet, "right", self.MGID, other_program.SEND_ONLY_FULL_MEMBER)
        other_program.leave(self.subnet, "right", self.MGID, other_program.FULL)
        wait_until(lambda: self.join_state("right") & other_program.FULL,
                   "right is a full member again")
        self.hears(listener, "after")

    def test_send_only_group_in_use_is_joined_again(self):
        self.listen(self.right)
        wait_until(lambda: self.speak("before") or self.join_state("left"), "left is a sender")
        other_program.leave(self.subnet, "left", self.MGID, other_program.SEND_ONLY_NON_MEMBER)
        wait_until(lambda: self.speak("after") or self.join_state("left"), "left is a sender again")


class ParametersUnderOpenSm(Memberships):
    SUBNET = ("--sm", "none", "--mtu", "4096")

    def test_new_parameters_reach_all_groups(self):
        self.start()
        listener = self.listen(self.right)
        self.hears(listener, "before")
        for host, address in ((self.left, "fd44::1/64"), (self.right, "fd44::2/64")):
            host.run("ip", "addr", "add", address, "dev", "ib0", "nodad")
        self.left.run("sysctl", "-qw", "net.ipv4.icmp_echo_ignore_broadcasts=0")
        wait_until(lambda: self.left.reaches("fd44::2"), "left reaches right")
        for mtu, code, qkey in ((2048, 4, 0x1234), (4096, 5, 0x1234), (2048, 4, 0x0b1b)):
            self.manager.end(signal.SIGKILL)
            self.manager.write(f"Default=0x7fff,ipoib,mtu={code},rate=3,Q_Key={qkey:#x}:ALL=full;\n")
            self.manager.start()
            for host in (self.left, self.right):
                wait_until(lambda host=host: self.parameters(host) == (mtu - 4, qkey),
                           "the link has the new parameters")
            wait_until(lambda: self.groups_with(mtu) > {self.MGID, ALL_NODES, ALL_NODES_OF_IPV6},
                       "all groups have the new MTU")
            self.hears(listener, f"{mtu} {qkey}")
            self.left.run(hosts.program("ibarp"), "flush")
            wait_until(lambda: self.left.reaches("fd44::2"), "left reaches right by multicast ND")
            wait_until(lambda: "from 10.44.0.1" in self.right.ping(
                "224.0.0.1", "-c", "1", "-W", "1", "-I", "ib0").stdout, "left answers all nodes' group")

    @staticmethod
    def parameters(host):
        info = host.ibarp("info")
        return info["mtu"], int(str(info["qkey"]), 0)

    def groups_with(self, mtu):
        """Returns the groups that have this MTU, according to OpenSM."""
        codes = {2048: 4, 4096: 5}
        output = self.subnet.run("left", "saquery", "--smkey", "1", "-g", check=False).stdout
        found = set()
        for record in output.split("dump:")[1:]:
            fields = dict(re.findall(r"(\w+)\.{2,}(\S+)", record))
            if (int(fields.get("Mtu", "0"), 16) & 0x3f) == codes[mtu]:
                found.add(fields["MGID"])
        return found


class ProtectedByOpenSm(UnderOpenSm):
    OPTIONS = "m_key 0x1234\nm_key_protection_level 2\n"

    def test_m_key_protects_ports(self):
        self.start()
        self.assert_connected()
        lid = str(self.subnet.nodes()["right"]["lid"])
        refused = self.subnet.run("left", "smpquery", "-t", "100", "portinfo", lid, check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.manager.end(signal.SIGKILL)
        self.manager.start()
        self.assert_connected()


class PortsUnderOpenSm(UnderOpenSm):
    """Several LIDs for each port, and an HCA whose second port is connected."""

    OPTIONS = "lmc 2\n"

    def test_ping_both_ways(self):
        self.left.start_alone("--softib=default/left", "--port", "2", "--pkey", "0xffff",
                              address="10.44.0.1/24")
        self.right.start(address="10.44.0.2/24")
        self.assert_connected()
        for name in ("left[2]", "right"):
            node = self.subnet.nodes()[name]
            self.assertEqual((node["lmc"], node["lid"] % 4), (2, 0), node)
        output = self.subnet.run("right", "smpquery", "nodedesc",
                                 str(self.subnet.nodes()["left[2]"]["lid"] + 3)).stdout
        self.assertRegex(output, r"Node Description:\.+left\n")
        for host in (self.left, self.right):
            self.assertEqual(host.counters().get("path_lid_mismatches", 0), 0)


class PartitionsOfOpenSm(Memberships):
    PARTITIONS = PARTITIONS + "Red=0x0012,ipoib:ALL=full;\n"
    RED = "ff12:401b:8012::ffff:ffff"

    def test_interfaces_follow_the_tables(self):
        for host, address in ((self.left, "10.45.0.1/24"), (self.right, "10.45.0.2/24")):
            host.start_all()
            host.configure("ib0.8012", address)
        self.assertIn("0x8012", self.subnet.nodes()["left"]["pkeys"])
        wait_until(lambda: self.left.reaches("10.45.0.2"), "left reaches right")

    def test_groups_of_a_partition_that_is_removed_are_left(self):
        self.left.start_all("--log", "sa=debug")
        wait_until(lambda: self.left.link("ib0.8012"), "the interface exists")
        self.left.run("ip", "link", "set", "ib0.8012", "up")
        wait_until(lambda: self.left.has_carrier("ib0.8012"), "the interface is up")
        joined = {mgid for mgid, name in self.records() if name == "left" and ":8012:" in mgid}
        self.assertIn(self.RED, joined)
        self.manager.write(PARTITIONS)
        self.manager.process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.left.link("ib0.8012") is None, "the interface is gone")
        self.left.wait_for_log("leave", self.RED)
        wait_until(lambda: not joined & {mgid for mgid, _ in self.records()}, "left is no member")

    def test_a_partition_is_made_later(self):
        self.left.start_all()
        self.manager.write(self.PARTITIONS + "Blue=0x0013,ipoib:ALL=full;\n")
        self.manager.process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.left.link("ib0.8013") is not None, "the interface exists")


if __name__ == "__main__":
    hosts.need("opensm", "saquery", "sminfo", "smpquery", "ibnetdiscover")
    hosts.main()
