#!/usr/bin/env python3
"""DHCP over two ipoibd: servers and clients that we did not write, and what is on the wire between
them (RFC 4390)."""

import signal
import subprocess
import sys

import hosts
from hosts import need, wait_until

need("dnsmasq", "udhcpc", "tshark")

# What udhcpc calls when something happens to its lease.
SCRIPT = """#!/bin/sh
case $1 in
bound) ip addr replace "$ip/$mask" dev "$interface" ;;
deconfig) ip -4 addr flush dev "$interface" ;;
esac
echo "<$1 $ip>"
"""

# A client as those of the kernel's driver are, which has no TUN to hide its link-layer address:
# hlen octets of chaddr, the BROADCAST flag or not. Prints the address that it is given.
INFINIBAND_CLIENT = """
import os, socket, struct, sys
hlen, flags = int(sys.argv[1]), int(sys.argv[2], 0)
xid, identifier = os.urandom(4), bytes.fromhex('ff0000000000030020') + os.urandom(8)
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
client.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'ib0')
client.bind(('', 68))
client.settimeout(2)

def ask(options):
    chaddr = bytes([2] * hlen).ljust(16, bytes(1))
    message = struct.pack('!BBBB4sHH16s', 1, 32, hlen, 0, xid, 0, flags, bytes(16)) + chaddr
    message += bytes(192) + bytes.fromhex('63825363') + options
    message += bytes([61, len(identifier)]) + identifier + bytes([255])
    for attempt in range(10):
        client.sendto(message.ljust(300, bytes(1)), ('255.255.255.255', 67))
        try:
            answer = client.recv(2000)
        except TimeoutError:
            continue
        if answer[4:8] == xid:
            return answer
    sys.exit('no answer')

offer = ask(bytes([53, 1, 1]))
address, server = offer[16:20], offer[offer.index(bytes([54, 4])) + 2:][:4]
answer = ask(bytes([53, 1, 3, 50, 4]) + address + bytes([54, 4]) + server)
assert answer[1:3] == bytes([32, hlen]), answer[1:3]
assert bytes([53, 1, 5]) in answer, 'not acknowledged'
print(socket.inet_ntoa(answer[16:20]))
"""


class Dhcp(hosts.Pair):
    """A server on the left, clients elsewhere."""

    def setUp(self):
        self.set_up()
        self.script = self.subnet.folder / "script"
        self.script.write_text(SCRIPT)
        self.script.chmod(0o755)

    def start_server(self, *options):
        self.left.start(*options, address="10.44.0.1/24")
        command = ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0",
                   "--interface=ib0", "--bind-interfaces", "--user=root", "--pid-file=",
                   "--dhcp-range=10.44.0.100,10.44.0.150,255.255.255.0,1h", "--no-ping",
                   "--dhcp-authoritative", "--log-dhcp", "--log-facility=-",
                   f"--dhcp-leasefile={self.subnet.folder / 'leases'}"]
        self.server = hosts.Process(self.left.command(*command), self.subnet.folder / "dnsmasq.log",
                                    self.subnet.environment)
        self.addCleanup(self.server.end)
        wait_until(lambda: "DHCP, IP range" in self.server.output(), "the server serves")

    def start_host(self, host, *options):
        host.start(*options)
        wait_until(host.has_carrier, "the link is up")

    def start_client(self, host):
        client = hosts.Process(
            host.command("udhcpc", "-f", "-i", "ib0", "-t", "20", "-T", "1", "-s",
                         str(self.script)),
            self.subnet.folder / f"{host.name}.udhcpc.log", self.subnet.environment)
        self.addCleanup(client.end)
        return client

    def address_of(self, host, client):
        """The address that a client is given."""
        wait_until(lambda: "<bound 10.44.0.1" in client.output(), "the client has a lease")
        (address,) = host.addresses()
        self.assertIn(f"<bound {address}>", client.output())
        return address

    def on_the_wire(self, host, kind):
        """The fields of each DHCP message that the host's HCA has seen."""
        host.daemon.end()
        names = ["hw.type", "hw.len", "flags.bc", "ip.client", "option.type"]
        # What a client is not listening for goes back in an ICMP message, as the host has seen it.
        found = subprocess.run(
            ["tshark", "-r", str(host.capture), "-Y", f"dhcp.type == {kind} && !icmp",
             "-T", "fields", *(word for name in names for word in ("-e", f"dhcp.{name}"))],
            check=True, capture_output=True, text=True).stdout
        self.assertTrue(found, "there are some")
        for line in found.splitlines():
            values = dict(zip(names, (field.split(",") for field in line.split("\t"))))
            # An identifier with a hardware type of its own comes second.
            yield {"hw.type": int(values["hw.type"][0], 0), "hw.len": int(values["hw.len"][0]),
                   "broadcast": values["flags.bc"][0] in ("1", "True"),
                   "ciaddr": values["ip.client"][0], "options": values["option.type"]}

    def test_client_gets_and_renews_a_lease(self):
        self.right.capture = self.subnet.folder / "right.pcap"
        self.start_server()
        self.start_host(self.right)
        client = self.start_client(self.right)
        self.address_of(self.right, client)
        self.assert_connected_as(self.right)
        client.popen.send_signal(signal.SIGUSR1)
        wait_until(lambda: "<renew 10.44.0.1" in client.output(), "the lease is renewed")

        requests = list(self.on_the_wire(self.right, 1))
        for request in requests:
            self.assertEqual((request["hw.type"], request["hw.len"]), (32, 0), request)
            self.assertIn("61", request["options"], "a client identifier")
            self.assertEqual(request["broadcast"], request["ciaddr"] == "0.0.0.0", request)
        self.assertEqual({request["ciaddr"] == "0.0.0.0" for request in requests}, {True, False},
                         "with and without an address")
        for reply in self.on_the_wire(self.right, 2):
            self.assertEqual((reply["hw.type"], reply["hw.len"]), (32, 0), reply)

    def assert_connected_as(self, host):
        wait_until(lambda: host.reaches("10.44.0.1"), f"{host.name} reaches the server")

    def test_each_client_gets_an_address_of_its_own(self):
        self.start_server()
        third = self.subnet.host("third")
        addresses = set()
        for host in (self.right, third):
            self.start_host(host)
            addresses.add(self.address_of(host, self.start_client(host)))
        self.assertEqual(len(addresses), 2, "though all have the hardware address zero")

    def test_rewriting_can_be_turned_off(self):
        self.right.capture = self.subnet.folder / "right.pcap"
        self.start_server("--no-dhcp-rewrite")
        self.start_host(self.right, "--no-dhcp-rewrite")
        self.start_client(self.right)
        wait_until(lambda: "DHCPDISCOVER" in self.server.output(), "the server is asked")
        for request in self.on_the_wire(self.right, 1):
            self.assertEqual((request["hw.type"], request["hw.len"]), (1, 6), request)

    def test_infiniband_clients_are_served(self):
        """Of the kernel's driver, without a hardware address as RFC 4390 has it, or with the eight
        octets of older clients, and even without the BROADCAST flag."""
        self.start_server()
        self.start_host(self.right, "--no-dhcp-rewrite")
        for hlen, flags in (("0", "0x8000"), ("8", "0x8000"), ("8", "0")):
            done = self.right.run(sys.executable, "-c", INFINIBAND_CLIENT, hlen, flags, check=False)
            self.assertRegex(done.stdout, r"^10\.44\.0\.1\d\d$", f"hlen {hlen}: {done.stderr}")
        mended = self.left.ibarp("stats")["counters"]["dhcp_requests_mended"]
        self.assertGreaterEqual(mended, 2, "those without the flag")


if __name__ == "__main__":
    hosts.main()
