#!/usr/bin/env python3
"""Changes of routes take effect for the first packet after them."""

import json
import subprocess
import sys
import threading

import hosts
import streams
from hosts import wait_until

# How often a change is made; before, 5 to 10 of 10 first packets took the old route.
ROUNDS = 10
# So few packets wait on their way to the daemon that those sent before a change do not wait until the next
# one.
QUEUE = 32
BULK_MIB = 1024
# Routes that a routing daemon changes at a time.
MANY = 10_000
# Into so many parts the time of these changes is divided; a pause of the machine spoils a few of them.
PARTS = 20

# Sends datagrams with the time as fast as it can, and meanwhile runs the commands in standard input, one
# after the other, in an endless loop. Prints the times at which each command has begun and ended, in
# nanoseconds, and ends after argv[2] commands.
FLOOD = """
import json, socket, subprocess, sys, threading, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.connect((sys.argv[1], 4455))
commands = [line.split() for line in sys.stdin.read().splitlines()]
changes, done = [], threading.Event()
def change():
    for number in range(int(sys.argv[2])):
        began = time.monotonic_ns()
        subprocess.run(commands[number % len(commands)], check=True)
        changes.append((began, time.monotonic_ns()))
        time.sleep(0.06)
    done.set()
threading.Thread(target=change).start()
while not done.is_set():
    sender.send(time.monotonic_ns().to_bytes(8, 'big'))
print(json.dumps(changes))
"""
# Prints when those datagrams were sent that have arrived, in nanoseconds.
TIMES = """
import signal, socket
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
receiver.bind(('', 4455))
print('listening', flush=True)
times = []
def end(*_):
    receiver.close()
signal.signal(signal.SIGTERM, end)
try:
    while True:
        data = receiver.recv(100)
        times.append(int.from_bytes(data, 'big'))
except OSError:
    print(*times)
"""

def used(address):
    """A command that sends a packet to an address, so that the daemon has used the route to it."""
    return f"{{ ping -n -c 1 -W 0.1 {address} || true; }}"


def another_change(number):
    """Changes that follow each other may be mirrored together, after a pause."""
    return f"ip route add 10.99.{number}.0/24 dev ib0"


class Changes(hosts.Pair):
    """left, and the gateways right and third, which have the addresses behind them. The peers reply only for
    addresses of ib0, so that a packet that takes the destination to be on the link does not arrive."""

    def setUp(self):
        self.set_up()
        self.start()
        self.third = self.add_host("third", "10.44.0.3/24")
        for host, number in ((self.left, 1), (self.right, 2), (self.third, 3)):
            host.run("sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.ib0.arp_ignore=1")
            host.run("ip", "-6", "addr", "add", f"fd96::{number}/64", "dev", "ib0", "nodad")
        batch = self.subnet.folder / "addresses"
        batch.write_text("".join(f"addr add 10.50.{number}.1/32 dev lo\naddr add fd50:{number}::1/128 dev lo\n"
                                 for number in range(2 * ROUNDS)), encoding="ascii")
        for host in (self.right, self.third):
            host.run("ip", "-batch", str(batch))
        for address in ("10.44.0.2", "10.44.0.3", "fd96::2", "fd96::3"):
            wait_until(lambda to=address: self.left.reaches(to), f"left reaches {address}")

    def first_pings(self, change, address):
        """Makes change(i), then pings address(i) once, at once, ROUNDS times. Returns how many were lost."""
        lost = []
        for number in range(ROUNDS):
            commands = " && ".join([*change(number), f"ping -n -c 1 -W 10 {address(number)}"])
            done = self.left.run("sh", "-c", commands, check=False)
            if done.returncode != 0:
                lost.append((commands, done.stdout, done.stderr))
        return lost

    def solicited(self):
        """Returns the addresses off the link that left has entries for."""
        shown = json.loads(self.left.run(hosts.program("ibarp"), "show", "--json").stdout)
        return [entry["address"] for entry in shown
                if entry["address"].startswith(("10.50.", "fd50:"))]

    def check_first_pings(self, change, address):
        self.assertEqual(self.first_pings(change, address), [])
        self.assertEqual(self.solicited(), [], "nothing off the link is solicited")

    def test_first_packet_by_a_new_ipv6_route(self):
        self.check_first_pings(lambda i: [f"ip -6 route add fd50:{i}::/64 via fd96::2"],
                               lambda i: f"fd50:{i}::1")

    def test_first_packet_by_a_new_ipv4_route(self):
        self.check_first_pings(lambda i: [f"ip route add 10.50.{i}.0/24 via 10.44.0.2"],
                               lambda i: f"10.50.{i}.1")

    def test_first_packet_by_a_new_nexthop_object(self):
        self.check_first_pings(lambda i: [f"ip nexthop add id {i + 7} via fd96::2 dev ib0",
                                          f"ip -6 route add fd50:{i}::/64 nhid {i + 7}"],
                               lambda i: f"fd50:{i}::1")
        self.check_first_pings(lambda i: [f"ip nexthop add id {i + 107} via 10.44.0.2 dev ib0",
                                          f"ip route add 10.50.{i}.0/24 nhid {i + 107}"],
                               lambda i: f"10.50.{i}.1")

    def test_first_packet_by_a_replaced_nexthop_object(self):
        for mode in ("1", "0"):
            self.left.run("sysctl", "-qw", f"net.ipv4.nexthop_compat_mode={mode}")
            self.left.run("ip", "nexthop", "replace", "id", "7", "via", "fd96::9", "dev", "ib0")
            self.left.run("ip", "-6", "route", "replace", "fd50::/16", "nhid", "7")
            self.check_first_pings(lambda i: ["ip nexthop replace id 7 via fd96::9 dev ib0",
                                              "ip nexthop replace id 7 via fd96::2 dev ib0"],
                                   lambda i: f"fd50:{i}::1")

    def test_first_packet_by_a_replaced_route(self):
        """There is no host at the old gateway."""
        self.check_first_pings(lambda i: [f"ip route add 10.50.{i}.0/24 via 10.44.0.9",
                                          f"ip route replace 10.50.{i}.0/24 via 10.44.0.2"],
                               lambda i: f"10.50.{i}.1")
        self.check_first_pings(lambda i: [f"ip -6 route add fd50:{i}::/64 via fd96::9",
                                          f"ip -6 route replace fd50:{i}::/64 via fd96::2"],
                               lambda i: f"fd50:{i}::1")

    def test_first_packet_by_another_route_after_one_was_deleted(self):
        self.left.run("ip", "route", "add", "10.50.0.0/16", "via", "10.44.0.2")
        self.left.run("ip", "-6", "route", "add", "fd50::/16", "via", "fd96::2")
        self.check_first_pings(lambda i: [f"ip route add 10.50.{i}.0/24 via 10.44.0.9",
                                          used(f"10.50.{i}.1"), another_change(i), f"ip route del 10.50.{i}.0/24"],
                               lambda i: f"10.50.{i}.1")
        self.check_first_pings(lambda i: [f"ip -6 route add fd50:{i}::/64 via fd96::9",
                                          used(f"fd50:{i}::1"), another_change(100 + i),
                                          f"ip -6 route del fd50:{i}::/64"],
                               lambda i: f"fd50:{i}::1")

    def test_first_packet_by_a_new_rule(self):
        for prefix, dead, alive in (("10.50.0.0/16", "10.44.0.9", "10.44.0.2"),
                                    ("fd50::/16", "fd96::9", "fd96::2")):
            self.left.run("ip", "route", "add", prefix, "via", dead)
            self.left.run("ip", "route", "add", prefix, "via", alive, "table", "100")
        self.check_first_pings(lambda i: [f"ip rule add to 10.50.{i}.0/24 table 100"],
                               lambda i: f"10.50.{i}.1")
        self.check_first_pings(lambda i: [f"ip -6 rule add to fd50:{i}::/64 table 100"],
                               lambda i: f"fd50:{i}::1")

    def test_first_packet_after_an_address_has_gone(self):
        """With an address go its subnet, and the IPv4 routes that have it as their source, in silence."""
        self.left.run("ip", "route", "add", "10.50.0.0/16", "via", "10.44.0.2")
        self.check_first_pings(lambda i: ["ip addr add 10.50.0.200/16 dev ib0 metric 1",
                                          used(f"10.50.{i}.1"), another_change(i),
                                          "ip addr del 10.50.0.200/16 dev ib0"],
                               lambda i: f"10.50.{i}.1")
        self.check_first_pings(lambda i: ["ip addr add 10.51.0.200/32 dev ib0",
                                          f"ip route add 10.50.{i}.0/24 via 10.44.0.9 src 10.51.0.200",
                                          used(f"10.50.{i}.1"), another_change(100 + i),
                                          "ip addr del 10.51.0.200/32 dev ib0"],
                               lambda i: f"10.50.{i}.1")

    def test_first_packet_after_the_interface_was_down(self):
        """IPv4 routes go with it, in silence."""
        self.check_first_pings(lambda i: ["ip route replace 10.50.0.0/16 via 10.44.0.9",
                                          "ip link set ib0 down", "ip link set ib0 up",
                                          "ip route add 10.50.0.0/16 via 10.44.0.2"],
                               lambda i: f"10.50.{i}.1")

    def test_a_packet_without_a_route_is_refused(self):
        """Its sender is bound to the interface. Nobody is asked for the address."""
        before = self.left.counters()
        ping = self.left.ping("10.50.0.1", "-c", "1", "-W", "1", "-I", "ib0")
        self.assertIn("Destination Net Unreachable", ping.stdout)
        after = self.left.counters()
        self.assertEqual(self.solicited(), [])
        self.assertEqual(after["arp_requests_broadcast"], before["arp_requests_broadcast"])
        self.assertEqual(after["drop_no_route"] - before["drop_no_route"], 1)

    def replace(self, gateway):
        return f"ip route replace 10.50.0.0/16 via {gateway}"

    def flood(self, rounds, commands):
        """Left floods 10.50.0.1 while it runs the commands. Returns the times of the commands, and the output of
        the receivers right and third."""
        receivers = [streams.start(host, TIMES, self.subnet.folder, "times")
                     for host in (self.right, self.third)]
        sent = subprocess.run(self.left.command(sys.executable, "-c", FLOOD, "10.50.0.1", str(rounds)),
                              input="\n".join(commands), capture_output=True, text=True, check=True,
                              env=self.subnet.environment)
        for receiver in receivers:
            receiver.end()
        return (json.loads(sent.stdout),
                [[int(word) for word in receiver.output().split()[1:]] for receiver in receivers])

    def test_under_load_a_change_takes_effect_in_time(self):
        rounds = 4 * ROUNDS
        self.left.run(*self.replace("10.44.0.3").split())
        self.left.run("ip", "link", "set", "ib0", "txqueuelen", str(QUEUE))
        self.left.run("tc", "qdisc", "replace", "dev", "ib0", "root", "pfifo", "limit", str(QUEUE))
        changes, (right, third) = self.flood(rounds, [self.replace("10.44.0.2"),
                                                      self.replace("10.44.0.3")])
        late = []
        for number, (_, changed) in enumerate(changes[:-1]):
            old, new = (third, right) if number % 2 == 0 else (right, third)
            # The last ones before the next change may wait in the TUN until after it, and take the next route.
            last = max((time for time in new if changed < time < changes[number + 1][0]), default=0)
            if last:
                late.append(max((time - changed for time in old if changed < time < last), default=0))
        print(f"latest packet by the old route: {max(late) / 1e6:.3f} ms after the change; "
              f"{sum(time > 0 for time in late)} of {len(late)} changes were late", file=sys.stderr)
        self.assertGreater(len(late), rounds / 2, "there is load")
        self.assertEqual(max(late), 0)

    @staticmethod
    def parts_with_packets(begin, end, times):
        """Returns in how many of PARTS equal parts of the time from begin to end a packet was sent."""
        return len({(time - begin) * PARTS // (end - begin) for time in times if begin <= time < end})

    def test_packets_go_on_while_many_routes_change(self):
        batch = self.subnet.folder / "batch"
        with open(batch, "w", encoding="ascii") as out:
            for number in range(MANY):
                out.write(f"route replace 10.{100 + number // 256}.{number % 256}.0/24 via 10.44.0.2\n")
        self.left.run(*self.replace("10.44.0.2").split())
        changes, (times, _) = self.flood(4, [f"ip -batch {batch}"])
        parts = [self.parts_with_packets(begin, end, times) for begin, end in changes]
        print(f"packets were sent and arrived in {parts} of {PARTS} parts of the time that {MANY} changes took",
              file=sys.stderr)
        self.assertGreater(max(parts), PARTS / 2, "packets went on")
        self.assertEqual(self.left.counters()["drop_no_route"], 0)

    def test_first_packet_after_many_changes(self):
        batch = self.subnet.folder / "batch"
        with open(batch, "w", encoding="ascii") as out:
            for number in range(MANY):
                out.write(f"route replace 10.{100 + number // 256}.{number % 256}.0/24 via 10.44.0.9\n")
        self.check_first_pings(lambda i: [f"ip -batch {batch}", self.replace("10.44.0.9"),
                                          self.replace("10.44.0.2")],
                               lambda i: f"10.50.{i}.1")

    def count_until_quiet(self):
        """Returns how often third's packets were counted until it had sent no more."""
        sent = self.third.counters()["tx_packets"]
        for number in range(100):
            before, sent = sent, self.third.counters()["tx_packets"]
            if before == sent:
                return number
        return 100

    def test_a_tcp_stream_takes_each_new_route(self):
        """Third forwards to right, or left sends to right itself."""
        self.third.run("ip", "addr", "flush", "dev", "lo", "to", "10.50.0.0/16")
        self.third.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.send_redirects=0",
                       "net.ipv4.conf.ib0.send_redirects=0")
        self.third.run("ip", "route", "add", "10.50.0.0/16", "via", "10.44.0.2")
        self.left.run(*self.replace("10.44.0.2").split())
        self.right.run("ip", "route", "add", "default", "via", "10.44.0.1")
        wait_until(lambda: self.left.reaches("10.50.0.1"), "left reaches right")
        stop = threading.Event()
        seen = []

        def change():
            while not stop.is_set():
                self.left.run(*self.replace("10.44.0.3").split())
                before = self.third.counters()["tx_packets"]
                wait_until(lambda: self.third.counters()["tx_packets"] > before or stop.is_set(),
                           "the stream takes the new route")
                self.left.run(*self.replace("10.44.0.2").split())
                seen.append(self.count_until_quiet())

        changer = threading.Thread(target=change)
        changer.start()
        try:
            streams.tcp(self.left, self.right, "10.50.0.1", BULK_MIB)
        finally:
            stop.set()
            changer.join()
        print(f"{len(seen)} changes", file=sys.stderr)
        self.assertGreater(len(seen), 0)
        self.assertLess(max(seen), 5, "third passes on what it has, and gets no more")


if __name__ == "__main__":
    hosts.main()
