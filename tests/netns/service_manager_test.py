#!/usr/bin/env python3
"""ipoibd tells a service manager such as systemd what it is doing, and that its threads work."""

import os
import socket

import hosts
from hosts import wait_until


class ServiceManager(hosts.Pair):
    def setUp(self):
        self.set_up()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.socket.close)
        path = os.path.join(self.subnet.folder, "notify")
        self.socket.bind(path)
        self.socket.setblocking(False)
        self.messages = []
        self.environment = {"NOTIFY_SOCKET": path}

    def start_left(self, *options):
        self.subnet.environment.update(self.environment)
        self.left.start(*options)
        for variable in self.environment:
            del self.subnet.environment[variable]

    def received(self):
        """All messages so far."""
        while True:
            try:
                self.messages.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return self.messages

    def wait_for(self, message):
        wait_until(lambda: message in self.received(), f"{message} in {self.messages}")

    def test_status(self):
        self.start_left()
        self.wait_for("READY=1")
        self.wait_for("STATUS=ib0 is up")
        self.softib_set("port", "left", "down")
        wait_until(lambda: self.received()[-1].startswith("STATUS=ib0 waits for the port"), "it says so")
        self.messages.clear()
        self.softib_set("port", "left", "up")
        self.wait_for("STATUS=ib0 is up")
        self.assertEqual(self.left.daemon.end(), 0)
        self.wait_for("STOPPING=1")

    def test_watchdog(self):
        self.environment["WATCHDOG_USEC"] = "400000"
        self.start_left()
        wait_until(lambda: self.received().count("WATCHDOG=1") > 5, "it is fed")
        self.softib_set("hca", "left", "failed")
        self.left.wait_for_log("waiting for softib0 to come back")
        self.received()
        self.messages.clear()
        wait_until(lambda: self.received().count("WATCHDOG=1") > 1, "it is fed without a device")
        self.assertTrue(any(message.startswith("STATUS=waiting: ") for message in self.messages),
                        self.messages)

    def test_without_a_watchdog(self):
        self.start_left()
        self.wait_for("STATUS=ib0 is up")
        self.assertNotIn("WATCHDOG=1", self.received())


if __name__ == "__main__":
    hosts.main()
