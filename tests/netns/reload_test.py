#!/usr/bin/env python3
"""ipoibd reads its configuration again, on SIGHUP and by ipoibd --reload."""

import os
import signal

import hosts
from hosts import wait_until


class Reload(hosts.Pair):
    def setUp(self):
        self.set_up("--partition", "1=full", "--partition", "0x7fff=full")
        self.file = os.path.join(self.subnet.folder, "ipoibd.conf")
        self.write("pkey = 0xffff")
        self.left.start_all("--config", self.file, address="10.44.0.1/24")

    def write(self, *lines):
        with open(self.file, "w", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines))

    def reload(self, *options):
        return self.left.run(hosts.program("ipoibd"), "--reload", *options, check=False)

    def test_takes_over_changes(self):
        self.write("pkey = 0xffff", "pkey = 0x8001", "log = link=debug", "poll = event", "mtu = 1500")
        self.left.daemon.popen.send_signal(signal.SIGHUP)
        wait_until(lambda: self.left.link("ib0.8001"), "the other partition has an interface")
        self.left.wait_for_log("has read its configuration again")
        self.left.wait_for_log("mtu: 4092 -> 1500: takes effect when ipoibd is started again")
        self.assertIn("debug", self.left.run(hosts.program("ibarp"), "log").stdout)
        self.assertEqual(self.left.link("ib0")["mtu"], 2044)
        self.write("pkey = 0xffff")
        done = self.reload()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^process \d+ on softib0 port 1 \(ib0, ib0\.8001\): reads")
        wait_until(lambda: not self.left.link("ib0.8001"), "the other interface is removed")
        self.assertIsNotNone(self.left.link("ib0"), "the first one stays")
        self.assertTrue(self.left.daemon.is_running())

    def test_refuses_what_is_wrong(self):
        self.write("pkey = 0xffff", "port = many")
        done = self.reload("--config", self.file)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("ipoibd.conf:2", done.stderr)
        self.left.daemon.popen.send_signal(signal.SIGHUP)
        self.left.wait_for_log("configuration is invalid", "ipoibd.conf:2")
        done = self.reload("--device", "mlx5_7:2")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("no ipoibd on mlx5_7 port 2", done.stderr)
        self.assertTrue(self.left.daemon.is_running())

    def test_works_without_a_device(self):
        """A daemon that waits for its device takes over what it will need."""
        self.softib_set("hca", "left", "failed")
        self.left.wait_for_log("waiting for softib0 to come back")
        self.write("pkey = 0xffff", "pkey = 0x8001")
        self.assertEqual(self.reload().returncode, 0)
        self.left.wait_for_log("has read its configuration again")
        self.softib_set("hca", "left", "present")
        wait_until(lambda: self.left.link("ib0.8001"), "the other partition has an interface")
        self.assertEqual(self.left.daemon.end(), 0)


if __name__ == "__main__":
    hosts.main()
