#!/usr/bin/env python3
"""ARP for addresses that are not those of the interface: virtual addresses, and proxy ARP."""

import hosts
from hosts import wait_until

VIRTUAL, ROUTED = "10.99.0.1", "10.44.0.66"


class OtherAddresses(hosts.Pair):
    def setUp(self):
        self.set_up()
        self.start()

    def flush(self):
        for host in self.left, self.right:
            host.run(hosts.program("ibarp"), "flush")

    def reaches_again(self, address):
        """Returns whether left reaches an address that it has to resolve."""
        self.flush()
        return self.left.reaches(address)

    def set_arp(self, host, **settings):
        host.run("sysctl", "-qw", *(f"net.ipv4.conf.ib0.{name}={value}"
                                    for name, value in settings.items()))


class VirtualAddress(OtherAddresses):
    def setUp(self):
        super().setUp()
        self.right.run("ip", "addr", "add", f"{VIRTUAL}/32", "dev", "lo")
        self.left.run("ip", "route", "add", VIRTUAL, "dev", "ib0")

    def test_is_reached(self):
        wait_until(lambda: self.reaches_again(VIRTUAL), "left reaches the virtual address")
        self.right.run("ip", "addr", "del", f"{VIRTUAL}/32", "dev", "lo")
        wait_until(lambda: not self.reaches_again(VIRTUAL), "the address is gone")

    def test_reaches_others(self):
        """The sender address of right's ARP request is the virtual one."""
        self.flush()
        ping = self.right.ping("10.44.0.1", "-I", VIRTUAL, "-c", "3", "-w", "20")
        self.assertGreaterEqual(hosts.received(ping), 3, ping.stdout)
        shown = self.left.run(hosts.program("ibarp"), "show").stdout
        self.assertIn(VIRTUAL, shown)

    def test_address_of_a_bridge_is_reached(self):
        self.assertFalse(self.reaches_again("10.44.0.50"), "no bridge yet")
        self.right.run("ip", "link", "add", "br0", "type", "bridge")
        self.right.run("ip", "link", "add", "veth0", "type", "veth", "peer", "name", "veth1")
        self.right.run("ip", "link", "set", "veth0", "master", "br0")
        for interface in "veth0", "veth1", "br0":
            self.right.run("ip", "link", "set", interface, "up")
        self.right.run("ip", "addr", "add", "10.44.0.50/24", "dev", "br0", "noprefixroute")
        wait_until(lambda: self.reaches_again("10.44.0.50"), "left reaches the address")

    def test_arp_ignore_is_followed(self):
        wait_until(lambda: self.reaches_again(VIRTUAL), "left reaches the virtual address")
        self.set_arp(self.right, arp_ignore=1)
        wait_until(lambda: not self.reaches_again(VIRTUAL), "right ignores requests for it")
        self.assertTrue(self.reaches_again("10.44.0.2"), "the interface's own address")
        self.set_arp(self.right, arp_ignore=8)
        wait_until(lambda: not self.reaches_again("10.44.0.2"), "right ignores all requests")
        self.set_arp(self.right, arp_ignore=0)
        wait_until(lambda: self.reaches_again(VIRTUAL), "left reaches it again")

    def test_each_change_is_followed_by_the_next_request(self):
        """The policy was used just before."""
        wait_until(lambda: self.reaches_again(VIRTUAL), "left reaches the virtual address")
        for _ in range(5):
            self.set_arp(self.right, arp_ignore=1)
            self.assertFalse(self.reaches_again(VIRTUAL), "right ignores requests for it")
            self.assertTrue(self.reaches_again("10.44.0.2"), "the interface's own address")
            self.set_arp(self.right, arp_ignore=0)
            self.assertTrue(self.reaches_again(VIRTUAL), "left reaches it again")

    def test_arp_filter_is_followed(self):
        self.right.run("ip", "link", "add", "veth0", "type", "veth", "peer", "name", "veth1")
        for interface in "veth0", "veth1":
            self.right.run("ip", "link", "set", interface, "up")
        self.set_arp(self.right, arp_filter=1, rp_filter=0)
        wait_until(lambda: self.reaches_again("10.44.0.2"), "the route back is by the interface")
        self.right.run("ip", "rule", "add", "from", "10.44.0.2", "to", "10.44.0.1", "table", "77")
        self.right.run("ip", "route", "add", "10.44.0.1", "dev", "veth0", "table", "77")
        wait_until(lambda: not self.reaches_again("10.44.0.2"), "the route back is by another one")


class ProxyArp(OtherAddresses):
    def setUp(self):
        super().setUp()
        self.container = self.subnet.host("container")
        self.right.run("ip", "link", "add", "veth0", "type", "veth", "peer", "name", "veth1")
        self.right.run("ip", "link", "set", "veth1", "netns", self.container.namespace)
        self.right.run("ip", "link", "set", "veth0", "up")
        self.right.run("ip", "addr", "add", "169.254.1.1/32", "dev", "veth0")
        self.right.run("ip", "route", "add", ROUTED, "dev", "veth0")
        self.right.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        self.container.run("ip", "link", "set", "veth1", "up")
        self.container.run("ip", "addr", "add", f"{ROUTED}/32", "dev", "veth1")
        self.container.run("ip", "route", "add", "169.254.1.1", "dev", "veth1")
        self.container.run("ip", "route", "add", "default", "via", "169.254.1.1")

    def test_routed_container_is_reached(self):
        self.assertFalse(self.reaches_again(ROUTED), "no proxy yet")
        self.set_arp(self.right, proxy_arp=1)
        wait_until(lambda: self.reaches_again(ROUTED), "left reaches the container")
        wait_until(lambda: self.container.reaches("10.44.0.1"), "the container reaches left")
        self.assertGreater(self.right.counters()["arp_route_lookups"], 0)
        self.set_arp(self.right, proxy_arp=0)
        wait_until(lambda: not self.reaches_again(ROUTED), "no proxy any more")

    def test_answers_for_single_addresses(self):
        self.right.run("ip", "neigh", "add", "proxy", ROUTED, "dev", "ib0")
        wait_until(lambda: self.reaches_again(ROUTED), "left reaches the container")
        self.right.run("ip", "neigh", "del", "proxy", ROUTED, "dev", "ib0")
        wait_until(lambda: not self.reaches_again(ROUTED), "no proxy any more")

    def test_each_change_is_followed_by_the_next_request(self):
        for _ in range(5):
            self.right.run("ip", "neigh", "add", "proxy", ROUTED, "dev", "ib0")
            self.assertTrue(self.reaches_again(ROUTED), "left reaches the container")
            self.right.run("ip", "neigh", "del", "proxy", ROUTED, "dev", "ib0")
            self.assertFalse(self.reaches_again(ROUTED), "no proxy any more")

    def test_is_not_for_addresses_on_the_link(self):
        third = self.add_host("third", "10.44.0.3/24")
        self.set_arp(self.right, proxy_arp=1)
        wait_until(lambda: self.reaches_again(ROUTED), "left reaches the container")
        wait_until(lambda: self.reaches_again("10.44.0.3"), "left reaches the third host")
        shown = self.left.run(hosts.program("ibarp"), "show", "-w", "10.44.0.3").stdout
        self.assertIn(third.ibarp("info")["gid"], shown, "not the proxy's")

    def test_kernel_is_a_proxy_for_ipv6(self):
        self.left.run("ip", "addr", "add", "fd44::1/64", "dev", "ib0", "nodad")
        self.right.run("ip", "addr", "add", "fd44::2/64", "dev", "ib0", "nodad")
        self.right.run("ip", "addr", "add", "fe80::1/64", "dev", "veth0", "nodad")
        self.right.run("ip", "route", "add", "fd44::66", "dev", "veth0")
        self.right.run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1",
                       "net.ipv6.conf.ib0.proxy_ndp=1")
        self.right.run("ip", "neigh", "add", "proxy", "fd44::66", "dev", "ib0")
        self.container.run("ip", "addr", "add", "fd44::66/128", "dev", "veth1", "nodad")
        self.container.run("ip", "-6", "route", "add", "default", "via", "fe80::1", "dev", "veth1")
        wait_until(lambda: self.reaches_again("fd44::66"), "left reaches the container")


if __name__ == "__main__":
    hosts.main()
