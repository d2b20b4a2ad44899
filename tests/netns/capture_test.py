#!/usr/bin/env python3
"""ibarp capture: the packets of an interface while its daemon runs, as tshark reads them."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import unittest

import hosts
from hosts import wait_until
from streams import TCP_RECEIVER, TCP_SENDER

PCAP_HEADER = bytes.fromhex("a1b2c3d4000200040000000000000000") + (65535).to_bytes(4, "big") + (197).to_bytes(4, "big")


def packets_of(path):
    """Yields (direction, LRH to VCRC) of each packet of a complete file."""
    data = pathlib.Path(path).read_bytes()
    assert data[:24] == PCAP_HEADER, data[:24].hex()
    at = 24
    while at < len(data):
        size = int.from_bytes(data[at + 8:at + 12], "big")
        assert at + 16 + size <= len(data), "the last record is complete"
        yield data[at + 16 + 9] & 3, data[at + 32:at + 16 + size]
        at += 16 + size


def comparable(direction, packet):
    """A packet without what an HCA does not report: PSN, and of a received one the membership bit of the
    P_Key, and flow label, traffic class and hop limit of the GRH. The CRCs depend on these."""
    packet = bytearray(packet[:-6])
    bth = 8
    if packet[1] & 3 == 3:
        bth = 48
        if direction == 1:
            packet[8:12] = bytes(4)
            packet[15] = 0
    packet[bth + 9:bth + 12] = bytes(3)
    if direction == 1:
        packet[bth + 2] &= 0x7f
    return direction, bytes(packet)


class Capture(hosts.Pair):
    def setUp(self):
        self.set_up()

    def begin(self, name, *options, host=None, wait=True):
        """Starts a capture into a file, and returns the process and the file."""
        host = host or self.left
        path = self.subnet.folder / name
        process = subprocess.Popen(host.command(hosts.program("ibarp"), "capture", "-w", str(path), *options),
                                   env=self.subnet.environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        if wait:
            wait_until(lambda: path.exists() and path.stat().st_size >= 24 or process.poll() is not None,
                       "the capture begins")
        return process, path

    def end(self, process):
        """Interrupts a capture, and returns what it says."""
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=hosts.PATIENCE)
        self.assertEqual(process.returncode, 0, said)
        return said

    def captured(self):
        return self.left.counters()["captured_packets"]

    def tshark(self, path, *arguments):
        done = subprocess.run(["tshark", "-r", str(path), *arguments], capture_output=True, text=True,
                              check=True, timeout=60)
        return done.stdout

    def fields(self, path, wanted, *names):
        words = [word for name in names for word in ("-e", name)]
        lines = self.tshark(path, "-Y", wanted, "-T", "fields", "-E", "separator=|", *words).splitlines()
        return [line.split("|") for line in lines]

    @hosts.needs("tshark")
    def test_tshark_reads_it(self):
        self.start()
        capture, path = self.begin("wire.pcap")
        self.left.run(hosts.program("ibarp"), "flush")
        self.assertTrue(self.left.reaches("10.44.0.2"))
        self.left.run("ip", "addr", "add", "fd44::1/64", "dev", "ib0", "nodad")
        self.right.run("ip", "addr", "add", "fd44::2/64", "dev", "ib0", "nodad")
        wait_until(lambda: self.left.reaches("fd44::2"), "IPv6 works")
        said = self.end(capture)
        self.assertRegex(said, r"^\d+ packets, 0 left out\n$")
        whole = self.tshark(path, "-V", "-o", "ip.check_checksum:TRUE")
        for word in "alformed", "incorrect", "[Bad", "Status: Bad":
            self.assertNotIn(word, whole)
        left, right = (host.ibarp("info") for host in (self.left, self.right))
        echoes = self.fields(path, "icmp", "erf.flags.cap", "infiniband.lrh.slid", "infiniband.lrh.dlid", "icmp.type",
                             "infiniband.bth.destqp", "infiniband.deth.srcqp")
        qpn = [f"0x{each['qpn']:08x}" if isinstance(each["qpn"], int) else each["qpn"] for each in (left, right)]
        self.assertEqual([each[3] for each in echoes], ["8", "0"])
        self.assertEqual([int(each[0], 0) for each in echoes], [0, 1], "sent, received")
        self.assertEqual([int(each[1], 0) for each in echoes], [left["lid"], right["lid"]])
        self.assertEqual([int(each[2], 0) for each in echoes], [right["lid"], left["lid"]])
        self.assertEqual([int(each[4], 0) for each in echoes], [int(str(each), 0) for each in reversed(qpn)])
        self.assertTrue(self.fields(path, "arp.opcode == 1", "arp.opcode"))
        self.assertTrue(self.fields(path, "arp.opcode == 2", "arp.opcode"))
        self.assertTrue(self.fields(path, "icmpv6.type == 135", "icmpv6.nd.ns.target_address"))

    def test_the_packets_are_those_of_the_wire(self):
        """Compares a capture of the interface with one of the emulated HCA."""
        self.left.capture = self.subnet.folder / "hca.pcap"
        self.start()
        capture, path = self.begin("wire.pcap")
        self.left.run(hosts.program("ibarp"), "flush")
        self.assertTrue(self.left.reaches("10.44.0.2", "-s", "1999"))
        self.right.run(hosts.program("ibarp"), "flush")
        self.assertTrue(self.right.reaches("10.44.0.1", "-s", "77"))
        self.right.ping("10.44.0.255", "-b", "-c", "1", "-W", "1")
        self.end(capture)
        found = [comparable(*each) for each in packets_of(path)]
        self.assertGreater(len(found), 6)
        on_wire = [comparable(*each) for each in packets_of(self.left.capture)]
        for each in found:
            self.assertIn(each, on_wire, each[1].hex())
        self.assertTrue(any(packet[1] & 3 == 3 for _, packet in found), "multicasts have a GRH")

    def test_large_packets_are_segments(self):
        self.start()
        capture, path = self.begin("wire.pcap")
        receiver = subprocess.Popen(self.right.command("python3", "-c", TCP_RECEIVER), stdout=subprocess.PIPE, text=True)
        self.addCleanup(receiver.stdout.close)
        self.addCleanup(receiver.wait)
        self.assertEqual(receiver.stdout.readline(), "listening\n")
        self.left.run("python3", "-c", TCP_SENDER, "10.44.0.2", "1")
        receiver.wait(hosts.PATIENCE)
        self.end(capture)
        sizes = [len(packet) for _, packet in packets_of(path)]
        self.assertLessEqual(max(sizes), 8 + 40 + 12 + 8 + 2048 + 6)
        self.assertGreater(self.left.counters()["tx_large_packets"], 0, "the stream has had large packets")
        if shutil.which("tshark"):
            whole = self.tshark(path, "-V", "-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE",
                                "-Y", "_ws.malformed || ip.checksum_bad.expert || tcp.checksum_bad.expert")
            self.assertEqual(whole, "")

    def test_one_neighbour(self):
        self.start()
        other = self.add_host("other", "10.44.0.3/24")
        capture, path = self.begin("wire.pcap", "--neighbour", "10.44.0.2")
        self.left.run(hosts.program("ibarp"), "flush")
        self.assertTrue(self.left.reaches("10.44.0.3"))
        self.assertTrue(self.left.reaches("10.44.0.2"))
        # By its queue pair, although the addresses of the packets are others.
        self.left.run("ip", "route", "add", "192.0.2.0/24", "via", "10.44.0.2")
        self.left.ping("192.0.2.1", "-c", "1", "-W", "1")
        self.end(capture)
        own, theirs = (bytes([10, 44, 0, number]) for number in (2, 3))
        found = [packet for _, packet in packets_of(path)]
        self.assertTrue(any(b"\x08\x06\x00\x00" in each and own in each for each in found), "ARP about it")
        self.assertTrue(any(bytes([192, 0, 2, 1]) in each for each in found))
        self.assertTrue(all(theirs not in each for each in found))
        self.assertTrue(other.reaches("10.44.0.1"))

    def test_bounded_files(self):
        self.start()
        ring, path = self.begin("ring", "-C", "1", "-W", "3", wait=False)
        only, only_path = self.begin("only", "-C", "1")
        wait_until(lambda: (self.subnet.folder / "ring0").exists(), "the ring begins")
        sent = 0
        while only.poll() is None and sent < 100:
            self.left.ping("10.44.0.2", "-c", "200", "-s", "1900", "-i", "0.001", "-q")
            sent += 1
        self.assertEqual(only.returncode, 0)
        self.assertLessEqual(only_path.stat().st_size, 1_000_000)
        self.assertGreater(only_path.stat().st_size, 990_000)
        before = (self.subnet.folder / "ring0").read_bytes()[:200]
        while (self.subnet.folder / "ring0").read_bytes()[:200] == before and sent < 200:
            self.left.ping("10.44.0.2", "-c", "200", "-s", "1900", "-i", "0.001", "-q")
            sent += 1
        self.end(ring)
        files = sorted(self.subnet.folder.glob("ring*"))
        self.assertEqual([each.name for each in files], ["ring0", "ring1", "ring2"])
        self.assertNotEqual(files[0].read_bytes()[:200], before, "the oldest one was replaced")
        for each in files:
            self.assertLessEqual(each.stat().st_size, 1_000_000)
            list(packets_of(each))
        self.assertEqual(path.exists(), False)

    def test_a_number_of_packets(self):
        self.start()
        capture, path = self.begin("wire.pcap", "--count", "3", "--json")
        self.left.ping("10.44.0.2", "-c", "3", "-i", "0.01")
        said, _ = capture.communicate(timeout=hosts.PATIENCE)
        self.assertEqual(capture.returncode, 0)
        self.assertEqual(json.loads(said), [{"interface": "ib0", "packets": 3, "lost": 0}])
        self.assertEqual(len(list(packets_of(path))), 3)
        self.assertEqual(path.stat().st_mode & 0o777, 0o600, "what users send is not for everybody")

    def test_a_reader_that_does_not_read(self):
        """The daemon goes on, and counts what it has left out; so does the capture."""
        self.start()
        reading, writing = os.pipe()
        capture = subprocess.Popen(self.left.command(hosts.program("ibarp"), "capture", "-"), stdout=writing,
                                   stderr=subprocess.PIPE, env=self.subnet.environment, text=True)
        os.close(writing)
        self.addCleanup(capture.stderr.close)
        self.assertEqual(os.read(reading, 24), PCAP_HEADER)
        rounds = 0
        while self.left.counters()["captured_packets_lost"] == 0 and rounds < 100:
            ping = self.left.ping("10.44.0.2", "-c", "500", "-s", "1900", "-i", "0.001", "-q")
            self.assertEqual(hosts.received(ping), 500)
            rounds += 1
        self.assertGreater(self.left.counters()["captured_packets_lost"], 0)
        # The rest is read until a packet comes that was sent after that: with it comes how many are missing.
        mark, data = bytes.fromhex("c0ffee") * 8, b""
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            while mark not in data:
                self.left.ping("10.44.0.2", "-c", "1", "-s", "200", "-p", "c0ffee")
                data = data[-len(mark):] + pipe.read(1 << 20)
            capture.send_signal(signal.SIGINT)
            pipe.readall()
        said = capture.communicate()[1]
        self.assertRegex(said, r"^\d+ packets, [1-9]\d* left out\n$")

    def test_the_end_of_a_reader(self):
        self.start()
        capture, _ = self.begin("wire.pcap")
        self.assertTrue(self.left.reaches("10.44.0.2"))
        wait_until(lambda: self.captured() > 0, "packets were captured")
        capture.kill()
        capture.wait()
        self.left.ping("10.44.0.2", "-c", "2", "-i", "0.01")
        before = self.captured()
        self.left.ping("10.44.0.2", "-c", "5", "-i", "0.01")
        self.assertEqual(self.captured(), before, "nobody captures")

    def test_the_end_of_the_daemon(self):
        self.start()
        capture, path = self.begin("wire.pcap")
        self.assertTrue(self.left.reaches("10.44.0.2"))
        self.left.daemon.end()
        _, said = capture.communicate(timeout=hosts.PATIENCE)
        self.assertEqual(capture.returncode, 1)
        self.assertIn("ib0: ipoibd has ended the capture", said)
        self.assertGreater(len(list(packets_of(path))), 1)

    def test_both_ports(self):
        """A capture goes on when another port serves the interface."""
        self.left.start_alone("--device", "softib0:1", "--backup", "softib1:1", "--pkey", "0xffff", address="10.44.0.1/24",
                              command=(hosts.program("softib"), "run", "--hca", "a,b", "--", hosts.program("ipoibd")))
        self.right.start(address="10.44.0.2/24")
        lids = {}

        def is_ready():
            shown = json.loads(self.left.run(hosts.program("ibarp"), "info", "--json").stdout)[0]
            lids.update({each["role"]: each["lid"] for each in shown.get("ports", []) if each["state"] == "up"})
            return len(lids) == 2
        wait_until(is_ready, "both ports are up")
        self.assert_connected()
        capture, path = self.begin("wire.pcap")
        self.assertTrue(self.left.reaches("10.44.0.2"))
        self.left.run(hosts.program("ibarp"), "failover")
        self.assert_connected()
        self.end(capture)
        senders = {int.from_bytes(packet[6:8], "big") for direction, packet in packets_of(path) if direction == 0}
        self.assertEqual(senders, set(lids.values()))

    def test_limits_and_wrong_usage(self):
        self.start()
        running = [self.begin(f"{number}.pcap")[0] for number in range(4)]
        done = self.left.run(hosts.program("ibarp"), "capture", "-w", "/dev/null", check=False)
        self.assertEqual((done.returncode, done.stderr), (1, "ibarp: ib0: too many captures; end one\n"))
        self.end(running[0])
        self.end(self.begin("again.pcap")[0])
        for words in ["capture"], ["capture", "-W", "2", "x"], ["capture", "-C", "0", "x"], ["capture", "x", "y"], \
                ["capture", "--neighbour", "nobody", "x"], ["show", "-C", "1"], ["capture", "-C", "1", "-W", "2", "-"]:
            done = self.left.run(hosts.program("ibarp"), *words, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
        done = self.left.run(hosts.program("ibarp"), "capture", "/nowhere/x", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/x: No such file or directory", done.stderr)


if __name__ == "__main__":
    hosts.main()
