#!/usr/bin/env python3
"""IPoIB on RoCE: ipoibd on soft RoCE ports (rdma_rxe) of a stock kernel, in a virtual machine.

Soft RoCE ports work only in the guest's initial namespace, so the daemons run there; their interfaces
are in separate namespaces.
"""

import json
import pathlib
import re
import signal
import subprocess
import sys

import machine

import hosts
import streams
from hosts import program, wait_until
from machine import ip

IPV4, IPV6 = ("10.44.0.1", "10.44.0.2"), ("fd44::1", "fd44::2")
# The MGID of the limited broadcast (RFC 4391), and the group of the multicast test.
BROADCAST, GROUP, GROUP_MGID = "ff12:401b:ffff::ffff:ffff", "239.1.2.3", "ff12:401b:ffff::f01:203"
# The groups have an MTU of 2048.
IP_MTU = 2044


def index_of(device, ending):
    """Waits for the GID that ends like this, and returns its index."""
    folder = pathlib.Path(f"/sys/class/infiniband/{device}/ports/1/gids")

    def found():
        return [str(index) for index in range(16)
                if (folder / str(index)).read_text(encoding="utf-8").strip().endswith(ending)]
    return wait_until(found, f"{device} has GID ...{ending}")[0]


class RoceHost(hosts.Host):
    """A namespace with the interface of an ipoibd on the RoCE port rxe<number>."""

    def __init__(self, guest, name, number):
        super().__init__(guest, name)
        self.number = number
        self.device = f"rxe{number}"

    def start_all(self, *options, address=None, wait=True):
        self._start([program("ipoibd"), "--device", self.device, "--netns", self.namespace,
                     *options], address, wait)

    def groups_of_device(self):
        """Returns the IPv6 multicast groups of the port's network device."""
        return re.findall(r"inet6 (\S+)", ip("-6", "maddr", "show", "dev", f"p{self.number}"))

    def set_device(self, state):
        ip("link", "set", f"p{self.number}", state)


class Roce(machine.Cases):
    """Two hosts with IPv4 and IPv6 addresses."""

    @classmethod
    def setUpClass(cls):
        cls.subnet = machine.Guest()
        machine.make_ports(3)
        cls.left = RoceHost(cls.subnet, "left", 0)
        cls.right = RoceHost(cls.subnet, "right", 1)
        for host, *addresses in zip((cls.left, cls.right), IPV4, IPV6):
            host.start()
            cls.configure(host, f"{addresses[0]}/24", f"{addresses[1]}/64")

    def setUp(self):
        super().setUp()
        self.assert_connected()

    def assert_connected(self):
        for left, right in (IPV4, IPV6):
            wait_until(lambda to=right: self.left.reaches(to), "left reaches right")
            wait_until(lambda to=left: self.right.reaches(to), "right reaches left")

    def restart(self, host, *options):
        """Ends a host's daemon, starts another one and waits until it is ready."""
        host.daemon.end()
        host.start(*options)
        number = (self.left, self.right).index(host)
        self.configure(host, f"{IPV4[number]}/24", f"{IPV6[number]}/64")

    def test_neighbour_has_gid_and_lid_zero(self):
        info = self.left.ibarp("info")
        self.assertEqual((info["gid"], info.get("lid"), info["qkey"]),
                         ("fe80::ff:fe00:1", None, "0x00000b1b"))
        self.assertEqual(self.left.link()["mtu"], IP_MTU)
        shown = json.loads(self.left.run(program("ibarp"), "show", "--json").stdout)
        for address in IPV4[1], IPV6[1]:
            (entry,) = [one for one in shown if one["address"] == address]
            self.assertEqual(entry["lladdr"], self.right.ibarp("info")["lladdr"])
            self.assertEqual((entry["path"]["dlid"], entry["path"]["mtu"]), (0, 4096))

    def test_ping_at_several_sizes(self):
        for left, right, headers in ((*IPV4, 28), (*IPV6, 48)):
            for size in (0, 1, 56, 1000, IP_MTU - headers, 20000):
                for host, address in ((self.left, right), (self.right, left)):
                    self.assertEqual(host.lost_of(2, address, "-i", "0.1", "-s", str(size)), 0,
                                     f"{size} bytes to {address}")

    def test_tcp_and_udp_both_ways(self):
        for left, right in (IPV4, IPV6):
            for sender, receiver, address in ((self.left, self.right, right),
                                              (self.right, self.left, left)):
                streams.tcp(sender, receiver, address, 1)
                streams.udp(sender, receiver, address, 5, 8000)

    def test_multicast_reaches_members(self):
        for listener, speaker in ((self.left, self.right), (self.right, self.left)):
            self.assertNotIn(GROUP_MGID, listener.groups_of_device())
            listening = self.start_process(listener, sys.executable, "-c", streams.LISTENER, GROUP,
                                           "join")
            wait_until(lambda at=listener: GROUP_MGID in at.groups_of_device(), "the device has joined")

            def arrives(from_host=speaker, by=listening):
                from_host.run(sys.executable, "-c", streams.SPEAKER, GROUP, "hear me")
                return "hear me" in by.output()
            wait_until(arrives, "the message arrives")
            listening.end()
            wait_until(lambda at=listener: GROUP_MGID not in at.groups_of_device(), "the device has left")

    def test_neighbour_discovery_is_multicast(self):
        self.left.run("ip", "-6", "neigh", "flush", "dev", "ib0")
        self.left.run(program("ibarp"), "flush")
        before = self.right.counters().get("nd_received", 0)
        wait_until(lambda: self.left.reaches(IPV6[1]), "left reaches right")
        self.assertGreater(self.right.counters()["nd_received"], before)

    def test_leaves_its_groups_on_exit(self):
        self.assertIn(BROADCAST, self.right.groups_of_device())
        self.assertEqual(self.right.daemon.end(), 0)
        self.assertFalse([group for group in self.right.groups_of_device()
                          if re.match("ff12:[46]01b:", group)])
        self.restart(self.right)

    def test_is_killed_and_comes_back(self):
        before = self.right.ibarp("info")["lladdr"]
        self.right.kill()
        self.right.start()
        wait_until(self.right.is_ready, "the interface is ready, with its addresses")
        self.assertNotEqual(self.right.ibarp("info")["lladdr"], before, "a new queue pair")
        self.assert_connected()

    def test_port_goes_down_and_up(self):
        for host in (self.left, self.right):
            host.set_device("down")
            wait_until(lambda at=host: not at.has_carrier(), "carrier is lost")
            host.set_device("up")
            wait_until(host.has_carrier, "carrier is back")
            self.assert_connected()

    def test_device_gets_another_address(self):
        """A new MAC address makes a new GID, and so a new link-layer address, which peers learn."""
        before = self.right.ibarp("info")["lladdr"]
        self.right.set_device("down")
        ip("link", "set", "p1", "address", "02:00:00:00:01:02")
        self.right.set_device("up")
        wait_until(lambda: self.right.ibarp("info")["gid"] == "fe80::ff:fe00:102",
                   "the daemon uses the new GID")
        wait_until(self.right.has_carrier, "carrier is back")
        self.assertNotEqual(self.right.ibarp("info")["lladdr"], before)
        self.assert_connected()

    def test_gid_can_be_chosen(self):
        ip("addr", "add", "fe80::55:2/64", "dev", "p1", "nodad")
        self.addCleanup(ip, "addr", "del", "fe80::55:2/64", "dev", "p1")
        self.addCleanup(self.restart, self.right)
        self.restart(self.right, "--gid-index", index_of("rxe1", ":0055:0002"))
        self.assertEqual(self.right.ibarp("info")["gid"], "fe80::55:2")
        self.assert_connected()

    def bond(self):
        """Makes an active-backup bond of left's interfaces ib0 and ib1, with its address."""
        left = self.left
        left.run("ip", "link", "add", "bond0", "mtu", str(IP_MTU), "type", "bond",
                 "mode", "active-backup", "miimon", "50")
        self.addCleanup(left.run, "ip", "link", "delete", "bond0")
        for name in ("ib0", "ib1"):
            left.run("ip", "link", "set", name, "down")
            left.run("ip", "link", "set", name, "master", "bond0")
        left.run("ip", "link", "set", "bond0", "up")
        left.run("ip", "addr", "add", f"{IPV4[0]}/24", "dev", "bond0")

    def active_port(self):
        (bond,) = json.loads(self.left.run("ip", "-json", "-details", "link", "show", "bond0").stdout)
        return bond["linkinfo"]["info_data"].get("active_slave")

    def test_bond_of_two_interfaces(self):
        left = self.left
        self.addCleanup(self.restart, left)
        left.daemon.end()
        left.start("--ethernet")
        second = hosts.Process([program("ipoibd"), "--device", "rxe2", "--netns", left.namespace,
                                "--name", "ib1", "--ethernet"], self.folder / "ib1.log",
                               self.subnet.environment)
        self.addCleanup(second.end)
        wait_until(lambda: left.has_carrier("ib1"), "the second interface has a carrier")
        self.bond()
        wait_until(lambda: self.right.reaches(IPV4[0]), "right reaches the bond")
        self.assertTrue(left.reaches(IPV4[1]))
        used, spare = self.active_port(), {"ib0", "ib1"} - {self.active_port()}
        self.assertEqual(self.neighbour_of_right(), left.ibarp("info", used)["lladdr"])
        port = {"ib0": "p0", "ib1": "p2"}[used]
        ip("link", "set", port, "down")
        self.addCleanup(ip, "link", "set", port, "up")
        wait_until(lambda: {self.active_port()} == spare, "the bond uses the other interface")
        wait_until(lambda: self.right.reaches(IPV4[0]), "right reaches the bond again")
        self.assertTrue(left.reaches(IPV4[1]))
        self.assertEqual(self.neighbour_of_right(), left.ibarp("info", *spare)["lladdr"])
        self.assertFalse(left.logged("duplicate address"))

    def neighbour_of_right(self):
        shown = json.loads(self.right.run(program("ibarp"), "show", IPV4[0], "--json").stdout)
        return shown[0]["lladdr"]

    def refusal(self, *options):
        """Returns the error message of another daemon that does not start."""
        done = subprocess.run([program("ipoibd"), "--device", "rxe0", "--name", "ib9", *options],
                              check=False, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr

    def test_gid_of_ipv4_is_refused(self):
        ip("addr", "add", "10.9.0.1/24", "dev", "p0")
        self.addCleanup(ip, "addr", "del", "10.9.0.1/24", "dev", "p0")
        index = index_of("rxe0", "0a09:0001")
        self.assertRegex(self.refusal("--gid-index", index),
                         f"--gid-index {index}: .*IPv6 address")

    def test_other_partition_is_refused(self):
        self.assertIn("--pkey 0x8001: the only partitions of the RoCE port are 0xffff",
                      self.refusal("--pkey", "0x8001"))

    def test_port_has_to_be_named(self):
        done = subprocess.run([program("ipoibd")], check=False, capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("rxe0, rxe1, rxe2 (one with a RoCE port has to be named)", done.stderr)

    def test_programs_of_librdmacm_run_on_softib_beside_the_kernels_device(self):
        self.assertTrue(pathlib.Path("/dev/infiniband/rdma_cm").is_char_device(), "rdma_ucm is loaded")
        done = subprocess.run(
            [program("softib"), "exec", "--", "sh", "-c",
             "rping -s -C 3 -a fd77::1 & until rping -c -C 3 -a fd77::1; do sleep 0.1; done; wait $!"],
            check=False, capture_output=True, text=True, timeout=120, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_explains_that_the_device_is_in_another_namespace(self):
        # Another device that has the same index.
        (port,) = json.loads(ip("-json", "link", "show", "p0"))
        self.left.run("ip", "link", "add", "name", "other", "index", str(port["ifindex"]), "type",
                      "bridge")
        self.addCleanup(self.left.run, "ip", "link", "delete", "other")
        self.left.run("ip", "link", "set", "other", "up")
        log = self.folder / "elsewhere.log"
        elsewhere = hosts.Process(
            self.left.command(program("ipoibd"), "--device", "rxe0", "--name", "ib9"), log,
            self.subnet.environment)
        self.addCleanup(elsewhere.end, signal.SIGTERM)
        wait_until(lambda: "in the network namespace of the port's network device" in
                   elsewhere.output(), "the log explains it")


if __name__ == "__main__":
    why = machine.why_no_guest("IPOIB_VM")
    machine.main("vm", why, "--module", "bonding", "--module", "rdma_ucm")
