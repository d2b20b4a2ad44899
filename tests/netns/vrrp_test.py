#!/usr/bin/env python3
"""VRRP: two hosts with keepalived share virtual addresses, which a third one pings every 50 ms."""

import os
import signal
import sys

import hosts
from hosts import needs, wait_until
from stations_test import Station

INTERVAL = 0.05  # seconds between two pings
# The advertisement interval is 1 s. Silence in lost pings: three intervals and the skew, at most 1 s, until
# the other host takes over from one that has failed; with priority 0, a host that ends says so (RFC 5798, 6.1).
LOST_BY_FAILURE = round(4 / INTERVAL)
LOST_BY_HANDOVER = round(0.2 / INTERVAL)
HANDOVERS = 3  # the best one counts, since a busy machine only makes them slower
MASTER, BACKUP = 254, 253  # priorities; the skew of BACKUP is 12 ms
VIRTUAL, VIRTUAL6 = "10.44.0.100", "fd44::100"

INSTANCE = """
vrrp_instance {name} {{
  state BACKUP
  interface {interface}
  virtual_router_id {number}
  priority {priority}
  advert_int 1
  {vmac}
  virtual_ipaddress {{
    {address}
  }}
}}
"""


class Keepalived:
    """Two virtual routers on an interface of a host, for IPv4 and for IPv6."""

    def __init__(self, host, interface, priority, vmac):
        folder = host.subnet.folder
        files = {kind: folder / f"{host.name}-keepalived.{kind}" for kind in ("conf", "pid", "vrrp", "log")}
        text = "global_defs {\n  vrrp_version 3\n}\n"
        for name, number, address in (("v4", 51, VIRTUAL), ("v6", 52, VIRTUAL6)):
            text += INSTANCE.format(name=name, interface=interface, number=number, priority=priority,
                                    vmac=f"use_vmac vmac{number}" if vmac else "", address=address)
        files["conf"].write_text(text, encoding="utf-8")
        self.host = host
        command = host.command("keepalived", "--dont-fork", "--log-console", "--log-detail", "--vrrp",
                               "--use-file", str(files["conf"]), "--pid", str(files["pid"]),
                               "--vrrp_pid", str(files["vrrp"]))
        self.process = hosts.Process(command, files["log"], host.subnet.environment)

    def end(self):
        """It tells the other one, and removes the virtual addresses."""
        self.process.end()

    def kill(self):
        """Its addresses stay where they are. A child of it has the sockets."""
        if self.process.is_running():
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.popen.wait()


class Silence:
    """Pings of one address; the most consecutive ones that were lost are the silence."""

    def __init__(self, host, address):
        self.address = address
        log = host.subnet.folder / f"ping-{address}.log"
        self.process = hosts.Process(host.command("ping", "-n", "-i", str(INTERVAL), address), log,
                                     host.subnet.environment)
        self.counted = 0  # the sequence number up to which they were counted

    def replies(self):
        return hosts.replies(self.process.output())

    def last(self):
        return max(self.replies(), default=0)

    def take_lost(self):
        """Returns the longest run of lost pings since the last call."""
        seen = [self.counted, *sorted({one for one in self.replies() if one > self.counted})]
        self.counted = seen[-1]
        return max((after - before - 1 for before, after in zip(seen, seen[1:])), default=0)


class Vrrp(hosts.Pair):
    """A third host with a TUN pings."""

    def set_up_peer(self):
        self.set_up()
        self.peer = self.subnet.host("peer")
        self.peer.start(address="10.44.0.99/24")
        self.peer.run("ip", "addr", "add", "fd44::99/64", "dev", "ib0", "nodad")

    @staticmethod
    def add_ipv6(host, address, interface):
        """The address of an advertisement of IPv6 is a link-local one."""
        host.run("ip", "addr", "add", f"{address}/64", "dev", interface, "nodad")
        wait_until(lambda: any(one.startswith("fe80:") for one in host.addresses("inet6", interface)) and
                   "tentative" not in host.run("ip", "-6", "addr", "show", "dev", interface).stdout,
                   f"{interface} of {host.name} has its IPv6 addresses")

    def start_on(self, host, interface, priority, vmac):
        running = Keepalived(host, interface, priority, vmac)
        self.addCleanup(running.kill)
        return running

    def holds(self, host):
        found = host.run("ip", "-o", "addr", "show").stdout
        return f" {VIRTUAL}/" in found and f" {VIRTUAL6}/" in found

    def wait_for_pings(self, pings):
        """Until the pings are answered again, without an interruption."""
        def steady(ping):
            last = ping.last()
            return len([one for one in ping.replies() if one > last - 20]) >= 20 and last > ping.begin + 20
        for ping in pings:
            ping.begin = ping.last()
        for ping in pings:
            wait_until(lambda p=ping: steady(p), f"{ping.address} answers")

    def check(self, left, right, vmac):
        """`left` and `right` are each a host and an interface."""
        master = self.start_on(*left, MASTER, vmac)
        wait_until(lambda: self.holds(left[0]), "left is MASTER")
        self.start_on(*right, BACKUP, vmac)
        pings = []
        for address in (VIRTUAL, VIRTUAL6):
            wait_until(lambda a=address: self.peer.reaches(a), f"{address} answers")
            pings.append(Silence(self.peer, address))
            self.addCleanup(pings[-1].process.end, signal.SIGKILL)
        self.wait_for_pings(pings)
        self.assertFalse(self.holds(right[0]), "there is one MASTER")
        for ping in pings:
            ping.take_lost()
        lost = []
        while min(lost, default=LOST_BY_HANDOVER + 1) > LOST_BY_HANDOVER and len(lost) < HANDOVERS:
            master.end()
            lost.append(self.silence(pings, right[0], "left has ended"))
            master = self.start_on(*left, MASTER, vmac)  # takes over, since its priority is higher
            self.assertLessEqual(self.silence(pings, left[0], "left is back"), LOST_BY_FAILURE)
            wait_until(lambda: not self.holds(right[0]), "right has given up")
        self.assertLessEqual(min(lost), LOST_BY_HANDOVER)
        master.kill()
        self.fail_host(*left)
        self.assertLessEqual(self.silence(pings, right[0], "left has failed"), LOST_BY_FAILURE)

    @staticmethod
    def fail_host(host, _interface):
        host.kill()

    def silence(self, pings, successor, what):
        """Waits until the successor is MASTER. Returns the most consecutive pings that were lost."""
        wait_until(lambda: self.holds(successor), f"{what}: {successor.name} is MASTER")
        self.wait_for_pings(pings)
        lost = {ping.address: ping.take_lost() for ping in pings}
        print(f"{self.id()}: {what}: pings lost: {lost}, one every {INTERVAL} s", file=sys.stderr)
        return max(lost.values())


@needs("keepalived")
class OnInterfaces(Vrrp):
    def start_pair(self, *options):
        self.set_up_peer()
        for number, host in enumerate((self.left, self.right), 1):
            host.start(*options, address=f"10.44.0.{number}/24")
            self.add_ipv6(host, f"fd44::{number}", "ib0")

    def check_pair(self, vmac, interface="ib0"):
        self.check((self.left, interface), (self.right, interface), vmac)

    def test_tun(self):
        self.start_pair()
        self.check_pair(False)

    def test_tap(self):
        self.start_pair("--ethernet")
        self.check_pair(False)

    def test_tap_with_a_virtual_mac(self):
        self.start_pair("--ethernet")
        self.check_pair(True)
        # A packet from an address that has just moved may come before netlink announces the address. Of a
        # MAC that is not known to be the host's, all of hundreds would be dropped.
        self.assertLess(self.right.counters()["drop_station_address"], 50)

    def test_strict_tap_with_a_virtual_mac(self):
        self.start_pair("--ethernet", "--ethernet-strict-source")
        self.check_pair(True)

    def add_macvlans(self):
        for number, host in enumerate((self.left, self.right), 31):
            host.run("ip", "link", "add", "mv0", "link", "ib0", "type", "macvlan", "mode", "bridge")
            host.run("ip", "link", "set", "mv0", "up")
            host.run("ip", "addr", "add", f"10.44.0.{number}/24", "dev", "mv0")
            self.add_ipv6(host, f"fd44::{number}", "mv0")
            wait_until(lambda n=number: self.peer.reaches(f"10.44.0.{n}"), "its address answers")

    def test_macvlan_with_an_address_of_its_own(self):
        self.start_pair("--ethernet")
        self.add_macvlans()
        for host in (self.left, self.right):
            self.assertTrue(self.peer.reaches(host.addresses()[0]), "the host has its own address, too")
            self.assertEqual(host.counters()["drop_station_address"], 0)
        self.check_pair(False, "mv0")


@needs("keepalived")
class BehindBridges(Vrrp):
    @staticmethod
    def fail_host(host, interface):
        host.run("ip", "link", "set", interface, "down")

    def check_stations(self, vmac):
        self.set_up_peer()
        stations = []
        for number, host in enumerate((self.left, self.right), 11):
            host.start("--ethernet")
            host.bridge("ib0")
            wait_until(host.has_carrier, "carrier")
            stations.append(Station(host, number, f"02:00:00:00:00:{number}"))
            self.add_ipv6(stations[-1], f"fd44::{number}:1", "eth0")
            wait_until(lambda s=stations[-1]: self.peer.reaches(s.address), "its address answers")
        self.check(*((station, "eth0") for station in stations), vmac)

    def test_stations(self):
        self.check_stations(False)

    def test_stations_with_a_virtual_mac(self):
        self.check_stations(True)


if __name__ == "__main__":
    hosts.main()
