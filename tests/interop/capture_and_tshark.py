#!/usr/bin/env python3
"""tshark reads captures of the emulated fabric.

Usage: capture_and_tshark.py SOFTIB CAPTURE_PROBE
"""
import pathlib
import signal
import subprocess
import sys
import tempfile
import zlib

from softib_subnet import Subnet, free_tcp_port, is_listening, need, run_tests, wait_for

need("ib_read_bw", "ib_send_bw", "ib_write_bw", "tshark", "saquery")
SOFTIB, PROBE = sys.argv[1:3]


def tshark(path, *arguments):
    done = subprocess.run(["tshark", "-r", str(path), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fields(path, *names):
    arguments = [word for name in names for word in ("-e", name)]
    output = tshark(path, "-T", "fields", "-E", "separator=|", *arguments)
    return [line.split("|") for line in output.splitlines()]


def check_health(path):
    """Checks that tshark finds nothing malformed and no bad checksum."""
    whole = tshark(path, "-V", "-o", "ip.check_checksum:TRUE")
    for word in ("Malformed", "malformed", "incorrect", "[Bad", "Status: Bad"):
        assert word not in whole, f"tshark reports {word}:\n{whole}"
    assert "Extensible Record Format" in whole


def packets(path):
    """Yields the packets of the file, LRH to VCRC."""
    data = pathlib.Path(path).read_bytes()
    assert data[:4] == bytes.fromhex("a1b2c3d4")
    at = 24
    while at < len(data):
        size = int.from_bytes(data[at + 8:at + 12], "big")
        yield data[at + 32:at + 16 + size]
        at += 16 + size


def invariant_crc(packet):
    """Computes the ICRC (IBA 7.8.1) with zlib's CRC-32. Fields that a switch or router may change
    count as ones; with a GRH that includes the whole LRH."""
    masked = bytearray(packet)
    bth = 8
    if packet[1] & 3 == 3:
        bth = 48
        masked[:8] = b"\xff" * 8
        masked[8] |= 0x0f  # traffic class and flow label
        masked[9:12] = b"\xff" * 3
        masked[15] = 0xff  # hop limit
    else:
        masked[0] |= 0xf0  # virtual lane
    masked[bth + 4] = 0xff  # reserved byte
    return zlib.crc32(bytes(masked))


def a_packet_of_each_kind():
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/capture.erf"
        subprocess.run([PROBE, path], check=True)
        check_health(path)
        rows = fields(path, "frame.protocols", "infiniband.lrh.slid", "infiniband.lrh.dlid",
                      "infiniband.grh.dgid", "infiniband.bth.destqp", "infiniband.deth.srcqp",
                      "arp.dst.proto_ipv4", "ip.dst", "icmp.type", "infiniband.mad.method",
                      "erf.flags.cap")
        assert len(rows) == 4, rows
        arp, ping, global_ping, query = rows
        assert arp[0].endswith(":arp"), arp
        assert arp[2:5] == ["49152", "ff12:401b:ffff::ffff:ffff", "0xffffff"], arp
        assert arp[6] == "10.44.0.2", arp
        for one in (ping, global_ping):
            assert one[1:3] == ["2", "3"] and one[4] == "0x010402", one
            assert one[5].endswith("10401") and one[7:9] == ["10.44.0.2", "8"], one
        assert ping[3] == "" and global_ping[3] == "fe80::2:c903:0:2", rows
        assert query[9] in ("0x01", "1"), query
        assert [row[10] for row in rows] == ["0", "0", "1", "0"], rows
        times = fields(path, "frame.time_epoch")
        assert all(time[0].startswith("1700000000.250") for time in times), times
        for packet in packets(path):
            icrc = int.from_bytes(packet[-6:-2], "little")
            assert icrc == invariant_crc(packet[:-6]), f"ICRC {icrc:#x} of {packet.hex()}"


def every_mad_of_a_program_once():
    with Subnet(SOFTIB) as subnet:
        path = subnet.folder / "capture.erf"
        subnet.run("a", "saquery", options=("--capture", str(path)))
        check_health(path)
        rows = fields(path, "infiniband.mad.method", "infiniband.rmpp.rmpptype",
                      "infiniband.rmpp.segmentnumber")
        request, *rest = [tuple(int(word or "0", 0) for word in row) for row in rows]
        assert request[0] == 0x12, rows
        # Three nodes of 112 bytes: two segments, each acknowledged. A late acknowledgement
        # causes a repetition.
        assert set(rest) == {(0x92, 1, 1), (0x12, 2, 1), (0x92, 1, 2), (0x12, 2, 2)}, rows


def a_killed_process_leaves_a_readable_file():
    with Subnet(SOFTIB) as subnet:
        path = subnet.folder / "capture.erf"
        subnet.run("a", "true")  # the first HCA gets LID 2
        program = subnet.start("a", "ibping", "-S", options=("--capture", str(path)))

        def pong():
            return "Pong" in subnet.run("b", "ibping", "-c", "1", "2", check=False).stdout

        wait_for("a pong", pong)
        program.send_signal(signal.SIGKILL)
        program.wait()
        check_health(path)
        assert len(fields(path, "frame.number")) >= 2


def packets_of_a_connection():
    """Of the requester: the packets of each operation with their headers, and the responses."""
    with Subnet(SOFTIB) as subnet:
        # First, Middle and Last of a message; acknowledgements; READ requests and their responses.
        for program, expected in (("ib_send_bw", {0, 1, 2, 17}), ("ib_write_bw", {6, 7, 8, 17}),
                                  ("ib_read_bw", {12, 13, 14, 15})):
            path = subnet.folder / f"{program}.erf"
            tcp_port = free_tcp_port()
            command = [program, "-s", "5000", "-n", "5", "-p", str(tcp_port)]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            server = subnet.start("a", *command, **pipes)
            wait_for("the server", lambda port=tcp_port: is_listening(port))
            # It fails if it cannot measure the processor's clock, after all was sent.
            subnet.run("b", *command, "127.0.0.1", options=("--capture", str(path)), check=False)
            server.communicate()
            check_health(path)
            check_connection(path, expected)


def check_connection(path, expected):
    rows = fields(path, "infiniband.bth.opcode", "infiniband.reth.dmalen",
                  "infiniband.aeth.syndrome")
    assert {int(row[0], 0) for row in rows} == expected, rows
    for opcode, length, syndrome in rows:
        if int(opcode, 0) in (6, 12):
            assert length == "5000", rows
        if int(opcode, 0) in (13, 15, 17):
            assert int(syndrome, 0) == 0x1f, rows
    for packet in packets(path):
        icrc = int.from_bytes(packet[-6:-2], "little")
        assert icrc == invariant_crc(packet[:-6]), f"ICRC {icrc:#x} of {packet.hex()}"


run_tests([a_packet_of_each_kind, packets_of_a_connection, every_mad_of_a_program_once,
           a_killed_process_leaves_a_readable_file])
