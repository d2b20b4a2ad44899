#!/usr/bin/env python3
"""What a command waits for is shown on a terminal, of whichever command: here for a process that is stopped."""

import os
import pty
import re
import select
import signal
import subprocess
import time

import hosts
from hosts import program

SHOWN = re.compile(rb"\r(waiting for|adding|deleting|collecting|reading) [^\r]*, \d+ s\x1b")
IBARP = ("show", "get 10.44.0.2", "stats", "info", "groups", "stations", "log link=debug", "trace", "flush 10.44.0.9",
         "add 10.44.0.9 gid fe80::9", "del 10.44.0.9", "failover", "capture /dev/null", "monitor", "top", "check",
         "explain 10.44.0.2", "explain --from 10.44.0.2", "probe 10.44.0.2", "metrics", "save", "bugreport --output -",
         "interface", "interface add 0x8001 dev ib0", "interface del ib0", "wait up", "wait down")
# The last one ends the subnet.
SOFTIB = ("show", "show --watch 1", "show --topology", "set port left down", "metrics", "capture /dev/null", "view",
          "run --hca new -- true", "stop")


class Terminal:
    """A command on a terminal of its own, and what it has printed there."""

    def __init__(self, command, environment):
        self.fd, theirs = pty.openpty()
        self.printed = b""
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
                                        start_new_session=True)
        os.close(theirs)

    def read(self):
        """Returns whether more may come."""
        try:
            new = os.read(self.fd, 65536)
        except OSError:  # it has ended
            new = b""
        self.printed += new
        return bool(new)

    def end(self):
        self.process.kill()
        self.process.wait()
        os.close(self.fd)


class Progress(hosts.Pair):
    def setUp(self):
        self.set_up()
        self.start()

    def check(self, commands, stopped, begin):
        """Runs all at the same time."""
        os.kill(stopped, signal.SIGSTOP)
        running = {each: Terminal(begin(each), self.subnet.environment) for each in commands}
        try:
            waiting, end = dict(running), time.monotonic() + hosts.PATIENCE
            while waiting and time.monotonic() < end:
                ready, _, _ = select.select([each.fd for each in waiting.values()], [], [], 1)
                for command, each in list(waiting.items()):
                    if each.fd in ready and (not each.read() or SHOWN.search(each.printed)):
                        del waiting[command]
        finally:
            for each in running.values():
                each.end()
            os.kill(stopped, signal.SIGCONT)
        for command, each in running.items():
            with self.subTest(command):
                self.assertRegex(each.printed, SHOWN)

    def test_of_ibarp(self):
        self.check(IBARP, self.left.daemon.pid, lambda each: self.left.command(program("ibarp"), *each.split()))

    def test_of_softib(self):
        self.check(SOFTIB, self.subnet.process.pid, lambda each: [program("softib"), *each.split()])


if __name__ == "__main__":
    hosts.main()
