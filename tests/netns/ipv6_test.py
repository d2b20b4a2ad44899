#!/usr/bin/env python3
"""IPv6 between hosts on an emulated subnet: the kernel's part and ipoibd's part."""

import ipaddress
import pathlib

import hosts
from hosts import wait_until

RADVD = """
interface ib0 {
  AdvSendAdvert on;
  MinRtrAdvInterval 3;
  MaxRtrAdvInterval 4;
  prefix fd45::/64 {};
};
"""


class Ipv6(hosts.Pair):
    """fd44::1 on the left and fd44::2 on the right."""

    def setUp(self):
        self.set_up()
        self.start()
        for host, address in ((self.left, "fd44::1/64"), (self.right, "fd44::2/64")):
            host.run("ip", "addr", "add", address, "dev", "ib0")
            self.wait_for_addresses(host)

    def assert_connected(self):
        wait_until(lambda: self.left.reaches("fd44::2"), "left reaches right")
        wait_until(lambda: self.right.reaches("fd44::1"), "right reaches left")

    @staticmethod
    def ipv6_entries(host):
        return [entry for entry in host.link()["addr_info"] if entry["family"] == "inet6"]

    def wait_for_addresses(self, host):
        wait_until(lambda: not any(entry.get("tentative") for entry in self.ipv6_entries(host)),
                   "duplicate address detection has ended")

    def link_local(self, host):
        return next(entry["local"] for entry in self.ipv6_entries(host) if entry["scope"] == "link")

    def test_both_ways(self):
        self.assert_connected()
        known = self.left.run(hosts.program("ibarp"), "show", "fd44::2").stdout
        self.assertIn("reachable", known)

    def test_link_local_address_is_of_the_guid(self):
        for host, other in ((self.left, self.right), (self.right, self.left)):
            raw = bytes.fromhex(host.ibarp("info")["lladdr"].replace(":", ""))
            identifier = bytes([raw[12] | 2]) + raw[13:]
            expected = ipaddress.IPv6Address(bytes.fromhex("fe80") + bytes(6) + identifier)
            self.assertEqual(self.link_local(host), str(expected))
            wait_until(lambda to=expected, at=other: at.reaches(f"{to}%ib0"), "it is reachable")

    def test_link_local_address_comes_back_with_the_interface(self):
        before = self.link_local(self.left)
        self.left.run("ip", "link", "set", "ib0", "down")
        self.left.run("ip", "link", "set", "ib0", "up")
        wait_until(lambda: before in self.left.addresses("inet6"), "the address is back")
        self.wait_for_addresses(self.left)
        wait_until(lambda: self.right.reaches(f"{before}%ib0"), "right reaches left by this address")

    def test_link_local_address_comes_back_after_a_small_mtu(self):
        before = self.link_local(self.left)
        self.left.run("ip", "link", "set", "ib0", "mtu", "1200")
        wait_until(lambda: not self.left.addresses("inet6"), "the kernel removes IPv6")
        self.left.run("ip", "link", "set", "ib0", "mtu", "2044")
        wait_until(lambda: before in self.left.addresses("inet6"), "the address is back")
        wait_until(lambda: self.right.reaches(f"{before}%ib0"), "right reaches left by this address")

    def test_second_interface_of_a_port_gets_another_link_local_address(self):
        second = self.subnet.host("second")
        second.start_alone_on("left")
        second.wait_for_log("another interface", "link-local")
        wait_until(lambda: len(self.ipv6_entries(second)) == 1, "it has one address")
        self.wait_for_addresses(second)
        address = self.link_local(second)
        self.assertNotEqual(address, self.link_local(self.left))
        self.assertFalse(self.ipv6_entries(second)[0].get("dadfailed"))
        wait_until(lambda: self.right.reaches(f"{address}%ib0"), "right reaches it")

    def test_duplicate_address_is_detected(self):
        # With a single solicitation, a reply that takes a second would come too late.
        self.right.run("sysctl", "-qw", "net.ipv6.conf.ib0.dad_transmits=10")
        self.right.run("ip", "addr", "add", "fd44::1/64", "dev", "ib0")
        wait_until(lambda: any(entry["local"] == "fd44::1" and entry.get("dadfailed")
                               for entry in self.ipv6_entries(self.right)), "it is detected")
        wait_until(lambda: self.right.reaches("fd44::1"), "the address belongs to left")

    def test_permanent_entry(self):
        ibarp = hosts.program("ibarp")
        self.left.run(ibarp, "add", "fd44::9", "lladdr", self.right.ibarp("info")["lladdr"],
                      "dev", "ib0")
        self.right.run("ip", "addr", "add", "fd44::9/64", "dev", "ib0", "nodad")
        wait_until(lambda: self.left.reaches("fd44::9"), "left reaches right")
        self.assertIn("permanent", self.left.run(ibarp, "show", "fd44::9").stdout)
        self.left.run(ibarp, "del", "fd44::9", "dev", "ib0")
        self.assertNotIn("permanent", self.left.run(ibarp, "show").stdout)

    def test_killed_daemon_comes_back_with_another_queue_pair(self):
        self.assert_connected()
        before = self.right.ibarp("info")["lladdr"]
        self.right.kill()
        self.right.start()
        wait_until(self.right.has_carrier, "carrier")
        self.assert_connected()
        self.assertNotEqual(self.right.ibarp("info")["lladdr"], before)

    def test_stateless_autoconfiguration(self):
        hosts.softib_subnet.need("radvd")
        self.left.run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
        self.left.run("ip", "addr", "add", "fd45::1/64", "dev", "ib0")
        folder = self.subnet.folder
        (folder / "radvd.conf").write_text(RADVD, encoding="utf-8")
        radvd = hosts.Process(
            self.left.command("radvd", "-n", "-C", str(folder / "radvd.conf"), "-m", "stderr",
                              "-p", str(folder / "radvd.pid")),
            folder / "radvd.log", self.subnet.environment)
        self.addCleanup(radvd.end)

        def address_of_the_prefix():
            return next((a for a in self.right.addresses("inet6") if a.startswith("fd45:")), None)

        made = wait_until(address_of_the_prefix, "the right host has an address of the prefix")
        self.wait_for_addresses(self.right)
        self.assertEqual(made[len("fd45:"):], self.link_local(self.right)[len("fe80:"):])
        wait_until(lambda: self.left.reaches(made), "left reaches this address")
        routes = self.right.run("ip", "-6", "route", "show", "default").stdout
        self.assertIn(f"via {self.link_local(self.left)}", routes)

    def test_gateway_forwards_both_ways(self):
        router = self.subnet.host("router")
        router.start()
        router.run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
        for network, host in (("fd46", self.left), ("fd47", self.right)):
            router.run("ip", "addr", "add", f"{network}::254/64", "dev", "ib0")
            host.run("ip", "addr", "del", self.global_address(host), "dev", "ib0")
            host.run("ip", "addr", "add", f"{network}::1/64", "dev", "ib0")
        for host in (router, self.left, self.right):
            self.wait_for_addresses(host)
        self.left.run("ip", "-6", "route", "add", "default", "via", "fd46::254")
        self.right.run("ip", "-6", "route", "add", "default", "via", self.link_local(router),
                       "dev", "ib0")
        wait_until(lambda: self.left.reaches("fd47::1"), "left reaches right")
        wait_until(lambda: self.right.reaches("fd46::1"), "right reaches left")
        known = self.left.run(hosts.program("ibarp"), "show").stdout
        self.assertIn("fd46::254", known)

    def global_address(self, host):
        return next(entry["local"] + "/64" for entry in self.ipv6_entries(host)
                    if entry["scope"] == "global")


class StablePrivacy(hosts.Pair):
    def test_addresses_do_not_reveal_the_guid(self):
        if not pathlib.Path("/etc/machine-id").exists():
            self.skipTest("this machine has no /etc/machine-id")
        self.set_up()
        self.start("--stable-privacy")
        link_local = wait_until(lambda: self.link_local(self.left), "a link-local address")
        guid = self.left.ibarp("info")["lladdr"].replace(":", "")[-16:]
        self.assertNotIn(guid[2:], ipaddress.IPv6Address(link_local).exploded.replace(":", ""))
        self.left.daemon.end()
        self.left.start("--stable-privacy", address="10.44.0.1/24")
        again = wait_until(lambda: self.link_local(self.left), "a link-local address")
        self.assertEqual(again, link_local, "the address is stable")
        wait_until(lambda: self.right.reaches(f"{again}%ib0"), "right reaches left by this address")

    @staticmethod
    def link_local(host):
        return next((entry["local"] for entry in host.link()["addr_info"]
                     if entry["family"] == "inet6" and entry["scope"] == "link"
                     and not entry.get("tentative")), None)


if __name__ == "__main__":
    hosts.main()
