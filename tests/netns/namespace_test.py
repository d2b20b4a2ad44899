#!/usr/bin/env python3
"""Interfaces in another network namespace than the daemon (--netns)."""

import os
import subprocess

import hosts
from hosts import wait_until


class OtherNamespace(hosts.Pair):
    """Each host has a second namespace, in which its daemon creates the interfaces."""

    def setUp(self):
        self.set_up("--partition", "1=full")
        self.others = [self.other("left"), self.other("right")]

    def other(self, name):
        other = hosts.Host(self.subnet, f"{name}-other")
        self.addCleanup(other.close)
        return other

    def start(self, *options):
        for host, other, number in zip((self.left, self.right), self.others, (1, 2)):
            host.start_all("--netns", other.namespace, *options, wait=False)
            other.configure("ib0", f"10.44.0.{number}/24")

    def test_traffic_between_namespaces(self):
        self.start()
        left, right = self.others
        wait_until(lambda: left.reaches("10.44.0.2"), "left reaches right")
        wait_until(lambda: right.reaches("10.44.0.1"), "right reaches left")
        self.assertIsNone(self.left.link(), "the daemon's namespace has no interface")
        self.assertFalse(self.left.reaches("10.44.0.2"))

    def test_control_socket_is_in_the_interfaces_namespace(self):
        self.start()
        left, _ = self.others
        self.assertEqual(left.ibarp("info")["pid"], self.left.daemon.pid)
        away = self.left.run(hosts.program("ibarp"), "info", "-i", "ib0", check=False)
        self.assertNotEqual(away.returncode, 0, "the daemon's namespace has no control socket")
        before = os.stat("/proc/self/ns/net").st_ino
        wait_until(lambda: left.link("ib0.8001"), "each partition has its interface")
        for task in os.listdir(f"/proc/{self.left.daemon.pid}/task"):
            at = os.stat(f"/proc/{self.left.daemon.pid}/task/{task}/ns/net").st_ino
            self.assertNotEqual(at, os.stat(f"/run/netns/{left.namespace}").st_ino)
            self.assertNotEqual(at, before)

    def test_later_interface_is_created_there(self):
        self.start()
        left, _ = self.others
        self.softib_set("partition", "2", "left", "full")
        wait_until(lambda: left.link("ib0.8002"), "the interface is created")
        self.assertIsNone(self.left.link("ib0.8002"))

    def test_namespace_is_named_by_its_path(self):
        left, _ = self.others
        self.left.start_all("--netns", f"/run/netns/{left.namespace}", wait=False)
        wait_until(left.has_carrier, "ib0 is up")
        self.assertEqual(self.left.daemon.end(), 0, self.left.daemon.output())
        self.assertIsNone(left.link(), "the interface is removed")

    def test_namespace_stays_when_its_name_is_deleted(self):
        self.start("--pkey", "0xffff")
        left, _ = self.others
        subprocess.run(["ip", "netns", "del", left.namespace], check=True)
        self.assertTrue(self.left.daemon.is_running())
        self.assertEqual(self.left.daemon.end(), 0, self.left.daemon.output())
        subprocess.run(["ip", "netns", "add", left.namespace], check=True)

    def test_unknown_namespace(self):
        for name in ("does-not-exist", "/etc/hostname"):
            done = self.left.run(hosts.program("softib"), "run", "--hca", "left", "--",
                                 hosts.program("ipoibd"), "--netns", name, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn(name, done.stderr)


class RenamedAndMoved(hosts.Pair):
    """The operator renames an interface, or moves it to another network namespace."""

    def setUp(self):
        self.set_up()
        self.start()
        self.assert_connected()

    def rename(self):
        self.left.run("ip", "link", "set", "ib0", "down")
        self.left.run("ip", "link", "set", "ib0", "name", "ibmgmt")
        self.left.run("ip", "link", "set", "ibmgmt", "up")

    def answers(self, interface):
        return self.left.run(hosts.program("ibarp"), "info", "-i", interface,
                             check=False).returncode == 0

    def test_renamed_interface_is_found_by_its_new_name(self):
        before = self.left.ibarp("info")["qpn"]
        self.rename()
        wait_until(lambda: self.answers("ibmgmt"), "ibarp finds it by its new name")
        self.assertFalse(self.answers("ib0"))
        info = self.left.ibarp("info", "ibmgmt")
        self.assertEqual(info["qpn"], before, "nothing was restarted")
        wait_until(lambda: self.left.ibarp("info", "ibmgmt")["interface"] == "ibmgmt", "its name")
        self.left.wait_for_log("ibmgmt: renamed")
        self.assert_connected()

    def test_renamed_interface_is_adopted_by_the_next_daemon(self):
        self.rename()
        self.left.kill()
        self.left.start(wait=False)
        wait_until(lambda: self.left.has_carrier("ibmgmt"), "it is adopted")
        self.assertIsNone(self.left.link("ib0"), "no second interface is created")
        self.assert_connected()

    def lose_device(self):
        self.softib_set("hca", "left", "failed")
        self.left.wait_for_log("waiting for", "come back")

    def test_renamed_interface_returns_with_its_device(self):
        self.rename()
        wait_until(lambda: self.answers("ibmgmt"), "ibarp finds it by its new name")
        self.lose_device()
        wait_until(lambda: self.answers("ibmgmt") and self.left.ibarp("info", "ibmgmt")["state"] == "no_device",
                   "ibarp finds it meanwhile")
        self.softib_set("hca", "left", "present")
        wait_until(lambda: self.left.has_carrier("ibmgmt"), "it is adopted")
        self.assert_connected()
        self.assertIsNone(self.left.link("ib0"), "no second interface is created")

    def test_renamed_interface_is_removed_without_its_device(self):
        self.rename()
        wait_until(lambda: self.answers("ibmgmt"), "ibarp finds it by its new name")
        self.lose_device()
        self.assertEqual(self.left.daemon.end(), 0, self.left.daemon.output())
        self.assertIsNone(self.left.link("ibmgmt"))

    def test_moved_interface_returns_with_its_device(self):
        other = self.move()
        self.lose_device()
        self.softib_set("hca", "left", "present")
        wait_until(lambda: other.reaches("10.44.0.2"), "it is adopted where it is")
        self.assertIsNone(self.left.link(), "no second interface is created")
        self.lose_device()
        self.assertEqual(self.left.daemon.end(), 0, self.left.daemon.output())
        self.assertIsNone(other.link(), "the interface is removed")

    def move(self):
        other = self.subnet.host("other")
        self.left.run("ip", "link", "set", "ib0", "netns", other.namespace)
        other.run("ip", "link", "set", "ib0", "up")
        other.configure("ib0", "10.44.0.3/24")
        wait_until(lambda: other.reaches("10.44.0.2"), "it reaches right from there")
        wait_until(lambda: self.right.reaches("10.44.0.3"), "and right reaches it")
        self.assertIsNone(self.left.link())
        return other

    def test_moved_interface_is_followed(self):
        other = self.move()
        self.left.wait_for_log("moved to another network namespace")
        self.assertEqual(self.left.daemon.end(), 0, self.left.daemon.output())
        self.assertIsNone(other.link(), "the interface is removed")


if __name__ == "__main__":
    hosts.main()
