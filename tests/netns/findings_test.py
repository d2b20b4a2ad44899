#!/usr/bin/env python3
"""ibarp check and explain: what an operator is told when something does not work."""

import json
import os
import pty
import subprocess

import hosts
from hosts import wait_until


class Findings(hosts.Pair):
    def setUp(self):
        self.set_up()
        self.start()

    def ask(self, *arguments, host=None):
        """Runs ibarp, compares its exit status with its findings, and returns those by subject."""
        done = (host or self.left).run(hosts.program("ibarp"), *arguments, "--json", check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        answer = json.loads(done.stdout)[0]
        self.assertEqual(answer["ok"], done.returncode == 0, answer)
        for each in answer["findings"]:
            self.assertEqual("remedy" in each, each["verdict"] != "ok", each)
        return {each["subject"]: each for each in answer["findings"]}

    def assert_finding(self, findings, subject, verdict, *words):
        self.assertIn(subject, findings)
        self.assertEqual(findings[subject]["verdict"], verdict, findings)
        text = findings[subject]["text"] + " " + findings[subject].get("remedy", "")
        for word in words:
            self.assertIn(word, text)


class Explain(Findings):
    def test_a_neighbour_that_answers(self):
        self.assert_connected()
        found = self.ask("explain", "10.44.0.2")
        self.assert_finding(found, "route", "ok", "ib0", "10.44.0.1")
        self.assert_finding(found, "neighbour", "ok", self.right.ibarp("info")["lladdr"])
        self.assert_finding(found, "path", "ok", "MTU 2048")
        self.assertNotIn("was not known", found["neighbour"]["text"])

    def test_a_neighbour_that_nobody_has_asked_for(self):
        self.left.run(hosts.program("ibarp"), "flush")
        self.assert_finding(self.ask("explain", "10.44.0.2"), "neighbour", "ok", "was not known")

    def test_a_gateway(self):
        self.left.run("ip", "route", "add", "192.0.2.0/24", "via", "10.44.0.2")
        found = self.ask("explain", "192.0.2.9")
        self.assert_finding(found, "route", "ok", "gateway 10.44.0.2")
        self.assert_finding(found, "neighbour", "ok", self.right.ibarp("info")["lladdr"])

    def test_nobody_has_the_address(self):
        found = self.ask("explain", "10.44.0.77")
        self.assert_finding(found, "neighbour", "wrong", "10.44.0.77 does not answer ARP requests", "0xffff")
        self.left.run("ip", "addr", "add", "fd44::1/64", "dev", "ib0", "nodad")
        self.assert_finding(self.ask("explain", "fd44::77"), "neighbour", "wrong", "neighbour solicitations")

    def test_what_was_dropped_meanwhile(self):
        pings = hosts.Process(self.left.command("ping", "-i", "0.2", "10.44.0.77"), self.left.log.with_suffix(".pings"),
                              self.subnet.environment)
        self.addCleanup(pings.end)
        wait_until(lambda: "10.44.0.77" in self.left.run(hosts.program("ibarp"), "show").stdout, "it is asked for")
        self.assert_finding(self.ask("explain", "10.44.0.77"), "drops", "warning", "counted by the interface meanwhile: ",
                            "drop_", "ibarp(8) explains each counter")

    def test_progress_on_a_terminal(self):
        """The line is removed at the end; there is none without a terminal."""
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        command = self.left.command(hosts.program("ibarp"), "explain", "10.44.0.77")
        done = subprocess.run(command, env=self.subnet.environment, stdout=subprocess.PIPE, stderr=theirs, check=False,
                              timeout=60)
        os.close(theirs)
        shown = b""
        while not shown.endswith(b"\r\x1b[K"):
            shown += os.read(ours, 1000)
        self.assertRegex(shown, rb"^\rasking 10\.44\.0\.77, \d s\x1b\[K")
        self.assertIn(b"does not answer", done.stdout)
        without = self.left.run(hosts.program("ibarp"), "explain", "10.44.0.77", check=False)
        self.assertEqual(without.stderr, "")

    def test_two_limited_members(self):
        for host in "left", "right":
            self.softib_set("partition", "0x7fff", host, "limited")
        wait_until(lambda: self.ask("check")["partition"]["verdict"] == "warning" and self.left.is_ready(),
                   "left is a limited member")
        self.left.run(hosts.program("ibarp"), "flush")
        found = self.ask("explain", "10.44.0.2")
        self.assert_finding(found, "neighbour", "wrong", "does not answer")
        self.assert_finding(found, "partition", "warning", "limited member")

    def test_routes_that_lead_elsewhere(self):
        run = self.left.run
        self.assert_finding(self.ask("explain", "192.0.2.1"), "route", "wrong", "ip route get 192.0.2.1")
        self.assert_finding(self.ask("explain", "10.44.0.1"), "route", "ok", "address of this host")
        run("ip", "link", "add", "other", "type", "veth", "peer", "name", "end")
        run("ip", "link", "set", "end", "up")
        run("ip", "link", "set", "other", "up")
        run("ip", "route", "add", "198.51.100.0/24", "dev", "other")
        self.assert_finding(self.ask("explain", "198.51.100.1"), "route", "wrong", "leaves by other")
        run("ip", "route", "add", "unreachable", "203.0.113.0/24")
        self.assert_finding(self.ask("explain", "203.0.113.1"), "route", "wrong")

    def test_groups(self):
        self.assert_finding(self.ask("explain", "10.44.0.255"), "group", "ok", "full")
        self.left.run("ip", "route", "add", "224.0.0.0/4", "dev", "ib0")
        self.assert_finding(self.ask("explain", "239.1.2.3"), "group", "ok", "not known yet")
        self.left.ping("239.1.2.3", "-c", "1", "-W", "1")
        wait_until(lambda: self.ask("explain", "239.1.2.3")["group"]["verdict"] == "wrong",
                   "the group is missing")
        self.assert_finding(self.ask("explain", "239.1.2.3"), "group", "wrong", "no host has joined")

    def test_the_port_is_down(self):
        self.softib_set("port", "left", "down")
        wait_until(lambda: self.left.ibarp("info")["state"] != "up", "the link is down")
        found = self.ask("explain", "10.44.0.2")
        # The kernel has no route by an interface without carrier, or still has it.
        self.assertTrue(any(each["verdict"] == "wrong" for each in found.values()), found)

    def test_wrong_usage(self):
        for arguments in ["explain"], ["explain", "nowhere"], ["explain", "10.44.0.2", "10.44.0.3"]:
            done = self.left.run(hosts.program("ibarp"), *arguments, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)


class ExplainFrom(Findings):
    def test_a_neighbour(self):
        self.assert_connected()
        found = self.ask("explain", "--from", "10.44.0.2")
        self.assert_finding(found, "route back", "ok", "by ib0, on its link")
        self.assert_finding(found, "neighbour", "ok", self.right.ibarp("info")["lladdr"])
        self.assert_finding(found, "drops", "ok")

    def test_a_sender_that_nothing_is_known_of(self):
        self.assert_finding(self.ask("explain", "--from", "10.44.0.77"), "neighbour", "ok", "is not known")
        self.assertEqual([each["address"] for each in self.entries()], [], "it must not ask for it")

    def entries(self):
        return json.loads(self.left.run(hosts.program("ibarp"), "--json", "show", "10.44.0.77", check=False).stdout or "[]")

    def test_the_route_back_leads_elsewhere(self):
        run = self.left.run
        run("ip", "link", "add", "other", "type", "veth", "peer", "name", "end")
        run("ip", "link", "set", "other", "up")
        run("ip", "route", "add", "198.51.100.0/24", "dev", "other")
        run("sysctl", "-qw", "net.ipv4.conf.ib0.rp_filter=0", "net.ipv4.conf.all.rp_filter=0")
        self.assert_finding(self.ask("explain", "--from", "198.51.100.1"), "route back", "warning", "by other, not by ib0")
        run("sysctl", "-qw", "net.ipv4.conf.ib0.rp_filter=1")
        self.assert_finding(self.ask("explain", "--from", "198.51.100.1"), "route back", "wrong", "rp_filter is 1")
        # What the answer says is what the kernel does.
        run("sysctl", "-qw", "net.ipv4.conf.ib0.rp_filter=2")
        self.assert_finding(self.ask("explain", "--from", "198.51.100.1"), "route back", "warning")
        self.assert_finding(self.ask("explain", "--from", "192.0.2.1"), "route back", "wrong", "none")

    def test_addresses_that_no_sender_has(self):
        for address in "0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "::1", "ff02::1":
            self.assert_finding(self.ask("explain", "--from", address), "address", "wrong", "no host can have it")
        self.assert_finding(self.ask("explain", "--from", "10.44.0.1"), "address", "wrong", "of this host")

    def test_pins_and_limited_members(self):
        self.left.run(hosts.program("ibarp"), "add", "10.44.0.9", "gid", "fe80::9")
        self.assert_finding(self.ask("explain", "--from", "10.44.0.9"), "neighbour", "warning", "pinned to GID fe80::9")
        self.softib_set("partition", "0x7fff", "left", "limited")
        wait_until(lambda: "partition" in self.ask("explain", "--from", "10.44.0.2"), "left is a limited member")

    def test_wrong_usage(self):
        for arguments in ["explain", "--from"], ["explain", "--from", "10.44.0.2", "10.44.0.3"], \
                ["show", "--from", "10.44.0.2"]:
            done = self.left.run(hosts.program("ibarp"), *arguments, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)


class Probe(Findings):
    def test_each_step_and_its_time(self):
        found = self.ask("probe", "10.44.0.2")
        self.assert_finding(found, "neighbour", "ok", "arp_requests_broadcast 1", "10.44.0.2 has answered")
        self.assert_finding(found, "path", "ok", "MTU 2048", "path_requests 1", "known after", " ms")
        self.assert_finding(found, "datagram", "ok", "echo reply after", " ms")
        again = self.ask("probe", "10.44.0.2")
        self.assert_finding(again, "neighbour", "ok", "arp_requests_broadcast 1")

    def test_ipv6(self):
        for host, number in (self.left, 1), (self.right, 2):
            host.run("ip", "addr", "add", f"fd44::{number}/64", "dev", "ib0", "nodad")
        found = self.ask("probe", "fd44::2")
        self.assert_finding(found, "neighbour", "ok", "nd_solicitations_multicast", "has answered")
        self.assert_finding(found, "datagram", "ok", "echo reply after")

    def test_what_is_pinned_is_not_asked_for_again(self):
        lladdr = self.right.ibarp("info")["lladdr"]
        self.left.run(hosts.program("ibarp"), "replace", "10.44.0.2", "lladdr", lladdr)
        found = self.ask("probe", "10.44.0.2")
        self.assert_finding(found, "neighbour", "ok", "not asked again")
        self.assert_finding(found, "datagram", "ok")

    def test_says_where_it_ends(self):
        found = self.ask("probe", "10.44.0.77")
        self.assert_finding(found, "neighbour", "wrong", "arp_requests_broadcast 3", "did not answer")
        self.assertNotIn("path", found)
        self.right.run("sysctl", "-qw", "net.ipv4.icmp_echo_ignore_all=1")
        found = self.ask("probe", "10.44.0.2")
        self.assert_finding(found, "path", "ok")
        self.assert_finding(found, "datagram", "wrong", "no reply", "firewall")

    def test_probes_several_times(self):
        done = self.left.run(hosts.program("ibarp"), "probe", "10.44.0.2", "--json", "--count", "3", "--interval", "0.1")
        answers = [json.loads(line)[0] for line in done.stdout.splitlines()]
        self.assertEqual([each["ok"] for each in answers], [True] * 3)


class Check(Findings):
    def test_all_is_well(self):
        found = self.ask("check")
        for subject in "daemon", "interface", "port", "subnet manager", "partition", "broadcast group", "MTU", "addresses":
            self.assert_finding(found, subject, "ok")
        text = self.left.run(hosts.program("ibarp"), "check").stdout
        self.assertTrue(text.startswith("ib0:\n"), text)
        self.assertNotIn("wrong", text)

    def test_a_normal_start_has_no_faults(self):
        self.assert_connected()
        self.left.ping("224.0.0.9", "-c", "1", "-W", "1", "-I", "ib0")  # a group that nobody has joined
        wait_until(lambda: self.left.counters()["multicast_unheard"] > 0, "nobody listens")
        self.assert_finding(self.ask("check"), "drops", "ok")
        text = self.left.run(hosts.program("ibarp"), "stats").stdout
        self.assertTrue(text.startswith("ib0:\n  counted:\n"), text)

    def test_the_interface_is_down(self):
        self.left.run("ip", "link", "set", "ib0", "down")
        wait_until(lambda: self.ask("check")["interface"]["verdict"] == "wrong", "the interface is down")
        self.assert_finding(self.ask("check"), "interface", "wrong", "ip link set ib0 up")
        self.assert_finding(self.ask("explain", "10.44.0.1"), "route", "ok")

    def test_the_port_has_no_subnet(self):
        self.softib_set("port", "left", "down")
        wait_until(lambda: self.ask("check")["port"]["verdict"] == "wrong", "the port is down")
        self.assert_finding(self.ask("check"), "port", "wrong", "waits for", "cable")
        self.softib_set("port", "left", "init")
        wait_until(lambda: "INIT" in self.ask("check")["port"]["text"], "no subnet manager has configured the port")
        self.assert_finding(self.ask("check"), "port", "wrong", "opensm")

    def test_a_limited_member(self):
        self.softib_set("partition", "0x7fff", "left", "limited")
        wait_until(lambda: self.ask("check")["partition"]["verdict"] == "warning", "limited")
        self.assert_finding(self.ask("check"), "partition", "warning", "limited member")

    def test_the_mtu_is_too_large(self):
        self.left.run("ip", "link", "set", "ib0", "mtu", "4000", check=False)
        wait_until(lambda: self.ask("check")["MTU"]["verdict"] == "wrong", "the MTU is too large")
        self.assert_finding(self.ask("check"), "MTU", "wrong", "4000 bytes", "ip link set ib0 mtu 2044")

    def test_no_address(self):
        self.left.run("ip", "addr", "flush", "dev", "ib0")
        self.assert_finding(self.ask("check"), "addresses", "warning", "ip addr add")

    def test_packets_are_dropped(self):
        self.left.ping("10.44.0.77", "-c", "1", "-W", "5")
        wait_until(lambda: "drop_neighbour_failed" in self.ask("check")["drops"]["text"], "a drop is shown")


if __name__ == "__main__":
    hosts.main()
