#!/usr/bin/env python3
"""Memory and fabric load of ipoibd stay bounded, whatever the host sends."""

import json
import os
import subprocess
import sys
import time

import hosts
from hosts import wait_until

LEFT, RIGHT = "10.44.0.1", "10.44.0.2"
BURST = 1000
EXCHANGES = 400
FLOOD_GROWTH_KIB = 16 * 1024
# Until ARP repeats a request; docs/states.md, "Neighbour".
REPETITION_SECONDS = 1

# Sends a burst of datagrams to one address.
SENDER = """
import socket, sys
with socket.socket(type=socket.SOCK_DGRAM) as out:
    for i in range(int(sys.argv[2])):
        out.sendto(b'x' * 64, (sys.argv[1], 5001))
"""
ECHO = """
import socket
with socket.socket(type=socket.SOCK_DGRAM) as live:
    live.bind(('0.0.0.0', 5002))
    print('listening', flush=True)
    while True:
        live.sendto(*live.recvfrom(64))
"""
# Asks the live neighbour again and again and waits for each echo. Not ping: its socket receives the ICMP
# errors for the flood, too, and overflows.
ASKING = """
import socket, sys, time
with socket.socket(type=socket.SOCK_DGRAM) as out:
    out.settimeout(10)
    out.connect((sys.argv[1], 5002))
    for i in range(int(sys.argv[2])):
        out.send(str(i).encode())
        echo = int(out.recv(64))
        if echo != i:
            sys.exit(f'{echo} came instead of {i}')
        print(i, flush=True)  # for the log of a test that failed
        time.sleep(0.005)
"""
# Sends to 10,000 addresses repeatedly until standard input ends. After each batch it waits for an echo
# of the live neighbour: then the interface's queue is empty, so no packet is lost before the daemon.
FLOOD = """
import ipaddress, select, socket, sys
live, rounds = (sys.argv[1], 5002), 0
absent = [str(ipaddress.ip_address('10.44.1.0') + i) for i in range(10000)]
with socket.socket(type=socket.SOCK_DGRAM) as out:
    out.settimeout(10)
    while True:
        for i, address in enumerate(absent):
            out.sendto(b'x' * 64, (address, 5001))
            if i % 200 == 0:
                out.sendto(b'alive?', live)
                out.recv(64)
        rounds += 1
        if select.select([sys.stdin], [], [], 0)[0]:
            break
print(rounds * len(absent))
"""


def growth(before, after, *names):
    return sum(after[name] - before[name] for name in names)


def neighbour_state(host, address):
    """Returns the state of a neighbour; None without an entry."""
    found = json.loads(host.run(hosts.program("ibarp"), "show", address, "--json").stdout)
    return found[0]["state"] if found else None


def entries(host):
    """Returns how many neighbours a host has, and how many of them are unresolved."""
    found = json.loads(host.run(hosts.program("ibarp"), "--json").stdout)
    return len(found), sum(entry["state"] == "incomplete" for entry in found)


class BoundsTest(hosts.Pair):
    def setUp(self):
        self.set_up()
        for host in (self.left, self.right):
            # Otherwise the kernel's own IPv6 packets would be counted.
            host.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")

    def start_both(self, *options):
        self.left.start(*options, address=f"{LEFT}/16")
        self.right.start(address=f"{RIGHT}/16")

    def python(self, host, script, *arguments):
        """Runs a script on a host, with its output in a file."""
        log = os.path.join(self.subnet.folder, f"{host.name}-script.log")
        return hosts.Process(host.command(sys.executable, "-c", script, *arguments), log,
                             self.subnet.environment)


class NewNeighbour(BoundsTest):
    def test_burst_sends_one_request(self):
        self.start_both()
        self.assertIsNone(neighbour_state(self.left, RIGHT))
        before, started = self.left.counters(), time.monotonic()
        self.left.run(sys.executable, "-c", SENDER, RIGHT, str(BURST))
        wait_until(lambda: neighbour_state(self.left, RIGHT) == "reachable", "right is resolved")
        in_time = time.monotonic() - started < REPETITION_SECONDS
        after = self.left.counters()
        self.assertEqual(growth(before, after, "path_requests"), 1)
        self.assertEqual(growth(before, after, "neighbours_created"), 1)
        # On a machine so slow that no reply came within a second, the request is repeated.
        requests = growth(before, after, "arp_requests_broadcast")
        self.assertIn(requests, (1,) if in_time else (1, 2, 3))
        self.assertGreater(growth(before, after, "tx_packets"), 0)

    def test_failed_neighbour_is_not_solicited_again(self):
        self.start_both()
        absent = "10.44.9.9"

        def packets_while_failed():
            self.left.ping(absent, "-c", "1", "-W", "1")
            wait_until(lambda: neighbour_state(self.left, absent) == "failed", "resolution fails")
            before = self.left.counters()
            self.left.run(sys.executable, "-c", SENDER, absent, "100")
            after = self.left.counters()
            # A failed entry lasts only a few seconds: check that it is still the same one.
            if growth(before, after, "neighbours_created") > 0:
                return None
            return before, after

        before, after = wait_until(packets_while_failed, "packets while one entry is failed")
        self.assertEqual(growth(before, after, "drop_neighbour_failed"), 100)
        self.assertEqual(growth(before, after, "arp_requests_broadcast"), 0)


class Flood(BoundsTest):
    def flood(self, neighbours, unresolved, arp_rate, *expected):
        """Floods while another program exchanges datagrams with the live neighbour, until all `expected`
        counters have grown; checks all bounds meanwhile."""
        self.start_both("--neighbours", str(neighbours), "--unresolved", str(unresolved),
                        "--arp-rate", str(arp_rate))
        echo = self.python(self.right, ECHO)
        self.addCleanup(echo.end)
        wait_until(lambda: "listening" in echo.output(), "the live neighbour listens")
        wait_until(lambda: self.left.reaches(RIGHT), "left reaches right")

        memory_before, started = hosts.resident_kib(self.left.daemon.pid), time.monotonic()
        before, heard_before = self.left.counters(), self.right.counters()
        with subprocess.Popen(self.left.command(sys.executable, "-c", FLOOD, RIGHT), text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as flood:
            asking = self.python(self.left, ASKING, RIGHT, str(EXCHANGES))
            self.addCleanup(asking.end)

            def within_bounds_to_the_end():
                earlier = self.left.counters()
                kept, incomplete = entries(self.left)
                now = self.left.counters()
                # Entries are listed page by page: an entry of one page may have been evicted for one
                # of a later page.
                new = growth(earlier, now, "neighbours_created")
                self.assertLessEqual(kept, neighbours + new)
                self.assertLessEqual(now["neighbours"], neighbours)
                self.assertLessEqual(incomplete, unresolved + new)
                return not asking.is_running() and all(now[name] > before[name] for name in expected)

            wait_until(within_bounds_to_the_end, f"the exchanges end and {expected} grow",
                       2 * hosts.PATIENCE)
            sent = flood.communicate()[0]
        # Read in this order, so that requests heard <= requests sent <= requests allowed.
        heard_after, after = self.right.counters(), self.left.counters()
        elapsed = time.monotonic() - started

        self.assertEqual(flood.returncode, 0, "the live neighbour has echoed each datagram")
        self.assertEqual(asking.end(), 0, asking.output())
        sent = int(sent)
        self.assertGreaterEqual(sent, 10000)
        self.assertLessEqual(after["neighbours"], neighbours)
        # A quarter of a second's requests may be sent at once, in each of the three shares of the rate.
        allowed = arp_rate * elapsed + arp_rate / 4 + 3
        requests = growth(before, after, "arp_requests_broadcast")
        self.assertGreater(requests, 0)
        self.assertLessEqual(requests, allowed)
        self.assertLessEqual(growth(heard_before, heard_after, "arp_received"),
                             requests + growth(before, after, "arp_requests_unicast",
                                               "arp_replies_sent", "announcements_sent"))
        if memory_before is not None:
            memory = hosts.resident_kib(self.left.daemon.pid)
            self.assertLess(memory - memory_before, FLOOD_GROWTH_KIB)
        self.assertEqual(growth(before, after, "carrier_losses"), 0)
        # The last packets are dropped when the last request times out.
        drops = [name for name in before if name.startswith("drop_")]
        wait_until(lambda: growth(before, self.left.counters(), *drops) >= sent,
                   f"each of the {sent} packets without a receiver is dropped and counted")

    def test_stays_within_the_default_bounds(self):
        self.flood(16384, 2048, 1000)

    def test_stays_within_small_bounds(self):
        self.flood(16, 8, 100, "drop_unresolved_limit", "neighbours_evicted")

    def test_stays_within_a_small_rate(self):
        self.flood(16384, 65536, 10, "drop_solicitation_limit", "solicitations_withheld")


if __name__ == "__main__":
    hosts.main()
