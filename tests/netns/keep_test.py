#!/usr/bin/env python3
"""A daemon that ends leaves its interfaces for the next one (--keep), until --cleanup removes them."""

import json
import signal

import hosts
from hosts import wait_until

ALL = {"ib0", "ib0.8001"}


class Keep(hosts.Pair):
    def setUp(self):
        self.set_up("--partition", "1=full")

    def interfaces(self):
        """The host's interfaces but lo."""
        links = json.loads(self.left.run("ip", "-json", "link").stdout)
        return {link["ifname"] for link in links} - {"lo"}

    def cleanup(self, *options, prefix=()):
        """Without `prefix`, on the HCA of the host."""
        on_hca = prefix or (hosts.program("softib"), "run", "--hca", "left", "--")
        return self.left.run(*on_hca, hosts.program("ipoibd"), "--cleanup", *options, check=False)

    def assert_removed(self, done, *interfaces):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         sorted(f"removed {interface}" for interface in interfaces))

    def start_all(self):
        self.left.start_all("--keep")
        wait_until(lambda: self.interfaces() == ALL, "all interfaces exist")
        # A daemon that is killed before it has marked an interface leaves one that is not its own.
        wait_until(lambda: all(self.left.link(name).get("altnames") for name in ALL), "they are marked")

    def groups_of_left(self):
        return [group["mgid"] for group in json.loads(self.subnet.softib("show", "--json"))["groups"]
                if any(member["hca"] == "left" for member in group["members"])]

    def test_addresses_and_routes_survive_a_restart(self):
        self.start("--keep")
        self.left.run("ip", "route", "add", "10.99.0.0/16", "via", "10.44.0.2")
        self.left.run("ip", "link", "set", "ib0", "mtu", "1500")
        index = self.left.link()["ifindex"]
        self.assertTrue(self.groups_of_left())
        self.assertEqual(self.left.daemon.end(), 0, self.left.daemon.output())
        self.left.wait_for_log("keeping the interfaces")
        link = self.left.link()
        self.assertEqual((link["ifindex"], link["operstate"]), (index, "DOWN"))
        self.assertEqual(self.left.addresses(), ["10.44.0.1"])
        self.assertIn("10.99.0.0/16", self.left.run("ip", "route").stdout)
        self.assertEqual(self.groups_of_left(), [])
        self.left.start("--keep")
        wait_until(self.left.is_ready, "ib0 is up again")
        self.assertEqual(self.left.link()["ifindex"], index)
        self.assert_connected()
        self.assertIn("10.99.0.0/16", self.left.run("ip", "route").stdout)

    def test_cleanup_removes_what_was_left(self):
        self.start_all()
        for other in ("tun0", "tun1"):
            self.left.run("ip", "tuntap", "add", other, "mode", "tun")
        self.left.run("ip", "link", "property", "add", "dev", "tun1", "altname", "ipoibd")
        self.left.run("ip", "link", "set", "ib0.8001", "name", "red")
        refused = self.cleanup()
        self.assertEqual(refused.returncode, 1, "a daemon serves them")
        self.assertIn("ib0", refused.stderr)
        self.assertEqual(refused.stdout, "")
        self.assertEqual(self.interfaces(), {"ib0", "red", "tun0", "tun1"})
        self.assertEqual(self.left.daemon.end(), 0)
        self.assertEqual(self.interfaces(), {"ib0", "red", "tun0", "tun1"})
        self.assert_removed(self.cleanup(), "ib0", "red")
        self.assertEqual(self.interfaces(), {"tun0", "tun1"})
        self.assert_removed(self.cleanup())

    def test_cleanup_of_one_partition(self):
        self.start_all()
        self.assertEqual(self.left.daemon.end(signal.SIGKILL), -signal.SIGKILL)
        self.assert_removed(self.cleanup("--pkey", "1", "--name", "ib0.8001"), "ib0.8001")
        self.assertEqual(self.interfaces(), {"ib0"})

    def test_cleanup_of_another_port_removes_nothing(self):
        self.start_all()
        self.assertEqual(self.left.daemon.end(), 0)
        other = (hosts.program("softib"), "run", "--hca", "right", "--")
        self.assert_removed(self.cleanup(prefix=other))
        self.assertEqual(self.interfaces(), ALL)

    def test_cleanup_without_the_device(self):
        self.start_all()
        self.assertEqual(self.left.daemon.end(), 0)
        self.assert_removed(self.cleanup("--device", "gone", "--name", "ib1", prefix=("env",)))
        self.assert_removed(self.cleanup("--device", "gone", prefix=("env",)), *ALL)

    def test_interfaces_in_another_network_namespace(self):
        there = hosts.Host(self.subnet, "there")
        self.addCleanup(there.close)
        self.left.start("--keep")
        wait_until(self.left.has_carrier, "ib0 is up")
        self.left.run("ip", "link", "set", "ib0", "netns", there.namespace)
        there.run("ip", "link", "set", "ib0", "up")
        wait_until(there.has_carrier, "the daemon follows")
        self.assertEqual(self.left.daemon.end(), 0)
        self.assertIsNone(there.link(), "the next daemon would not find it")
        self.left.start("--keep", "--netns", there.namespace, wait=False)
        wait_until(there.has_carrier, "ib0 is up")
        self.assertEqual(self.left.daemon.end(), 0)
        self.assertIsNotNone(there.link())
        self.assert_removed(self.cleanup("--netns", there.namespace), "ib0")
        self.assertIsNone(there.link())


if __name__ == "__main__":
    hosts.main()
