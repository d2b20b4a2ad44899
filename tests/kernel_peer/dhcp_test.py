#!/usr/bin/env python3
"""DHCP between the kernel's IPoIB and ours (RFC 4390), with the server on either side."""

import ctypes
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys

import guest
from guest import Process, need, wait_until

import dhcp

need("dnsmasq", "udhcpc", "tshark", "dumpcap")
NETWORKD = pathlib.Path("/lib/systemd/systemd-networkd")
if not NETWORKD.exists():
    guest.hosts.softib_subnet.skip("systemd-networkd is not installed")

# systemd-networkd is Debian's only DHCP client for InfiniBand.
NETWORK = """[Match]
Name=ib0
[Network]
DHCP=ipv4
LinkLocalAddressing=no
IPv6AcceptRA=no
KeepConfiguration=no
"""


def without_ethtool():
    """Makes SIOCETHTOOL fail in this process and its children: the kernel's IPoIB would look for the
    parent of its RDMA device, which a soft device does not have, and hang."""
    load, jump_if_equal, ret = 0x20, 0x15, 0x06  # opcodes of struct sock_filter
    number, first_word_of_argument_1 = 0, 24  # offsets in struct seccomp_data
    ioctl, siocethtool = 16, 0x8946  # x86-64
    allow, not_supported = 0x7fff0000, 0x00050000 | 95
    steps = [(load, 0, 0, number), (jump_if_equal, 0, 3, ioctl),
             (load, 0, 0, first_word_of_argument_1), (jump_if_equal, 0, 1, siocethtool),
             (ret, 0, 0, not_supported), (ret, 0, 0, allow)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    filter_program = struct.pack("@HP", len(steps), ctypes.addressof(code))
    set_seccomp, mode_filter = 22, 2
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(set_seccomp, mode_filter, filter_program, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


class Dhcp(guest.KernelPeer):
    """A client on one side and a server on the other."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.ours.start()

    def setUp(self):
        super().setUp()
        self.addCleanup(self.flush, self.ours, self.theirs)  # after the clients have ended

    def start_server(self, host, *options):
        host.configure("ib0", "10.44.0.1/24")
        server = dhcp.start_server(host, self.folder, *options)
        self.addCleanup(server.end)
        return server

    def start_capture(self):
        """Starts a capture of all DHCP messages on the kernel's interface."""
        path = self.folder / "dhcp.pcap"
        capture = self.start_process(self.theirs, "dumpcap", "-q", "-i", "ib0", "-f",
                                     "udp port 67 or udp port 68", "-w", str(path))
        wait_until(lambda: "File:" in capture.output(), "the capture runs")
        return capture, path

    def captured(self, capture, path, client):
        """Waits for a unicast reply, ends the capture and returns the requests and replies."""
        from_server_to_client = socket.inet_aton("10.44.0.1") + socket.inet_aton(client)
        wait_until(lambda: from_server_to_client in path.read_bytes(), "a renewal is captured")
        capture.end(signal.SIGINT)
        return dhcp.messages(path)

    def start_kernels_client(self):
        """Starts systemd-networkd on the kernel's interface."""
        state = pathlib.Path("/run/systemd")
        (state / "network").mkdir(parents=True, exist_ok=True)
        (state / "network" / "ib0.network").write_text(NETWORK, encoding="utf-8")
        subprocess.run(["install", "-d", "-o", "systemd-network", f"{state}/netif",
                        *(f"{state}/netif/{name}" for name in ("leases", "links", "lldp"))],
                       check=True)
        # It would wait for udev if /sys were writable.
        client = Process(
            self.theirs.command("sh", "-c", f"mount -o remount,ro /sys; exec {NETWORKD}"),
            self.folder / "networkd.log",
            {**self.subnet.environment, "SYSTEMD_LOG_LEVEL": "debug"}, preexec=without_ethtool)
        self.addCleanup(client.end)
        return client

    def leased(self, server):
        """Returns the address that the server has acknowledged according to its log."""
        (address,) = set(re.findall(r"DHCPACK\(ib0\) (\S+)", server.output()))
        return address

    def test_client_of_the_kernels_interface_gets_and_renews_a_lease(self):
        """The client sends no hardware address (RFC 4390)."""
        server = self.start_server(self.ours, "--dhcp-option=option:T1,5")
        capture, path = self.start_capture()
        self.start_kernels_client()
        wait_until(lambda: server.output().count("DHCPACK(ib0)") >= 2, "the lease is renewed")
        wait_until(self.theirs.addresses, "the address is set")
        self.assertEqual(self.theirs.addresses(), [self.leased(server)])
        self.assertRegex(self.leased(server), r"^10\.44\.0\.1\d\d$")
        self.assertNotIn("DHCPDISCOVER(ib0)", server.output().partition("DHCPACK(ib0)")[2],
                         "it renews its lease")
        wait_until(lambda: self.theirs.reaches("10.44.0.1"), "the client reaches the server")
        wait_until(lambda: self.ours.reaches(self.leased(server)), "the server reaches the client")

        requests, replies = self.captured(capture, path, self.leased(server))
        self.assertEqual({(one["hw.type"], one["hw.len"]) for one in requests + replies},
                         {(32, 0)})
        self.assertIn(self.leased(server), {one["ciaddr"] for one in requests}, "the lease was renewed")
        self.assertEqual({one["yiaddr"] for one in replies}, {self.leased(server)})

    def test_client_of_ours_gets_and_renews_a_lease(self):
        server = self.start_server(self.theirs)
        capture, path = self.start_capture()
        client = dhcp.start_client(self.ours, self.folder)
        self.addCleanup(client.end)
        wait_until(lambda: "<bound 10.44.0.1" in client.output(), "the client has a lease")
        self.assertEqual(self.ours.addresses(), [self.leased(server)])
        client.popen.send_signal(signal.SIGUSR1)
        wait_until(lambda: f"<renew {self.leased(server)}>" in client.output(), "the lease is renewed")
        wait_until(lambda: self.ours.reaches("10.44.0.1"), "the client reaches the server")

        requests, replies = self.captured(capture, path, self.leased(server))
        self.assertEqual({(one["hw.type"], one["hw.len"]) for one in requests + replies},
                         {(32, 0)})
        for request in requests:
            self.assertIn("61", request["options"], "a client identifier")
            self.assertEqual(request["broadcast"], request["ciaddr"] == "0.0.0.0", request)
        self.assertIn(self.leased(server), {one["ciaddr"] for one in requests}, "the lease was renewed")
        self.assertEqual({one["yiaddr"] for one in replies}, {self.leased(server)})

    def test_clients_with_eight_bytes_of_hardware_address(self):
        """Older clients send eight bytes, with or without the BROADCAST flag."""
        server = self.start_server(self.ours)
        for flags in ("0x8000", "0"):
            done = self.theirs.run(sys.executable, "-c", dhcp.INFINIBAND_CLIENT, "8", flags,
                                   check=False)
            address = done.stdout.strip()
            self.assertIn(f"DHCPACK(ib0) {address} 02:02:02:02:02:02:02:02", server.output(),
                          done.stderr)
            self.assertRegex(address, r"^10\.44\.0\.1\d\d$")


if __name__ == "__main__":
    guest.main()
