#!/usr/bin/env python3
"""A new daemon takes over the interfaces of a running one (ipoibd --takeover).

Nothing is lost: no packet, no address, no membership, and no neighbour.
"""

import json
import signal
import sys

import hosts
import streams
from hosts import wait_until
from monitor import Monitor
from stations_test import Station


class FastPings(hosts.Pings):
    """A ping every 10 ms."""

    COMMAND = ("ping", "-n", "-i", "0.01")


# Sends until a file exists, and prints a checksum.
SENDER = """
import hashlib, os, socket, sys
digest = hashlib.blake2b()
with socket.create_connection((sys.argv[1], 5001)) as peer:
    print('listening', flush=True)
    while not os.path.exists(sys.argv[2]):
        data = os.urandom(1 << 14)
        digest.update(data)
        peer.sendall(data)
print(digest.hexdigest())
"""


class Successors(hosts.Pair):
    def setUp(self):
        self.set_up("--partition", "1=full", "--partition", "2=full")

    def pings(self, host, address):
        log = self.subnet.folder / f"pings-{host.name}.log"
        process = hosts.Process(host.command(*FastPings.COMMAND, address), log,
                                self.subnet.environment)
        self.addCleanup(process.end, signal.SIGKILL)
        pings = FastPings(process)
        pings.wait_for(20)
        return pings

    def start_new(self, *options, how="--takeover"):
        """Starts another daemon, and returns the one before."""
        before = self.left.daemon
        self.addCleanup(before.end)
        self.left.start_all(how, *options, wait=False)
        return before

    def take_over(self, *options, patiently=False, how="--takeover"):
        """The same; waits until the new one serves, and the old one has ended. Unless `patiently`, a
        signal tells the old one not to wait for peers that do not know the new queue pair."""
        before = self.start_new(*options, how=how)
        wait_until(lambda: self.is_served() or not self.left.daemon.is_running(), "it serves")
        self.assertTrue(self.left.daemon.is_running(), self.left.daemon.output())
        if patiently:
            wait_until(lambda: not before.is_running(), "the old one ends")
        self.assertEqual(before.end(), 0, before.output())
        self.assertEqual(self.pid(), self.left.daemon.pid)

    def is_served(self):
        """Whether the daemon that was started last serves ib0."""
        info = self.left.run(hosts.program("ibarp"), "info", "-i", "ib0", "--json", check=False)
        return info.returncode == 0 and json.loads(info.stdout)[0]["pid"] == self.left.daemon.pid

    def pid(self, interface="ib0"):
        return self.left.ibarp("info", interface)["pid"]

    def groups_of_left(self):
        shown = json.loads(self.subnet.softib("show", "--json"))
        return {(group["mgid"], member["join_state"]) for group in shown["groups"]
                for member in group["members"] if member["hca"] == "left"}

    def neighbour(self, host, address):
        entries = json.loads(host.run(hosts.program("ibarp"), "show", address, "--json").stdout)
        return entries[0] if entries else None

    def carrier_changes(self):
        return self.left.run("cat", "/sys/class/net/ib0/carrier_changes").stdout


class Takeover(Successors):
    def test_no_ping_is_lost(self):
        self.start()
        self.assert_connected()
        self.left.run("ip", "route", "add", "10.99.0.0/16", "via", "10.44.0.2")
        before = self.left.ibarp("info"), self.left.link(), self.carrier_changes()
        groups = self.groups_of_left()
        pings = self.pings(self.left, "10.44.0.2"), self.pings(self.right, "10.44.0.1")
        self.take_over("--pkey", "0xffff", patiently=True)
        for each in pings:
            each.wait_for(50)
        info = self.left.ibarp("info")
        self.assertNotEqual(info["qpn"], before[0]["qpn"])
        self.assertEqual(self.left.link()["ifindex"], before[1]["ifindex"])
        self.assertEqual(self.carrier_changes(), before[2], "the carrier stays")
        self.assertEqual(self.groups_of_left(), groups)
        self.assertIn("10.99.0.0/16", self.left.run("ip", "route").stdout)
        known = self.neighbour(self.right, "10.44.0.1")["lladdr"]
        self.assertEqual(known, info["lladdr"], "the new queue pair was announced")
        for each in pings:
            self.assertLessEqual(each.end(), 1)
        self.assertEqual(self.left.daemon.end(), 0)
        self.assertIsNone(self.left.link(), "the new daemon removes what it has taken over")

    def test_subscribers_are_told(self):
        self.start()
        monitor = Monitor(self.left, "link")
        self.addCleanup(lambda: monitor.process.end(signal.SIGKILL))
        self.take_over("--pkey", "0xffff")
        monitor.wait_for("the new daemon", lambda event: event["event"] == "start")
        daemon = [event["event"] for event in monitor.events() if event["event"] != "link"]
        self.assertEqual(daemon, ["takeover", "end", "start"])

    def test_a_stream_survives_several(self):
        self.start()
        receiver = streams.start(self.right, streams.TCP_RECEIVER, self.subnet.folder, "receiver")
        end = self.subnet.folder / "end"
        sender = streams.start(self.left, SENDER, self.subnet.folder, "sender", "10.44.0.2", str(end))
        for _ in range(2):
            self.take_over("--pkey", "0xffff")
        end.touch()
        for process in (sender, receiver):
            wait_until(lambda process=process: not process.is_running(), "everything has arrived")
            self.assertEqual(process.popen.returncode, 0, process.output())
        self.assertEqual(sender.output().split()[-1], receiver.output().split()[-1])

    def test_neighbours_paths_and_groups_are_handed_over(self):
        self.start()
        self.assert_connected()
        ibarp = hosts.program("ibarp")
        right = self.right.ibarp("info")["lladdr"]
        self.left.run(ibarp, "replace", "10.44.0.77", "lladdr", right, "dev", "ib0")
        self.left.run(ibarp, "replace", "10.44.0.78", "gid", "fe80::9", "dev", "ib0")
        listener = streams.start(self.right, streams.LISTENER, self.subnet.folder, "heard",
                                 "239.1.2.3", "join")
        self.addCleanup(listener.end)
        self.left.run("ip", "route", "add", "239.0.0.0/8", "dev", "ib0")
        wait_until(lambda: self.is_heard(listener, "before"), "the group is joined")
        self.assertIn("ff12:401b:ffff::f01:203", self.send_groups())
        uses = self.neighbour(self.left, "10.44.0.2")["uses"]
        self.take_over("--pkey", "0xffff")
        peer = self.neighbour(self.left, "10.44.0.2")
        self.assertIn(peer["state"], ("reachable", "stale", "delay"))
        self.assertEqual(peer["lladdr"], right)
        self.assertGreaterEqual(peer["uses"], uses)
        self.assertIn("path", peer)
        self.assertIn("ff12:401b:ffff::f01:203", self.send_groups())
        wait_until(lambda: self.is_heard(listener, "after"), "it is heard")
        self.assertEqual(self.neighbour(self.left, "10.44.0.77")["state"], "permanent")
        self.assertEqual(self.neighbour(self.left, "10.44.0.78")["state"], "pinned")
        self.take_over("--pkey", "0xffff")
        self.assertEqual(self.neighbour(self.left, "10.44.0.78")["state"], "pinned", "again")

    def is_heard(self, listener, word):
        self.left.run(sys.executable, "-c", streams.SPEAKER, "239.1.2.3", word)
        return word in listener.output()

    def send_groups(self):
        return [group["mgid"] for group in self.left.ibarp("info")["groups"]
                if group["membership"] == "send-only"]

    def test_all_interfaces(self):
        self.left.start_all()
        wait_until(lambda: self.left.has_carrier("ib0.8002"), "all are up")
        self.left.run(hosts.program("ibarp"), "interface", "del", "ib0.8002")
        self.left.run(hosts.program("ibarp"), "interface", "add", "2", "name", "green", "dev", "ib0")
        self.left.run("ip", "link", "set", "ib0.8001", "name", "red")
        there = hosts.Host(self.subnet, "there")
        self.addCleanup(there.close)
        self.left.run("ip", "link", "set", "green", "netns", there.namespace)
        there.run("ip", "link", "set", "green", "up")
        wait_until(lambda: there.has_carrier("green"), "the daemon follows")
        before = self.left.link("red")["ifindex"], there.link("green")["ifindex"]
        self.take_over()
        self.assertEqual(self.pid("red"), self.left.daemon.pid)
        self.assertEqual(there.ibarp("info", "green")["pid"], self.left.daemon.pid)
        self.assertEqual((self.left.link("red")["ifindex"], there.link("green")["ifindex"]), before)
        wait_until(lambda: there.has_carrier("green"), "green is up")

    def test_what_the_new_one_does_not_serve_is_removed(self):
        self.left.start_all()
        wait_until(lambda: self.left.has_carrier("ib0.8001"), "all are up")
        self.take_over("--pkey", "0xffff")
        self.assertIsNone(self.left.link("ib0.8001"))
        self.assertTrue(self.left.has_carrier())

    def test_operators_mtu_stays(self):
        self.start()
        self.left.run("ip", "link", "set", "ib0", "mtu", "1400")
        self.take_over("--pkey", "0xffff")
        self.assertEqual(self.left.link()["mtu"], 1400)

    def test_pid_file_is_that_of_the_new_one(self):
        path = self.subnet.folder / "pid"
        self.left.start("--pid-file", str(path), address="10.44.0.1/24")
        self.take_over("--pkey", "0xffff", "--pid-file", str(path))
        self.assertEqual(path.read_text(encoding="utf-8"), f"{self.left.daemon.pid}\n")

    def test_without_a_running_daemon_it_starts_as_usual(self):
        self.left.start("--takeover", address="10.44.0.1/24")
        self.left.wait_for_log("starting as usual")

    def test_required_takeover_needs_a_running_daemon(self):
        self.left.start("--takeover=required", wait=False)
        self.assertEqual(self.left.daemon.popen.wait(hosts.PATIENCE), 1)
        self.left.wait_for_log("--takeover=required: no ipoibd to take over from is running")
        self.assertIsNone(self.left.link())
        self.start()
        self.take_over("--pkey", "0xffff", how="--takeover=required")

    def test_another_name_is_refused(self):
        """A restart has to give the interface its new name, which a takeover cannot."""
        self.start()
        self.left.run("ip", "link", "set", "ib0", "down")
        self.left.run("ip", "link", "set", "ib0", "name", "red")
        self.left.run("ip", "link", "set", "red", "up")
        wait_until(lambda: self.left.run(hosts.program("ibarp"), "info", "-i", "red",
                                         check=False).returncode == 0, "its sockets have the new name")
        old = self.start_new("--pkey", "0xffff", "--name", "red")
        self.assertEqual(self.left.daemon.popen.wait(hosts.PATIENCE), 1)
        self.left.wait_for_log("calls the interface of the partition 0xffff ib0, not red")
        self.assertTrue(old.is_running())
        self.assertEqual(self.pid("red"), old.pid)
        self.left.daemon = old

    def test_another_port_is_left_alone(self):
        self.left.start(address="10.44.0.1/24")
        daemon = self.left.daemon
        self.addCleanup(daemon.end)
        other = self.left.run(hosts.program("softib"), "run", "--hca", "right", "--",
                              hosts.program("ipoibd"), "--takeover", "--pkey", "0xffff", check=False)
        self.assertEqual(other.returncode, 1)
        self.assertIn("ib0: exists", other.stderr)
        self.assertTrue(daemon.is_running())
        self.assertEqual(self.pid(), daemon.pid)


class OfStations(Successors):
    def groups_of_ib0(self):
        shown = json.loads(self.left.run(hosts.program("ibarp"), "--json", "groups", "dev", "ib0").stdout)
        return {group.get("address") for group in shown if group["membership"] == "full"}

    def stations_of_left(self):
        found = json.loads(self.left.run(hosts.program("ibarp"), "--json", "stations").stdout)
        return {(one["address"], one["mac"], one["served"]) for one in found}

    def test_a_silent_station_is_reached_at_once(self):
        for host in self.left, self.right:
            host.start("--ethernet")
            host.bridge("ib0")
            wait_until(host.has_carrier, "carrier")
        station = Station(self.left, 11, "02:00:00:00:00:11")
        peer = Station(self.right, 21, "02:00:00:00:00:21")
        station.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
        wait_until(lambda: peer.reaches(station.address), "the peer reaches the station")
        station.run("ip", "addr", "add", "239.1.2.3/32", "dev", "eth0", "autojoin")
        wait_until(lambda: "239.1.2.3" in self.groups_of_ib0(), "the link is in the station's group")
        # It asks for nobody, and sends nothing that nobody has asked for.
        station.run("ip", "neigh", "replace", peer.address, "lladdr", station.neighbour(peer.address), "dev", "eth0",
                    "nud", "permanent")
        served = self.stations_of_left()
        self.assertIn((station.address, station.mac, True), served)
        before = self.start_new("--ethernet")
        wait_until(self.is_served, "the new one serves")
        self.assertLessEqual(served, self.stations_of_left())
        self.assertIn("239.1.2.3", self.groups_of_ib0())
        wait_until(lambda: not before.is_running(), "the old one ends")
        self.assertTrue(peer.reaches(station.address), "by its first packet")


class DiesInTheMiddle(Successors):
    """Without the subnet process the SA does not respond, so that the links of the new daemon do not
    come up, while packets still flow."""

    def prepare(self):
        self.start()
        self.assert_connected()
        self.subnet.kill_subnet()
        pings = self.pings(self.left, "10.44.0.2"), self.pings(self.right, "10.44.0.1")
        old = self.start_new("--pkey", "0xffff")
        self.left.wait_for_log("taking over from process")
        return old, pings

    def test_new_daemon_is_killed(self):
        old, pings = self.prepare()
        self.left.kill()
        self.left.daemon = old
        self.left.wait_for_log("no handover")
        for each in pings:
            each.wait_for(50)
            self.assertLessEqual(each.end(), 1)
        self.assertEqual(self.pid(), old.pid)
        self.subnet.start_subnet()
        self.assert_connected()
        self.take_over("--pkey", "0xffff")

    def test_new_daemon_is_ended(self):
        old, pings = self.prepare()
        self.assertEqual(self.left.daemon.end(), 0)
        self.left.daemon = old
        for each in pings:
            each.wait_for(50)
            self.assertLessEqual(each.end(), 1)
        self.assertEqual(self.pid(), old.pid)
        self.assertIsNotNone(self.left.link())

    def test_old_daemon_is_killed(self):
        old, _ = self.prepare()
        old.end(signal.SIGKILL)
        self.left.wait_for_log("has taken over")
        self.assertEqual(self.left.addresses(), ["10.44.0.1"])
        self.subnet.start_subnet()
        wait_until(self.left.has_carrier, "ib0 is up")
        self.assert_connected()
        wait_until(self.is_served, "the new one serves")

    def test_old_daemon_is_ended(self):
        old, _ = self.prepare()
        self.assertEqual(old.end(), 0)
        self.assertEqual(self.left.daemon.popen.wait(hosts.PATIENCE), 1)
        self.left.wait_for_log("cannot take over", "is ending")
        self.assertIsNone(self.left.link())


if __name__ == "__main__":
    hosts.main()
