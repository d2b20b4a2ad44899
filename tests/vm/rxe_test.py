#!/usr/bin/env python3
"""RoCE ports of softib and of a stock kernel (rdma_rxe) against each other, in a virtual machine.

The kernel's port works in the guest's initial namespace only. That of softib is in a namespace at the other
end of a veth.
"""

import json
import os
import subprocess

import machine

import hosts
from hosts import PATIENCE, program, wait_until
from machine import ip

KERNEL, SOFTIB = "10.44.0.1", "10.44.0.2"
GROUP = "239.1.2.3"
NAMESPACE = "soft"
# The kernel's ports execute more READs at a time than those of softib.
READS = ("-o", "16")


class Side:
    """A port: how to run a program on it."""

    def __init__(self, address, device, gid, place=(), port=()):
        self.address, self.device, self.gid, self.place, self.command = address, device, gid, place, (*place, *port)

    @staticmethod
    def of_softib(address, namespace, interface):
        return Side(address, "softib0", "0", ("ip", "netns", "exec", namespace),
                    (program("softib"), "run", "--roce", interface, "--"))


class Rxe(machine.Cases):

    @classmethod
    def setUpClass(cls):
        cls.subnet = machine.Guest()
        ip("link", "set", "lo", "up")
        ip("netns", "add", NAMESPACE)
        ip("link", "add", "p0", "mtu", str(machine.DEVICE_MTU), "type", "veth", "peer", "name", "p1",
           "mtu", str(machine.DEVICE_MTU), "netns", NAMESPACE)
        for number, place in ((0, ()), (1, ("-n", NAMESPACE))):
            ip(*place, "link", "set", "lo", "up")
            ip(*place, "addr", "add", f"10.44.0.{number + 1}/24", "dev", f"p{number}")
            ip(*place, "addr", "add", f"fd44::{number + 1}/64", "dev", f"p{number}", "nodad")
            ip(*place, "link", "set", f"p{number}", "up")
        subprocess.run(["rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "p0"], check=True)
        cls.environment = {**os.environ, "SOFTIB_DIR": "/tmp/roce"}
        inside = ("ip", "netns", "exec", NAMESPACE)
        cls.process = hosts.Process([*inside, program("softib"), "roce", "p1"], "/tmp/port.log", cls.environment)
        wait_until(lambda: "ready" in cls.process.output() or not cls.process.is_running(), "the port is ready")
        cls.soft = Side.of_softib(SOFTIB, NAMESPACE, "p1")
        cls.kernel = Side(KERNEL, "rxe0", cls.gid_of_kernel("10.44.0.1"))

    @classmethod
    def tearDownClass(cls):
        cls.process.end()

    @staticmethod
    def gid_of_kernel(address):
        """Returns the index of the GID of this address, which comes a moment after it."""
        def found():
            text = subprocess.run(["ibv_devinfo", "-v", "-d", "rxe0"], check=True, capture_output=True, text=True).stdout
            return [line.split("[")[1].split("]")[0].strip() for line in text.splitlines()
                    if f"::ffff:{address}," in line]
        return wait_until(found, "the kernel's port has the GID")[0]

    def both_ways(self, run):
        for server, client in ((self.kernel, self.soft), (self.soft, self.kernel)):
            with self.subTest(f"{client.device} to {server.device}"):
                run(server, client)

    def run_pair(self, server, client, name, options_of, *options):
        """Runs a server, and the same program as its client."""
        number = len(list(self.folder.glob("*.log")))
        process = hosts.Process([*server.command, name, *options_of(server), *options],
                                self.folder / f"{number}.{name}.log", self.environment)
        self.addCleanup(process.end)
        command = [*server.place, "ss", "-Hlnt"]
        wait_until(lambda: "LISTEN" in subprocess.run(command, check=True, capture_output=True, text=True).stdout or
                   not process.is_running(), "the server listens")
        done = subprocess.run([*client.command, name, *options_of(client), *options, server.address], check=False,
                              env=self.environment, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + process.output())
        self.assertTrue(process.ends(PATIENCE), process.output())
        self.assertEqual(process.status(), 0, process.output())

    def test_pingpong(self):
        for name, *options in (("ibv_rc_pingpong", "-n", "20"), ("ibv_ud_pingpong", "-n", "20", "-s", "1000"),
                               ("ibv_srq_pingpong", "-n", "20", "-q", "2")):
            with self.subTest(name):
                self.both_ways(lambda server, client, name=name, options=options: self.run_pair(
                    server, client, name, lambda side: ("-d", side.device, "-g", side.gid), *options))

    def test_perftest(self):
        for name, *options in (("ib_send_bw", "-s", "60001"), ("ib_write_bw", "-s", "60001"), ("ib_read_bw", "-s", "60001", *READS),
                               ("ib_atomic_bw", *READS), ("ib_send_bw", "-c", "UD", "-s", "1000"), ("ib_write_bw", "-m", "1024"),
                               ("ib_send_lat", "-c", "UC", "-s", "64")):
            with self.subTest(f"{name} {options}"):
                self.both_ways(lambda server, client, name=name, options=options: self.run_pair(
                    server, client, name, lambda side: ("-d", side.device, "-x", side.gid), "-n", "20", *options))

    def connect(self, server, client, commands_of):
        serve, ask = commands_of(server)
        process = hosts.Process([*server.command, *serve], self.folder / f"{server.device}.log", self.environment)
        self.addCleanup(process.end)
        wait_until(lambda: subprocess.run([*client.command, *ask], check=False, env=self.environment, capture_output=True,
                                          timeout=PATIENCE).returncode == 0, f"{ask} succeeds")
        self.assertTrue(process.ends(PATIENCE), process.output())

    def test_connection_managers(self):
        """The kernel's rdma_cm and softib's understand each other, and addresses need no configuration."""
        for name, commands_of in (
                ("rping", lambda to: (["rping", "-s", "-a", to.address, "-C", "3"], ["rping", "-c", "-a", to.address, "-C", "3"])),
                ("udaddy", lambda to: (["udaddy"], ["udaddy", "-s", to.address])),
                ("ucmatose", lambda to: (["ucmatose", "-c", "3"], ["ucmatose", "-c", "3", "-s", to.address]))):
            with self.subTest(name):
                self.both_ways(lambda server, client, commands_of=commands_of: self.connect(server, client, commands_of))

    def test_groups(self):
        """Of IPv4, in which both use the address as MGID."""
        def run(receiver, sender):
            process = hosts.Process([*receiver.command, "mckey", "-m", GROUP, "-b", receiver.address],
                                    self.folder / f"{receiver.device}.log", self.environment)
            self.addCleanup(process.end)
            def has_got_all():
                # What is sent before the receiver has joined is lost.
                subprocess.run([*sender.command, "mckey", "-s", "-m", GROUP, "-b", sender.address], check=True,
                               env=self.environment, capture_output=True, timeout=PATIENCE)
                return not process.is_running()
            wait_until(has_got_all, "the receiver has got all packets")
            self.assertEqual(process.status(), 0, process.output())
        self.both_ways(run)

    def test_marked_packets_over_a_vlan(self):
        """Between two ports of softib: a queue marks packets instead of dropping them (RFC 3168), and the sender obeys."""
        ip("netns", "add", "other")
        self.addCleanup(ip, "netns", "del", "other")
        ip("-n", NAMESPACE, "link", "add", "e0", "mtu", str(machine.DEVICE_MTU), "type", "veth", "peer", "name", "e0",
           "mtu", str(machine.DEVICE_MTU), "netns", "other")
        for number, place in enumerate((NAMESPACE, "other"), 1):
            ip("-n", place, "link", "set", "e0", "up")
            ip("-n", place, "link", "add", "link", "e0", "name", "e0.7", "type", "vlan", "id", "7")
            ip("-n", place, "addr", "add", f"10.45.0.{number}/24", "dev", "e0.7")
            ip("-n", place, "link", "set", "e0.7", "up")
        server, client = Side.of_softib("10.45.0.1", NAMESPACE, "e0.7"), Side.of_softib("10.45.0.2", "other", "e0.7")
        subprocess.run([*client.place, "tc", "qdisc", "add", "dev", "e0", "root", "netem", "loss", "3%", "ecn"], check=True)
        self.run_pair(server, client, "ib_write_bw", lambda side: ("-d", side.device, "-x", side.gid), "-n", "200")
        counters = {}
        for entry in json.loads(self.softib("list", "--json")):
            shown = json.loads(self.softib("show", "--json", "--subnet", entry["subnet"]))
            counters[entry["subnet"]] = next(node["counters"] for node in shown["nodes"] if node["name"] == "roce")
        ours = [one for name, one in counters.items() if "e0.7" in name]
        self.assertEqual(len(ours), 2)
        self.assertGreater(sum(one["cnps_sent"] for one in ours), 0)
        self.assertGreater(sum(one["cnps_received"] for one in ours), 0)

    def softib(self, *arguments):
        return subprocess.run([program("softib"), *arguments], check=True, env=self.environment, capture_output=True,
                              text=True).stdout

    def test_loss_delay_and_duplicates(self):
        ip("link", "set", "p0", "txqueuelen", "1000")
        for place in ((), ("ip", "netns", "exec", NAMESPACE)):
            device = "p1" if place else "p0"
            subprocess.run([*place, "tc", "qdisc", "add", "dev", device, "root", "netem", "loss", "1%", "duplicate", "1%",
                            "delay", "1ms", "500us"], check=True)
            self.addCleanup(subprocess.run, [*place, "tc", "qdisc", "del", "dev", device, "root"], check=False)
        for name, *options in ("ib_write_bw",), ("ib_read_bw", *READS), ("ib_send_bw",):
            with self.subTest(name):
                self.both_ways(lambda server, client, name=name, options=options: self.run_pair(
                    server, client, name, lambda side: ("-d", side.device, "-x", side.gid), "-n", "20", "-s", "20000", *options))


if __name__ == "__main__":
    why = machine.why_no_guest("IPOIB_VM")
    machine.main("vm", why, "--module", "rdma_ucm", "--module", "sch_netem", "--module", "8021q")
