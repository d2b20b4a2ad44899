#!/usr/bin/env python3
"""RoCE ports: programs in two network namespaces whose interfaces are connected, with no subnet between."""

import json
import os
import pathlib
import re
import signal
import struct
import tempfile
import unittest
import zlib

import hosts  # before those of tests/interop, which it makes known
import connected_programs
import rdma_core_suite
import softib_subnet
from hosts import PATIENCE, program, wait_until
from softib_lab import host as lab

LEFT = "10.44.0.1"
IBV_WC_LOC_LEN_ERR = 1
MTU = 4200  # of the interfaces: 4,096 bytes of payload


class Machine(lab.Host):
    """A host whose interface eth0 leads to the other one."""

    failure = AssertionError

    def __init__(self, name, folder):
        self.name = name
        self.folder = folder
        environment = {**os.environ, "SOFTIB_DIR": str(folder)}
        super().__init__(f"ipoibd-{os.getpid()}-{name}", environment, program("ibarp"))

    def softib(self, *arguments, check=True, patience=PATIENCE):
        return self.run(program("softib"), *arguments, check=check, patience=patience)

    def on_roce(self, *command, roce="eth0"):
        return [program("softib"), "run", "--roce", roce, "--", *command]

    def start(self, *command, roce="eth0"):
        """Starts a program on the port."""
        return hosts.Process(self.command(*self.on_roce(*command, roce=roce)), self.folder / f"{self.name}.log",
                             self.environment)

    def run_on(self, *command, roce="eth0", check=True):
        return self.run(*self.on_roce(*command, roce=roce), check=check)

    def subnets(self):
        """Returns the names of the ports that run."""
        return [entry["subnet"] for entry in json.loads(self.softib("list", "--json").stdout)
                if entry["folder"].startswith(str(self.folder)) and entry["subnet"].endswith(self.name)]

    def pid(self):
        """Returns that of the process of the port."""
        return next(entry["pid"] for entry in json.loads(self.softib("list", "--json").stdout)
                    if entry["subnet"] == self.subnet() and entry["folder"].startswith(str(self.folder)))

    def subnet(self):
        """Returns the name of the port; None if its process does not run."""
        return next(iter(self.subnets()), None)

    def listens(self):
        """Whether a program on the port listens for connections."""
        subnet = self.subnet()
        if subnet is None:
            return False
        return bool(softib_subnet.services(self.softib("show", "--subnet", subnet, "--cm", "--json").stdout))

    def counters(self):
        """Returns the counters of the port."""
        shown = json.loads(self.softib("show", "--subnet", self.subnet(), "--json").stdout)
        return next(node["counters"] for node in shown["nodes"] if node["name"] == "roce")


class Roce(unittest.TestCase):
    """Two machines with a cable between them."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.left, self.right = (self.machine(name) for name in ("left", "right"))
        self.left.run("ip", "link", "add", "eth0", "mtu", str(MTU), "type", "veth", "peer", "name", "eth0",
                      "mtu", str(MTU), "netns", self.right.namespace)
        for number, machine in enumerate((self.left, self.right), 1):
            machine.run("ip", "addr", "add", f"10.44.0.{number}/24", "dev", "eth0")
            machine.run("ip", "addr", "add", f"fd44::{number}/64", "dev", "eth0", "nodad")
            machine.run("ip", "link", "set", "eth0", "up")
        for machine in self.left, self.right:
            wait_until(lambda host=machine: host.has_carrier("eth0"), "the cable is there")
            wait_until(lambda host=machine: "tentative" not in host.run("ip", "-6", "addr").stdout, "addresses are checked")

    def machine(self, name):
        machine = Machine(name, self.folder)
        self.addCleanup(machine.remove, check=False)
        self.addCleanup(self.stop, machine)
        return machine

    def stop(self, machine):
        for subnet in machine.subnets():
            machine.softib("stop", subnet, check=False)

    def pair(self, *command, options=()):
        """Runs a server on the left, then the same program as its client on the right. Programs of perftest that
        cannot measure the processor's clock on a busy machine are run again."""
        for _ in range(5):
            server, client, output = self.pair_once(*command, options=options)
            if softib_subnet.CLOCK_IS_UNKNOWN not in output + client.stdout + client.stderr:
                break
        self.assertEqual(client.returncode, 0, client.stdout + client.stderr + output)
        self.assertEqual(server, 0, output)
        return client.stdout

    def pair_once(self, *command, options):
        """Returns the exit status of the server, the client, and the output of the server."""
        server = self.left.start(*command, *options)
        self.addCleanup(server.end)
        earlier = len(server.output())
        wait_until(lambda: self.listens() or not server.is_running(), "the server listens")
        done = self.right.run_on(*command, *options, LEFT, check=False)
        self.assertTrue(server.ends(PATIENCE), done.stdout + done.stderr + server.output())
        return server.status(), done, server.output()[earlier:]

    def assert_done(self, status, output):
        """Programs of perftest that cannot measure the processor's clock on a busy machine do all but their report."""
        if softib_subnet.CLOCK_IS_UNKNOWN not in output:
            self.assertEqual(status, 0, output)

    def listens(self):
        return "LISTEN" in self.left.run("ss", "-Hlnt").stdout


class Ports(Roce):
    """What a program sees of the port."""

    def gids(self, machine):
        return softib_subnet.roce_gids(machine.run_on("ibv_devinfo", "-v").stdout)

    def test_devinfo_shows_an_ethernet_port(self):
        text = self.left.run_on("ibv_devinfo", "-v").stdout
        for line in (r"link_layer:\s+Ethernet", r"state:\s+PORT_ACTIVE", r"active_mtu:\s+4096", r"port_lid:\s+0",
                     r"sm_lid:\s+0"):
            self.assertRegex(text, line)
        self.assertEqual(self.gids(self.left)[:2], [f"::ffff:{LEFT}", "fd44::1"])
        self.assertIn("::", self.gids(self.left)[-1])

    def test_an_address_alone(self):
        text = self.left.run_on("ibv_devinfo", "-v", roce=LEFT).stdout
        self.assertEqual(softib_subnet.roce_gids(text), [f"::ffff:{LEFT}"])

    def test_the_interface_of_the_default_route(self):
        self.left.run("ip", "route", "add", "default", "via", "10.44.0.9")
        done = self.left.run(program("softib"), "run", "--roce", "--", "ibv_devinfo", "-v")
        self.assertIn(f"::ffff:{LEFT}", done.stdout)
        self.left.run("ip", "route", "del", "default")
        done = self.left.run(program("softib"), "run", "--roce", "--", "true", check=False)
        self.assertIn("no default route", done.stderr)

    def test_errors_say_what_to_do(self):
        for roce, words in (("eth7", ("no network interface 'eth7'", "eth0", "lo")),
                            ("192.0.2.9", ("has the address 192.0.2.9", "eth0"))):
            done = self.left.run_on("true", roce=roce, check=False)
            self.assertEqual(done.returncode, 1)
            for word in words:
                self.assertIn(word, done.stderr)

    def test_the_port_follows_its_interface(self):
        events = self.left.start("ibv_asyncwatch")
        self.addCleanup(events.end)
        wait_until(lambda: "async event" in events.output(), "the program waits for events")
        self.left.run("ip", "addr", "add", "10.44.1.1/24", "dev", "eth0")
        wait_until(lambda: "GID_CHANGE" in events.output() or "GID table change" in events.output(),
                   "a new address is an event")
        wait_until(lambda: "::ffff:10.44.1.1" in self.gids(self.left), "the address is a GID")
        self.left.run("ip", "addr", "del", "10.44.1.1/24", "dev", "eth0")
        wait_until(lambda: "::ffff:10.44.1.1" not in self.gids(self.left), "the GID has gone")
        self.right.run("ip", "link", "set", "eth0", "down")
        wait_until(lambda: "port error" in events.output().lower() or "PORT_ERR" in events.output(),
                   "the carrier has gone")
        self.right.run("ip", "link", "set", "eth0", "up")
        wait_until(lambda: "port active" in events.output().lower() or "PORT_ACTIVE" in events.output(),
                   "the carrier has come back")

    def test_a_program_may_open_the_device_late(self):
        """After the time in which the process of the port ends without programs; or a child of it may."""
        done = self.left.run_on("sh", "-c", "sleep 7; ibv_devinfo")
        self.assertIn("PORT_ACTIVE", done.stdout)

    def test_the_process_of_the_port_ends_with_its_last_program(self):
        self.left.run_on("ibv_devinfo")
        self.assertIsNotNone(self.left.subnet())
        wait_until(lambda: self.left.subnet() is None, "the process has ended")


class Verbs(Roce):
    """Datagrams and connections between the machines, by other people's programs."""

    @hosts.needs("ibv_rc_pingpong")
    def test_pingpong(self):
        for name in "ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_srq_pingpong":
            with self.subTest(name):
                self.assertIn("bytes in", self.pair(name, options=("-g", "0", "-n", "100")))
        self.assertIn("bytes in", self.pair("ibv_ud_pingpong", options=("-g", "0", "-n", "100", "-s", "1000")))

    @hosts.needs("ibv_rc_pingpong")
    def test_pingpong_over_ipv6(self):
        for index, name in enumerate(("fd44::", "fe80::")):
            with self.subTest(name):
                self.assertIn("bytes in", self.pair("ibv_rc_pingpong", options=("-g", str(1 + index), "-n", "50", "-c")))
        self.assertIn("bytes in", self.pair("ibv_ud_pingpong", options=("-g", "1", "-n", "50", "-s", "1000", "-c")))

    @hosts.needs("ib_write_bw")
    def test_perftest(self):
        for name, *options in (("ib_send_bw", "-a"), ("ib_write_bw", "-a"), ("ib_read_bw", "-a"), ("ib_atomic_bw",),
                               ("ib_send_lat", "-c", "UD"), ("ib_write_lat",), ("ib_send_bw", "-m", "1024", "-s", "65536"),
                               ("ib_send_bw", "-e", "-s", "8192")):
            with self.subTest(f"{name} {' '.join(options)}"):
                # Time-outs of a second: on a busy machine the peer may not run for as long as all retries take.
                count = ("-u", "18", "-n", "5") if "-a" in options else ("-u", "18", "-n", "200")
                self.assertIn("#bytes", self.pair(name, options=("-d", "softib0", "-x", "0", *count, *options)))
        self.assertEqual(self.left.counters()["drop_icrc"], 0)

    @hosts.needs("rping", "udaddy", "ucmatose")
    def test_connection_managers(self):
        for server, client in (
                (["rping", "-s", "-a", LEFT, "-C", "5"], ["rping", "-c", "-a", LEFT, "-C", "5"]),
                (["rping", "-s", "-a", "fd44::1", "-C", "5"], ["rping", "-c", "-a", "fd44::1", "-C", "5"]),
                (["udaddy"], ["udaddy", "-s", LEFT]),
                (["ucmatose", "-c", "5"], ["ucmatose", "-c", "5", "-s", LEFT]),
                (["ib_send_lat", "-R", "-n", "100"], ["ib_send_lat", "-R", "-n", "100", LEFT])):
            with self.subTest(" ".join(client)):
                self.play(server, client)

    @hosts.needs("rping")
    def test_the_end_of_a_process_ends_its_connections(self):
        """It is killed, so it sends nothing itself, and its peer on another machine cannot see that."""
        for _ in range(3):
            server = self.start_listener("rping", "-s", "-P", "-a", LEFT)
            client = self.right.start("stdbuf", "-oL", "rping", "-c", "-v", "-C", "100000000", "-a", LEFT)
            self.addCleanup(client.end)
            wait_until(lambda of=client: "rdma-ping-9" in of.output(), "data")
            server.end(signal.SIGKILL)
            wait_until(lambda of=client: "DISCONNECT EVENT" in of.output(), "the event")
            self.assertTrue(client.ends(PATIENCE))

    def start_listener(self, *server):
        process = self.left.start(*server)
        self.addCleanup(process.end)
        wait_until(lambda: self.left.listens() or not process.is_running(), f"{server} listens")
        return process

    def play(self, server, client):
        """Until both succeed."""
        for _ in range(connected_programs.ATTEMPTS):
            process = self.start_listener(*server)
            done = self.right.run_on(*client, check=False)
            if done.returncode == 0:
                self.assertTrue(process.ends(PATIENCE), process.output())
                return
            output = done.stdout + done.stderr
            self.assertRegex(output, connected_programs.FAULTS)
            process.end(signal.SIGKILL)
        self.fail(f"{client} never succeeds: {output}")

    @unittest.skipIf(rdma_core_suite.why_not(), rdma_core_suite.why_not())
    def test_rdma_core_suite(self):
        suite = rdma_core_suite.unpack(self.folder / "suite" / "tests")
        done = self.left.run(*self.left.on_roce(rdma_core_suite.PYTHON, str(suite), "-v"), check=False, patience=240)
        output = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, output)
        listed = rdma_core_suite.listed
        rdma_core_suite.check(output, listed("Passed") | listed("Passed on RoCE ports only"), listed("Skipped"))

    @hosts.needs("ib_write_bw", "dumpcap")
    def test_each_icrc_is_right(self):
        """Computed again from what is on the wire, where the kernel has taken the datagrams apart."""
        for machine in self.left, self.right:
            machine.run("ethtool", "-K", "eth0", "tx-udp-segmentation", "off", "gso", "off")
        capture = self.folder / "wire.pcap"
        dump = hosts.Process(self.left.command("dumpcap", "-q", "-P", "-B", "16", "-i", "eth0", "-f", "udp port 4791", "-w",
                                               capture), self.folder / "dump.log", os.environ)
        self.addCleanup(dump.end)
        wait_until(lambda: "File:" in dump.output(), "the capture has begun")
        for options in (("ib_write_bw", "-d", "softib0", "-x", "0", "-n", "10", "-s", "60001"),
                        ("ib_send_bw", "-d", "softib0", "-x", "1", "-n", "10", "-s", "60001")):
            self.pair(*options)
        self.pair("ibv_ud_pingpong", options=("-g", "0", "-n", "10", "-s", "1001"))
        dump.end()
        packets = list(packets_of(capture.read_bytes()))
        self.assertGreater(len([packet for packet in packets if len(packet) > 4096]), 200)
        self.assertEqual([packet.hex() for packet in packets if not has_right_icrc(packet)], [])
        self.assertEqual({packet[0] >> 4 for packet in packets}, {4, 6})

    @hosts.needs("ib_write_bw")
    def test_three_programs_on_each_machine(self):
        """The kernel hands each packet to the process of its queue pair."""
        ports = 18515, 18516, 18517
        servers = [self.left.start("ib_write_bw", "-d", "softib0", "-x", "0", "-n", "500", "-p", str(port))
                   for port in ports]
        for server in servers:
            self.addCleanup(server.end)
        wait_until(lambda: self.left.run("ss", "-Hlnt").stdout.count("LISTEN") == len(ports), "all servers listen")
        clients = [self.right.start("ib_write_bw", "-d", "softib0", "-x", "0", "-n", "500", "-p", str(port), LEFT)
                   for port in ports]
        for process in (*clients, *servers):
            self.addCleanup(process.end)
            self.assertTrue(process.ends(PATIENCE))
            self.assert_done(process.status(), process.output())
        self.assertEqual(self.left.counters()["drop_unknown_qp"], 0)

    @hosts.needs("ib_write_bw", "rping")
    def test_a_killed_process_of_the_port_is_replaced(self):
        """Programs that run go on, although the kernel numbers their sockets before those of the new process."""
        options = ("ib_write_bw", "-d", "softib0", "-x", "0", "-D", "6")
        server = self.left.start(*options)
        self.addCleanup(server.end)
        wait_until(self.listens, "the server listens")
        client = self.right.start(*options, LEFT)
        self.addCleanup(client.end)
        wait_until(lambda: self.left.counters()["received_packets"] > 1000, "packets come")
        for machine in self.left, self.right:
            os.kill(machine.pid(), signal.SIGKILL)
        self.play(["rping", "-s", "-a", LEFT, "-C", "5"], ["rping", "-c", "-a", LEFT, "-C", "5"])
        for process in client, server:
            self.assertTrue(process.ends(PATIENCE), process.output())
            self.assert_done(process.status(), process.output())

    def test_on_one_machine(self):
        """Packets to an address of the port itself do not leave the machine."""
        server = self.left.start("ib_write_bw", "-d", "softib0", "-x", "0", "-n", "100")
        self.addCleanup(server.end)
        wait_until(self.listens, "the server listens")
        done = self.left.run_on("ib_write_bw", "-d", "softib0", "-x", "0", "-n", "100", LEFT, check=False)
        self.assert_done(done.returncode, done.stdout + done.stderr)
        self.assertTrue(server.ends(PATIENCE), server.output())


class Multicast(Roce):
    """Groups, which a process joins through its interface."""

    @hosts.needs("mckey")
    def test_members_on_both_machines(self):
        for number, group in ("10.44.0", "239.1.2.3"), ("fd44:", "ff15::77"):
            with self.subTest(group):
                receivers = [machine.start("mckey", "-m", group, "-b", f"{number}{'.' if '.' in group else ':'}{last}")
                             for last, machine in ((1, self.left), (2, self.right))]
                for receiver in receivers:
                    self.addCleanup(receiver.end)
                for machine in self.left, self.right:
                    wait_until(lambda of=machine: group in of.run("ip", "maddr").stdout, "the interface has joined")
                self.right.run_on("mckey", "-s", "-m", group, "-b", f"{number}{'.' if '.' in group else ':'}2")
                for receiver in receivers:
                    self.assertTrue(receiver.ends(PATIENCE), receiver.output())
                    self.assertIn("data transfers complete", receiver.output())

    def test_groups_are_left(self):
        member = self.left.start("mckey", "-m", "239.1.2.3", "-b", LEFT)
        self.addCleanup(member.end)
        wait_until(lambda: "239.1.2.3" in self.left.run("ip", "maddr").stdout, "the interface has joined")
        member.end()
        wait_until(lambda: "239.1.2.3" not in self.left.run("ip", "maddr").stdout, "the interface has left")

    def test_ipoibd(self):
        """Links between machines that have no RDMA device: ARP, ND, TCP."""
        for number, machine in enumerate((self.left, self.right), 1):
            daemon = hosts.Process(machine.command(program("ipoibd"), "--softib", "--roce=eth0"),
                                   self.folder / f"{machine.name}.ipoibd", machine.environment)
            self.addCleanup(lambda of=daemon: self.assertNotIn("refused the system call", of.output()))
            self.addCleanup(daemon.end)
            wait_until(lambda of=machine: of.has_carrier("ib0"), "the interface is up")
            machine.run("ip", "addr", "add", f"10.99.0.{number}/24", "dev", "ib0")
        self.right.run("ping", "-c", "2", "10.99.0.1")
        shown = json.loads(self.left.run(program("ibarp"), "--json").stdout)
        self.assertIn("10.99.0.2", str(shown))
        wait_until(lambda: "tentative" not in self.left.run("ip", "-6", "addr", "show", "dev", "ib0").stdout, "the address is checked")
        wait_until(lambda: self.left.run("ping", "-c", "1", "-W", "1", "ff02::1%ib0").stdout.count("bytes from") >= 1, "ND works")
        server = hosts.Process(self.left.command("iperf3", "-s", "-1"), self.folder / "iperf3", os.environ)
        self.addCleanup(server.end)
        wait_until(self.listens, "the server listens")
        done = json.loads(self.right.run("iperf3", "-J", "-n", "20M", "-c", "10.99.0.1").stdout)
        self.assertGreaterEqual(done["end"]["sum_sent"]["bytes"], 20 << 20)


class Loss(Roce):
    """What networks do to packets."""

    @hosts.needs("ib_write_bw")
    def test_a_router_that_takes_only_shorter_packets_is_an_event(self):
        middle = self.machine("middle")
        self.right.run("ip", "link", "add", "eth1", "mtu", str(MTU), "type", "veth", "peer", "name", "eth0", "mtu", str(MTU),
                       "netns", middle.namespace)
        for machine, interface, address in ((self.right, "eth1", "10.46.0.1/24"), (middle, "eth0", "10.46.0.2/24")):
            machine.run("ip", "addr", "add", address, "dev", interface)
            machine.run("ip", "link", "set", interface, "up")
        self.right.run("sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        middle.run("ip", "route", "add", "10.44.0.0/24", "via", "10.46.0.1")
        self.left.run("ip", "route", "add", "10.46.0.0/24", "via", "10.44.0.2")
        self.right.run("ip", "route", "replace", "10.46.0.0/24", "dev", "eth1", "mtu", "1500")
        server = middle.start("ib_write_bw", "-d", "softib0", "-x", "0", "-s", "8192", "-n", "10", "-u", "10")
        self.addCleanup(server.end)
        wait_until(lambda: "LISTEN" in middle.run("ss", "-Hlnt").stdout, "the server listens")
        done = self.left.run_on("ib_write_bw", "-d", "softib0", "-x", "0", "-s", "8192", "-n", "10", "-u", "10", "10.46.0.2",
                                check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"status {IBV_WC_LOC_LEN_ERR}", done.stdout + done.stderr)
        self.assertGreater(self.left.counters()["drop_too_long"], 0)

    @hosts.needs("ib_write_bw")
    def test_operations_complete_in_spite_of_loss(self):
        for machine in self.left, self.right:
            machine.run_on("true")
            machine.softib("set", "--subnet", machine.subnet(), "link", "roce", "loss", "1", "duplicate", "1", "reorder", "1")
        for name, *options in ("ib_write_bw",), ("ib_read_bw",), ("ib_send_bw",), ("ib_atomic_bw",):
            with self.subTest(name):
                self.pair(name, options=("-d", "softib0", "-x", "0", "-n", "100", *options))
        counters = self.left.counters()
        self.assertGreater(counters["rc_duplicates"] + counters["rc_sequence_errors"], 0)

    def test_strangers_do_no_harm(self):
        """Any bytes to the port are counted, and a server on it goes on."""
        server = self.left.start("ib_write_bw", "-d", "softib0", "-x", "0", "-n", "100")
        self.addCleanup(server.end)
        wait_until(self.listens, "the server listens")
        script = (f"import os, random, socket; r = random.Random(4); s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                  f"for i in range(2000): s.sendto(r.randbytes(r.choice([0, 1, 15, 16, 20, 60, 300, 4000])), ('{LEFT}', 4791))")
        self.right.run("python3", "-c", script)
        def counted():
            counters = self.left.counters()
            return counters["drop_icrc"] + counters["drop_malformed"] > 100
        wait_until(counted, "they are counted")
        done = self.right.run_on("ib_write_bw", "-d", "softib0", "-x", "0", "-n", "100", LEFT, check=False)
        self.assert_done(done.returncode, done.stdout + done.stderr + server.output())


def packets_of(pcap):
    """Returns the IP packets of a capture of Ethernet frames."""
    at = 24
    while at < len(pcap):
        size = struct.unpack("<I", pcap[at + 8:at + 12])[0]
        yield pcap[at + 16 + 14:at + 16 + size]
        at += 16 + size


def has_right_icrc(packet):
    """Computes the ICRC of a RoCE v2 packet from the IP header on (IBA annex A17.9.5)."""
    is_v4 = packet[0] >> 4 == 4
    size = 20 if is_v4 else 40
    header = bytearray(packet[:size])
    if is_v4:
        length = struct.unpack(">H", packet[2:4])[0]
        header[1] = header[8] = header[10] = header[11] = 0xff
    else:
        length = size + struct.unpack(">H", packet[4:6])[0]
        header[0] |= 0x0f
        header[1] = header[2] = header[3] = header[7] = 0xff
    udp = bytearray(packet[size:size + 8])
    udp[6] = udp[7] = 0xff
    rest = bytearray(packet[size + 8:length - 4])
    rest[4] = 0xff
    right = zlib.crc32(b"\xff" * 8 + bytes(header) + bytes(udp) + bytes(rest))
    return right == struct.unpack("<I", packet[length - 4:length])[0]


if __name__ == "__main__":
    hosts.main()
