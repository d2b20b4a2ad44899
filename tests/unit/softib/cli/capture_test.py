#!/usr/bin/env python3
"""Tests softib capture: the packets of a running subnet, which begins and ends while programs run.

Usage: capture_test.py SOFTIB [TEST]...
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "interop"))
from softib_subnet import PATIENCE, Subnet, equal, need, run_tests, skip, wait_for  # noqa: E402

need("ibping", "saquery")
SOFTIB = os.path.abspath(sys.argv[1])
SCHEMA = pathlib.Path(__file__).resolve().parents[4] / "docs/json/softib-capture.json"
HEADER = 24


def packets_of(path):
    """Yields (time in ns, direction, LRH to VCRC) of each packet of a complete file."""
    data = pathlib.Path(path).read_bytes()
    equal(data[:4].hex(), "a1b2c3d4")
    at = HEADER
    while at < len(data):
        size = int.from_bytes(data[at + 8:at + 12], "big")
        assert at + 16 + size <= len(data), "the last record is complete"
        when = int.from_bytes(data[at:at + 4], "big") * 10**9 + int.from_bytes(data[at + 4:at + 8], "big") * 1000
        yield when, data[at + 16 + 9] & 3, data[at + 32:at + 16 + size]
        at += 16 + size


def lids_of(packet):
    """Returns (SLID, DLID)."""
    return int.from_bytes(packet[6:8], "big"), int.from_bytes(packet[2:4], "big")


class Running:
    """A capture into a file, which has begun."""

    def __init__(self, subnet, name, *options, hcas=()):
        self.path = subnet.folder / name
        self.process = subprocess.Popen([SOFTIB, "capture", *options, str(self.path), *hcas], env=subnet.environment,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        subnet.processes.append(self.process)
        wait_for("the capture begins",
                 lambda: self.process.poll() is not None or any(subnet.folder.glob(f"{name}*")))

    def finish(self, status=0):
        said = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == status, said
        return said

    def end(self):
        """Interrupts it; returns what it says on the standard error."""
        self.process.send_signal(signal.SIGINT)
        return self.finish()[1]

    def packets(self):
        return list(packets_of(self.path))


def capture_sockets(subnet):
    return list((subnet.folder / "default").glob("capture.*"))


def ping(subnet, hca="b"):
    """Asks HCA a."""
    return "Pong" in subnet.run(hca, "ibping", "-c", "1", str(subnet.nodes()["a"]["lid"]), check=False).stdout


def ping_server(subnet):
    """ibping -S on HCA a."""
    subnet.run("a", "true")  # so that it has a LID
    server = subnet.start("a", "ibping", "-S")
    wait_for("a pong", lambda: ping(subnet) or server.poll() is not None)
    assert server.poll() is None, f"ibping -S has ended with {server.poll()}"
    return server


def it_begins_and_ends_while_programs_run():
    with Subnet(SOFTIB) as subnet:
        ping_server(subnet)
        capture = Running(subnet, "one.pcap")
        assert ping(subnet)
        equal(len(capture_sockets(subnet)), 1)
        said = capture.end()
        found = capture.packets()
        # Of the server, which ran before, and of ibping, which came later: each once, as sent.
        lids = {name: node["lid"] for name, node in subnet.nodes().items()}
        there = [each for each in found if lids_of(each[2]) == (lids["b"], lids["a"])]
        back = [each for each in found if lids_of(each[2]) == (lids["a"], lids["b"])]
        assert there and back, found
        equal({each[1] for each in found}, {0})
        equal(len({each[2] for each in found}), len(found))
        assert said.strip().endswith(f"{len(found)} packets, 0 left out"), said
        times = [each[0] for each in found]
        equal(times, sorted(times))
        equal(capture_sockets(subnet), [])
        # Off again: the next one has only what comes then.
        assert ping(subnet)
        again = Running(subnet, "two.pcap")
        subnet.run("c", "saquery", "-N")
        again.end()
        assert not any(lids_of(each[2])[0] == lids["b"] for each in again.packets())
        # The SA's responses are of the subnet process.
        assert any(lids_of(each[2])[0] == lids["softib-sm"] for each in again.packets())


def only_some_hosts():
    with Subnet(SOFTIB) as subnet:
        ping_server(subnet)
        capture = Running(subnet, "a.pcap", hcas=["a"])
        assert ping(subnet)
        subnet.run("c", "saquery", "-N")
        capture.end()
        lids = {name: node["lid"] for name, node in subnet.nodes().items()}
        found = capture.packets()
        assert all(lids["a"] in lids_of(each[2]) for each in found), found
        equal({each[1]: lids_of(each[2])[each[1]] for each in found}, {0: lids["a"], 1: lids["a"]})
        done = subprocess.run([SOFTIB, "capture", str(subnet.folder / "x"), "nobody"], env=subnet.environment,
                              capture_output=True, text=True, check=False)
        equal(done.returncode, 1)
        assert "no HCA 'nobody'" in done.stderr, done
        equal(capture_sockets(subnet), [])


def what_is_sent_on_connections():
    need("ib_write_bw")
    with Subnet(SOFTIB) as subnet:
        server = subnet.start("a", "ib_write_bw", "-n", "100", "-s", "4096", stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
        capture = Running(subnet, "wire.pcap")

        def written():
            subnet.run("b", "ib_write_bw", "-n", "100", "-s", "4096", "127.0.0.1", check=False)
            return server.poll() is not None
        wait_for("the transfer", written)
        capture.end()
        opcodes = {each[2][8] for each in capture.packets()}
        assert opcodes & {6, 7, 8, 10} and 17 in opcodes, opcodes  # RDMA WRITE and ACK


def a_number_of_packets_and_files():
    with Subnet(SOFTIB) as subnet:
        ping_server(subnet)
        capture = Running(subnet, "some.pcap", "--count", "3", "--json")
        wait_for("its end", lambda: ping(subnet) and capture.process.poll() is not None)
        said = json.loads(capture.finish()[0])
        equal(sorted(said), sorted(json.loads(SCHEMA.read_text(encoding="utf-8"))["required"]))
        equal(said, {"subnet": "default", "packets": 3, "lost": 0, "programs_missing": 0})
        equal(len(capture.packets()), 3)
        equal(capture.path.stat().st_mode & 0o777, 0o600)


def a_ring_of_files():
    need("ib_send_bw")
    with Subnet(SOFTIB) as subnet:
        capture = Running(subnet, "ring", "-C", "1", "-W", "2")
        server = subnet.start("a", "ib_send_bw", "-n", "500", "-s", "65536", stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)

        def written():
            subnet.run("b", "ib_send_bw", "-n", "500", "-s", "65536", "127.0.0.1", check=False)
            return server.poll() is not None
        wait_for("the transfer", written)
        said = capture.end()
        files = sorted(subnet.folder.glob("ring*"))
        equal([each.name for each in files], ["ring0", "ring1"])
        for each in files:
            assert each.stat().st_size <= 1_000_000
            assert list(packets_of(each))
        # All packets were counted, and there were more than the files have.
        assert int(said.split()[0]) > sum(len(list(packets_of(each))) for each in files), said


def a_reader_that_does_not_read():
    """Programs go on, and what is left out is counted."""
    need("ib_send_bw")
    with Subnet(SOFTIB) as subnet:
        capture = Running(subnet, "wire.pcap")
        capture.process.send_signal(signal.SIGSTOP)
        server = subnet.start("a", "ib_send_bw", "-n", "1000", "-s", "65536", stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)

        def sent():
            subnet.run("b", "ib_send_bw", "-n", "1000", "-s", "65536", "127.0.0.1", check=False)
            return server.poll() is not None
        wait_for("the transfer", sent)
        capture.process.send_signal(signal.SIGCONT)
        # A program that runs says at the end what it has left out; these have ended.
        ping_server(subnet)
        capture.end()
        assert len(capture.packets()) < 1000 * 16


def losses_are_counted():
    with Subnet(SOFTIB) as subnet:
        ping_server(subnet)
        capture = Running(subnet, "wire.pcap")
        flood = subnet.start("b", "ibping", "-f", "2", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        capture.process.send_signal(signal.SIGSTOP)

        def sent():
            return subnet.nodes()["b"]["counters"]["sent_packets"]
        before = sent()
        wait_for("many packets", lambda: sent() - before > 20_000)
        capture.process.send_signal(signal.SIGCONT)
        said = capture.end()
        flood.kill()
        lost = int(said.split(", ")[1].split()[0])
        assert lost > 0, said


def a_killed_capture():
    """It costs programs nothing afterwards, and leaves nothing."""
    with Subnet(SOFTIB) as subnet:
        ping_server(subnet)
        capture = Running(subnet, "wire.pcap")
        assert ping(subnet)
        capture.process.kill()
        capture.process.wait()
        wait_for("no socket", lambda: not capture_sockets(subnet))
        assert ping(subnet)
        list(packets_of(capture.path))
        for number in range(4):
            Running(subnet, f"{number}.pcap")
        done = subprocess.run([SOFTIB, "capture", str(subnet.folder / "more.pcap")], env=subnet.environment,
                              capture_output=True, text=True, check=False)
        equal(done.returncode, 1)
        assert "captures already" in done.stderr, done


def the_end_of_the_subnet():
    with Subnet(SOFTIB) as subnet:
        capture = Running(subnet, "wire.pcap")
        subnet.process.send_signal(signal.SIGTERM)
        said = capture.finish(status=1)[1]
        assert "the subnet 'default' has ended" in said, said
    with Subnet(SOFTIB) as subnet:
        capture = Running(subnet, "wire.pcap")
        subnet.kill_subnet()
        capture.finish(status=1)
        subnet.start_subnet()
        equal(capture_sockets(subnet), [])
        ping_server(subnet)
        again = Running(subnet, "again.pcap")
        assert ping(subnet)
        again.end()
        assert again.packets()


def into_a_pipe():
    with Subnet(SOFTIB) as subnet:
        capture = subprocess.Popen([SOFTIB, "capture", "-"], env=subnet.environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        subnet.processes.append(capture)
        equal(capture.stdout.read(4).hex(), "a1b2c3d4")
        subnet.run("c", "saquery", "-N")
        assert capture.stdout.read(HEADER - 4 + 48)
        capture.stdout.close()
        # It ends when it finds that nobody reads.
        wait_for("its end", lambda: subnet.run("c", "saquery", "-N") and capture.poll() is not None)
        equal(capture.returncode, 0)


def tshark_reads_it():
    if shutil.which("tshark") is None:
        skip("tshark is not installed")
    with Subnet(SOFTIB) as subnet:
        ping_server(subnet)
        capture = Running(subnet, "wire.pcap")
        assert ping(subnet)
        subnet.run("c", "saquery", "-g")
        capture.end()
        done = subprocess.run(["tshark", "-r", str(capture.path), "-V"], capture_output=True, text=True, check=True)
        for word in "alformed", "incorrect", "[Bad":
            assert word not in done.stdout, done.stdout
        done = subprocess.run(["tshark", "-r", str(capture.path), "-T", "fields", "-e", "infiniband.mad.mgmtclass"],
                              capture_output=True, text=True, check=True)
        classes = {int(each, 0) for each in done.stdout.split()}
        assert {0x03, 0x32} <= classes, classes  # subnet administration, ibping's vendor class


def wrong_usage():
    for words in [], ["-C", "0", "x"], ["-W", "2", "x"], ["-C", "1", "-W", "2", "-"], ["-c", "0", "x"], \
            ["x", "a:1"], ["x", "a b"], ["--json", "-"]:
        done = subprocess.run([SOFTIB, "capture", *words], capture_output=True, text=True, check=False)
        equal((done.returncode, done.stdout), (2, ""))


run_tests([it_begins_and_ends_while_programs_run, only_some_hosts, what_is_sent_on_connections,
           a_number_of_packets_and_files, a_ring_of_files, a_reader_that_does_not_read, losses_are_counted,
           a_killed_capture, the_end_of_the_subnet, into_a_pipe, tshark_reads_it, wrong_usage], sys.argv[2:])
