#!/usr/bin/env python3
"""Several partitions of one port: each has an interface; partitions appear, disappear and move."""

import json
import signal

import hosts
from hosts import wait_until

RED, BLUE = "0x8001", "0x8002"


class Partitions(hosts.Pair):
    def assert_reaches(self, host, address, why=""):
        wait_until(lambda: host.reaches(address), f"{host.name} reaches {address}: {why}")

    def configure(self, interface, network):
        """Gives left .1 and right .2 of a network."""
        self.left.configure(interface, f"{network}.1/24")
        self.right.configure(interface, f"{network}.2/24")


class AllPartitions(Partitions):
    """No --pkey: an interface for each partition in the port's table."""

    def setUp(self):
        self.set_up("--partition", "1=full", "--partition", "2=full")
        for host in (self.left, self.right):
            host.start_all()

    def test_each_has_its_interface(self):
        self.configure("ib0", "10.44.0")
        self.configure("ib0.8001", "10.44.1")
        self.configure("ib0.8002", "10.44.2")
        for network in ("10.44.0", "10.44.1", "10.44.2"):
            self.assert_reaches(self.left, f"{network}.2")
        infos = {name: self.left.ibarp("info", name) for name in ("ib0", "ib0.8001", "ib0.8002")}
        self.assertEqual([info["pkey"] for info in infos.values()], ["0xffff", "0x8001", "0x8002"])
        self.assertEqual(len({info["qpn"] for info in infos.values()}), 3, "a queue pair each")
        self.assertEqual(len({info["pid"] for info in infos.values()}), 1)

    def test_partitions_are_isolated(self):
        """One network, one host in either partition. By default Linux replies to ARP on each
        interface for the addresses of all."""
        third = self.subnet.host("third")
        for host in (self.left, self.right, third):
            host.run("sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1")
        self.left.configure("ib0.8001", "10.44.1.1/24")
        self.right.configure("ib0.8002", "10.44.1.2/24")
        third.start_all()
        third.configure("ib0.8001", "10.44.1.3/24")
        self.assert_reaches(self.left, "10.44.1.3", "same partition")
        self.assertFalse(self.left.reaches("10.44.1.2"), "another partition")
        self.assertFalse(self.right.reaches("10.44.1.3"), "another partition")
        self.assertEqual(self.right.ibarp("stats", "ib0.8002")["counters"]["arp_received"], 0)

    def test_exits_cleanly(self):
        for interface in ("ib0", "ib0.8001", "ib0.8002"):
            wait_until(lambda name=interface: self.left.has_carrier(name), f"{interface} is up")
        self.assertEqual(self.left.daemon.end(signal.SIGTERM), 0, self.left.daemon.output())
        for interface in ("ib0", "ib0.8001", "ib0.8002"):
            self.assertIsNone(self.left.link(interface))
        for line in self.subnet.run_softib("show", "groups").stdout.splitlines():
            if "ff12:401b" in line:
                self.assertNotIn("left", line.split(), "left has left all groups")

    def test_deleted_interface_ends_alone(self):
        self.configure("ib0", "10.44.0")
        self.left.run("ip", "link", "del", "ib0.8001")
        self.left.wait_for_log("interface ib0.8001 was deleted")
        self.assert_reaches(self.left, "10.44.0.2", "the others still work")
        self.softib_set("partition", "3", "left", "full")
        wait_until(lambda: self.left.link("ib0.8003"), "another partition has appeared")
        self.assertIsNone(self.left.link("ib0.8001"), "a deleted interface is not recreated")
        for interface in ("ib0.8002", "ib0.8003", "ib0"):
            self.assertTrue(self.left.daemon.is_running())
            self.left.run("ip", "link", "del", interface)
        self.assertEqual(self.left.daemon.popen.wait(hosts.PATIENCE), 1, "no interface is left")
        self.assertNotIn(" error ", self.left.daemon.output(), "what the operator does is no error")

    def test_survive_a_kill(self):
        self.configure("ib0.8001", "10.44.1")
        self.assert_reaches(self.left, "10.44.1.2")
        self.right.kill()
        wait_until(lambda: not self.right.has_carrier("ib0.8001"), "carrier is lost")
        self.right.start_all()
        self.assert_reaches(self.left, "10.44.1.2", "its address is still there")


class Changes(Partitions):
    """The subnet manager changes P_Key tables while a ping runs in another partition."""

    def setUp(self):
        self.set_up("--partition", "1=full")
        for host in (self.left, self.right):
            host.start_all()
        self.configure("ib0", "10.44.0")
        ping = hosts.Process(self.left.command(*hosts.Pings.COMMAND, "10.44.0.2"),
                             self.subnet.folder / "ping.out", self.subnet.environment)
        self.addCleanup(ping.end)
        self.pings = hosts.Pings(ping)

    def assert_others_undisturbed(self):
        self.pings.wait_for(2)  # earlier pings are answered by then, or lost
        self.assertEqual(self.pings.end(), 0)

    def test_partition_appears_and_disappears(self):
        self.configure("ib0.8001", "10.44.1")
        self.assert_reaches(self.left, "10.44.1.2")
        self.softib_set("partition", "1", "left", "none")
        wait_until(lambda: self.left.link("ib0.8001") is None, "its interface is removed")
        self.left.wait_for_log("ib0.8001", "no longer in partition 0x8001")
        self.softib_set("partition", "1", "left", "full")
        self.left.configure("ib0.8001", "10.44.1.1/24")
        self.assert_reaches(self.left, "10.44.1.2")
        self.assert_others_undisturbed()

    def test_partition_reappears_at_once(self):
        for _ in range(3):
            self.softib_set("partition", "1", "left", "none")
            self.softib_set("partition", "1", "left", "full")
        self.right.configure("ib0.8001", "10.44.1.2/24")

        def reaches():
            """The interface may yet be one that goes, and an address with it."""
            self.left.run("ip", "addr", "replace", "10.44.1.1/24", "dev", "ib0.8001", check=False)
            return self.left.reaches("10.44.1.2")

        wait_until(reaches, "what comes last works")
        self.assert_others_undisturbed()

    def test_index_moves(self):
        self.configure("ib0.8001", "10.44.1")
        self.assert_reaches(self.left, "10.44.1.2")
        before = self.left.ibarp("info", "ib0.8001")["qpn"]
        self.softib_set("pkey", "1", "left", "9")
        self.left.wait_for_log("ib0.8001", "up -> joining")
        wait_until(lambda: self.left.has_carrier("ib0.8001"), "it is up again")
        self.assert_reaches(self.left, "10.44.1.2", "with the key at its new index")
        self.assertEqual(self.left.ibarp("info", "ib0.8001")["qpn"], before)
        self.assert_others_undisturbed()

    def test_two_keys_swap_indices(self):
        """If this went unnoticed, each queue pair would use the other's partition."""
        self.configure("ib0.8001", "10.44.1")
        self.softib_set("pkey", "1", "left", "0")
        self.assert_reaches(self.left, "10.44.1.2")
        self.assert_reaches(self.left, "10.44.0.2")

    def test_port_that_is_down_keeps_them(self):
        self.configure("ib0.8001", "10.44.1")
        self.softib_set("port", "left", "down")
        self.softib_set("partition", "1", "left", "none")
        wait_until(lambda: not self.left.has_carrier("ib0.8001"), "carrier is lost")
        self.assertIsNotNone(self.left.link("ib0.8001"))
        self.softib_set("partition", "1", "left", "full")
        self.softib_set("port", "left", "up")
        self.assert_reaches(self.left, "10.44.1.2", "its address is still there")


class Limited(Partitions):
    def test_healthy_member_has_no_violations(self):
        """Neither its own multicasts nor what it sends to itself count."""
        self.set_up("--partition", "1=limited:left", "--partition", "1=full:right")
        for host in (self.left, self.right):
            host.start_all()
        self.configure("ib0.8001", "10.44.1")
        self.assert_reaches(self.left, "10.44.1.2")
        self.assertEqual(self.left.ibarp("info", "ib0.8001")["membership"], "limited")
        self.assertEqual(self.left.counters("ib0.8001")["drop_port_bad_pkey"], 0)

    def test_reach_full_members_only(self):
        self.set_up("--partition", "1=limited:left,right", "--partition", "1=full:server")
        server = self.subnet.host("server")
        for host in (self.left, self.right, server):
            host.start_all()
        self.configure("ib0.8001", "10.44.1")
        server.configure("ib0.8001", "10.44.1.9/24")
        self.assert_reaches(self.left, "10.44.1.9")
        self.assert_reaches(server, "10.44.1.2")
        self.assertFalse(self.left.reaches("10.44.1.2"))
        self.assertGreater(self.right.counters("ib0.8001")["drop_port_bad_pkey"], 0)
        self.right.wait_for_log("port 1:", "refused", "by their P_Key", "limited member")
        self.left.wait_for_log("ib0.8001", "limited member", "0x8001")
        self.assertEqual(self.left.ibarp("info", "ib0.8001")["membership"], "limited")
        self.assertIn('ipoib_limited_member{interface="ib0.8001"} 1',
                      self.left.run(hosts.program("ibarp"), "metrics").stdout)
        self.assertFalse(server.logged("limited member"))

    def test_full_entry_is_preferred(self):
        """With both keys in the table there is one interface, with the full member's key."""
        self.set_up("--partition", "1=full")
        self.left.start_all()
        wait_until(lambda: self.left.link("ib0.8001"), "the interface exists")
        self.assertFalse(self.left.logged("limited member"))
        self.softib_set("partition", "1", "left", "limited")
        self.left.wait_for_log("ib0.8001", "limited member")
        self.assertIsNotNone(self.left.link("ib0.8001"), "the partition is the same")


class ByHand(Partitions):
    """The operator adds and deletes interfaces while the daemon runs."""

    def ibarp(self, host, *arguments, status=0):
        done = host.run(hosts.program("ibarp"), *arguments, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def names(self, host):
        return [line["interface"] for line in json.loads(self.ibarp(host, "interface", "-j"))]

    def groups_of(self, host, partition):
        """The groups of a partition that the host's port is a member of, according to the SA."""
        lines = self.subnet.run_softib("show", "groups").stdout.splitlines()
        return [line.split()[0] for line in lines
                if f"ff12:401b:{partition}:" in line and host.name in line.split()]

    def start_in_default(self):
        """Both ports are in a second partition, whose interface is not chosen."""
        self.set_up("--partition", "1=full")
        for host in (self.left, self.right):
            host.start()

    def test_add_and_delete(self):
        self.start_in_default()
        self.configure("ib0", "10.44.0")
        for host in (self.left, self.right):
            self.assertEqual(self.ibarp(host, "interface", "add", RED), "")
        self.configure("ib0.8001", "10.44.1")
        self.assert_reaches(self.left, "10.44.1.2", "through the added interface")
        listed = json.loads(self.ibarp(self.left, "interface", "-j"))
        self.assertEqual([(line["interface"], line["pkey"], line["state"], line["port"])
                          for line in listed],
                         [("ib0", "0xffff", "up", 1), ("ib0.8001", RED, "up", 1)])
        wait_until(lambda: self.groups_of(self.left, "8001"), "it is in the groups")

        self.ibarp(self.left, "interface", "del", "ib0.8001")
        self.assertIsNone(self.left.link("ib0.8001"), "it has gone when the command ends")
        self.assertEqual(self.groups_of(self.left, "8001"), [], "the groups were left")
        self.assertNotEqual(self.groups_of(self.left, "ffff"), [])
        self.assertEqual(self.names(self.left), ["ib0"])
        self.assert_reaches(self.left, "10.44.0.2", "the other one still works")
        self.ibarp(self.left, "interface", "add", "0x0001", "name", "red")
        self.left.configure("red", "10.44.1.1/24")
        self.assert_reaches(self.left, "10.44.1.2", "again, under another name")
        self.assertEqual(self.left.daemon.end(signal.SIGTERM), 0, self.left.daemon.output())
        self.assertIsNone(self.left.link("red"))
        self.assertNotIn(" error ", self.left.daemon.output())

    def test_refuses_what_cannot_be_done(self):
        self.start_in_default()
        self.left.run("ip", "link", "add", "taken", "type", "veth")
        for arguments, status, why in (
                (("add", "0xffff"), 1, "has the interface ib0 already"),
                (("add", RED, "name", "ib0"), 1, "choose another name"),
                (("add", RED, "name", "taken"), 1, "choose another name"),
                (("add", "0x8000"), 2, "is no P_Key"),
                (("add", RED, "name", "a/b"), 2, "without blanks"),
                (("del", "ib0"), 1, "last interface"),
                (("del", "absent"), 1, "absent")):
            self.assertIn(why, self.ibarp(self.left, "interface", *arguments, status=status))
        self.assertEqual(self.names(self.left), ["ib0"])

    def test_warns_of_what_may_not_be_meant(self):
        self.set_up("--partition", "1=full:right", "--partition", "2=limited")
        self.left.start()
        for pkey, warning in (("8002", "is 0x8002 meant? Hexadecimal numbers need 0x"),
                              ("0x8001", "waiting for partition 0x8001: the port is in"),
                              ("0x8002", "limited member of partition 0x8002")):
            done = self.left.run(hosts.program("ibarp"), "interface", "add", pkey)
            self.assertIn(warning, done.stderr)
            self.assertEqual(done.stderr.count("ibarp: warning: "), 1, done.stderr)

    def test_waits_for_the_partition(self):
        self.set_up("--partition", "1=full:right")
        self.left.start_all()
        self.right.start("--pkey", RED)
        self.ibarp(self.left, "interface", "add", RED)
        self.left.wait_for_log("ib0.8001", "waiting for", RED)
        self.softib_set("partition", "1", "left", "full")
        self.left.configure("ib0.8001", "10.44.1.1/24")
        self.right.configure("ib0", "10.44.1.2/24")
        self.assert_reaches(self.left, "10.44.1.2")
        self.softib_set("partition", "1", "left", "none")
        wait_until(lambda: not self.left.has_carrier("ib0.8001"), "carrier is lost")
        self.assertIsNotNone(self.left.link("ib0.8001"), "it stays until it is deleted")
        self.ibarp(self.left, "interface", "del", "ib0.8001")
        self.assertIsNone(self.left.link("ib0.8001"))

    def test_survives_a_failure_of_the_device(self):
        self.start_in_default()
        self.configure("ib0", "10.44.0")
        for host in (self.left, self.right):
            self.ibarp(host, "interface", "add", RED, "name", "red")
        self.configure("red", "10.44.1")
        self.softib_set("hca", "left", "failed")
        self.left.wait_for_log("waiting for", "come back")
        self.assertIn("waits for the RDMA device",
                      self.ibarp(self.left, "interface", "add", BLUE, "dev", "red", status=1))
        self.softib_set("hca", "left", "present")
        self.assert_reaches(self.left, "10.44.1.2", "it is back with its address")

    def test_names_one_of_several_daemons(self):
        self.start_in_default()
        other = hosts.Process(
            self.left.command(hosts.program("softib"), "run", "--hca", "other", "--",
                              hosts.program("ipoibd"), "--pkey", "0xffff", "--name", "ib1"),
            self.subnet.folder / "other.log", self.subnet.environment)
        self.addCleanup(other.end)
        wait_until(lambda: "ib1" in self.names(self.left), "ib1 is served")
        for arguments, message in (
                (["interface", "add", RED], 'several ipoibd are running: choose one by an interface of it with "dev IF"'),
                (["add", "10.9.9.9", "gid", "fe80::1"], 'choose an interface with "dev IF": ib0 ib1'),
                (["explain", "--from", "10.9.9.9"], 'there are several interfaces: choose one with "dev IF"')):
            self.assertIn(message, self.ibarp(self.left, *arguments, status=2))
        self.assertIn("none of the interfaces is an Ethernet one (ipoibd --ethernet)",
                      self.ibarp(self.left, "stations", status=1))
        self.ibarp(self.left, "interface", "add", RED, "dev", "ib1")
        self.assertEqual(self.names(self.left), ["ib0", "ib1", "ib1.8001"])


class Chosen(Partitions):
    def test_several_partitions(self):
        self.set_up("--partition", "1=full", "--partition", "2=full")
        for host in (self.left, self.right):
            host.start_all("--pkey", RED, "--pkey", "0x7fff", "--name", "ipoib", wait=False)
        self.configure("ipoib", "10.44.0")
        self.configure("ipoib.8001", "10.44.1")
        self.assert_reaches(self.left, "10.44.0.2")
        self.assert_reaches(self.left, "10.44.1.2")
        self.assertIsNone(self.left.link("ipoib.8002"), "this partition is not selected")

    def test_waits_for_an_absent_partition(self):
        self.set_up("--partition", "1=full:right")
        self.left.start_all("--pkey", RED, "--pkey", "0xffff", wait=False)
        self.left.wait_for_log("ib0.8001", "waiting for", RED, "0xffff")
        wait_until(self.left.has_carrier, "the other one is up")
        self.assertEqual(self.left.ibarp("info", "ib0.8001")["state"], "no_pkey")
        self.assertFalse(self.left.has_carrier("ib0.8001"))
        self.right.start_all()
        self.softib_set("partition", "1", "left", "full")
        self.configure("ib0.8001", "10.44.1")
        self.assert_reaches(self.left, "10.44.1.2")
        self.softib_set("partition", "1", "left", "none")
        wait_until(lambda: not self.left.has_carrier("ib0.8001"), "carrier is lost")
        self.assertIsNotNone(self.left.link("ib0.8001"), "a selected interface is kept")
        self.softib_set("partition", "1", "left", "full")
        self.assert_reaches(self.left, "10.44.1.2", "with its address")

    def test_group_that_is_made_later(self):
        self.set_up("--partition", "1=full,nogroup")
        self.left.start_all("--pkey", RED, wait=False)
        self.left.wait_for_log("broadcast", "join")
        self.assertFalse(self.left.has_carrier())
        self.right.start_all("--pkey", RED, "--create-group", "yes")
        self.configure("ib0", "10.44.1")
        self.assert_reaches(self.left, "10.44.1.2")


class Starting(Partitions):
    def test_port_that_becomes_active_later(self):
        self.set_up("--partition", "1=full")
        self.subnet.run("left", "true")
        self.softib_set("port", "left", "init")
        self.left.start_all(wait=False)
        self.left.wait_for_log("ib0:", "waiting for", "INIT")
        self.assertIn("INIT", self.left.ibarp("info")["waiting_for"])
        self.softib_set("port", "left", "up")
        for interface in ("ib0", "ib0.8001"):
            wait_until(lambda name=interface: self.left.has_carrier(name), f"{interface} is up")

    def test_failure_leaves_nothing_behind(self):
        """If one interface cannot be created, none is."""
        self.set_up("--partition", "1=full")
        self.left.run("ip", "link", "add", "ib0.8001", "type", "veth")
        done = self.left.run(hosts.program("softib"), "run", "--hca", "left", "--",
                             hosts.program("ipoibd"), check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("ib0.8001", done.stderr.splitlines()[-1])
        self.assertIsNone(self.left.link("ib0"))

    def test_failure_while_running_is_retried(self):
        self.set_up()
        self.left.start_all()
        wait_until(self.left.has_carrier, "ib0 is up")
        self.left.run("ip", "link", "add", "ib0.8001", "type", "veth")
        self.softib_set("partition", "1", "left", "full")
        self.left.wait_for_log("ib0.8001", "trying again")
        self.left.run("ip", "link", "del", "ib0.8001")
        wait_until(lambda: self.left.link("ib0.8001"), "the interface is created")
        self.assertTrue(self.left.has_carrier())
        text = self.left.run("ip", "-d", "link", "show", "ib0.8001").stdout
        self.assertIn("tun", text)


if __name__ == "__main__":
    hosts.main()
