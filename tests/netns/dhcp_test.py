#!/usr/bin/env python3
"""DHCP over two ipoibd: third-party servers and clients, and the messages on the wire (RFC 4390)."""

import signal
import sys

import dhcp
import hosts
from hosts import need, wait_until

need("dnsmasq", "udhcpc", "tshark")


class Dhcp(hosts.Pair):
    """A server on the left, clients on other hosts."""

    def setUp(self):
        self.set_up()

    def start_server(self, *options):
        self.left.start(*options, address="10.44.0.1/24")
        self.server = dhcp.start_server(self.left, self.subnet.folder)
        self.addCleanup(self.server.end)

    def start_host(self, host, *options):
        host.start(*options)
        wait_until(host.has_carrier, "the link is up")

    def start_client(self, host):
        client = dhcp.start_client(host, self.subnet.folder)
        self.addCleanup(client.end)
        return client

    def address_of(self, host, client):
        """Returns the address that a client gets."""
        wait_until(lambda: "<bound 10.44.0.1" in client.output(), "the client has a lease")
        (address,) = host.addresses()
        self.assertIn(f"<bound {address}>", client.output())
        return address

    def on_the_wire(self, host):
        """Ends the daemon and returns the requests and replies that its HCA has captured."""
        host.daemon.end()
        requests, replies = dhcp.messages(host.capture)
        self.assertTrue(requests)
        return requests, replies

    def test_client_gets_and_renews_a_lease(self):
        self.right.capture = self.subnet.folder / "right.pcap"
        self.start_server()
        self.start_host(self.right)
        client = self.start_client(self.right)
        self.address_of(self.right, client)
        self.assert_connected_as(self.right)
        client.popen.send_signal(signal.SIGUSR1)
        wait_until(lambda: "<renew 10.44.0.1" in client.output(), "the lease is renewed")

        requests, replies = self.on_the_wire(self.right)
        for request in requests:
            self.assertEqual((request["hw.type"], request["hw.len"]), (32, 0), request)
            self.assertIn("61", request["options"], "a client identifier")
            self.assertEqual(request["broadcast"], request["ciaddr"] == "0.0.0.0", request)
        self.assertEqual({request["ciaddr"] == "0.0.0.0" for request in requests}, {True, False},
                         "with and without an address")
        self.assertTrue(replies)
        for reply in replies:
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
        self.assertEqual(len(addresses), 2, "although all have the hardware address zero")

    def test_rewriting_can_be_turned_off(self):
        self.right.capture = self.subnet.folder / "right.pcap"
        self.start_server("--no-dhcp-rewrite")
        self.start_host(self.right, "--no-dhcp-rewrite")
        self.start_client(self.right)
        wait_until(lambda: "DHCPDISCOVER" in self.server.output(), "the server gets a request")
        requests, _ = self.on_the_wire(self.right)
        for request in requests:
            self.assertEqual((request["hw.type"], request["hw.len"]), (1, 6), request)

    def test_infiniband_clients_are_served(self):
        """Clients as on the kernel's driver: without a hardware address (RFC 4390), or with the eight
        bytes of older clients, and even without the BROADCAST flag."""
        self.start_server()
        self.start_host(self.right, "--no-dhcp-rewrite")
        for hlen, flags in (("0", "0x8000"), ("8", "0x8000"), ("8", "0")):
            done = self.right.run(sys.executable, "-c", dhcp.INFINIBAND_CLIENT, hlen, flags,
                                  check=False)
            self.assertRegex(done.stdout, r"^10\.44\.0\.1\d\d$", f"hlen {hlen}: {done.stderr}")
        fixed = self.left.counters()["dhcp_requests_mended"]
        self.assertGreaterEqual(fixed, 2, "the requests without the flag")


if __name__ == "__main__":
    hosts.main()
