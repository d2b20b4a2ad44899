#!/usr/bin/env python3
"""VRRP: two hosts with keepalived share virtual addresses. A third host, which sends nothing meanwhile, learns from
the announcement of the new master where they are, and reaches them.

How long that takes is not measured, since keepalived waits for seconds, and a busy machine for more. A host that is
not told keeps sending to the former master until it doubts its entry, and it doubts none that it does not use."""

import json
import os
import signal

import hosts
from hosts import needs, wait_until
from stations_test import Station

PINGS = 50  # of each virtual address, when it has moved
MASTER, BACKUP = 254, 253  # priorities
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


class Vrrp(hosts.Pair):
    """The third host has a TUN."""

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

    def known(self, address):
        """Returns the link-layer address that the third host has for an address; None if it has none."""
        entries = self.peer.run(hosts.program("ibarp"), "show", address, "--json").stdout
        return next((entry.get("lladdr") for entry in json.loads(entries)), None)

    def check_moved(self, host, what):
        """Waits until `host` is MASTER, and the third host knows it."""
        wait_until(lambda: self.holds(host), f"{what}: {host.name} is MASTER")
        lladdr = getattr(host, "bridged_by", host).ibarp("info")["lladdr"]
        for address in (VIRTUAL, VIRTUAL6):
            wait_until(lambda a=address: self.known(a) == lladdr, f"{what}: {address} is announced")
            self.peer.lost_of(PINGS, address, "-i", "0.02")

    def check(self, left, right, vmac):
        """`left` and `right` are each a host and an interface."""
        master = self.start_on(*left, MASTER, vmac)
        wait_until(lambda: self.holds(left[0]), "left is MASTER")
        self.start_on(*right, BACKUP, vmac)
        for address in (VIRTUAL, VIRTUAL6):
            wait_until(lambda a=address: self.peer.reaches(a), f"{address} answers")
        self.check_moved(left[0], "at first")
        self.assertFalse(self.holds(right[0]), "there is one MASTER")
        master.end()  # which it says, with priority 0 (RFC 5798, 6.1)
        self.check_moved(right[0], "left has ended")
        master = self.start_on(*left, MASTER, vmac)  # takes over, since its priority is higher
        self.check_moved(left[0], "left is back")
        wait_until(lambda: not self.holds(right[0]), "right has given up")
        master.kill()
        self.fail_host(*left)
        self.check_moved(right[0], "left has failed")

    @staticmethod
    def fail_host(host, _interface):
        host.kill()


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
