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

    def test_by_path(self):
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


if __name__ == "__main__":
    hosts.main()
