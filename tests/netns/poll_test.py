#!/usr/bin/env python3
"""How ipoibd waits when it has nothing to do (--poll)."""

import os
import pathlib

import hosts
import streams
from hosts import wait_until

TICK = os.sysconf("SC_CLK_TCK")


class Poll(hosts.Pair):
    def start_with(self, mode):
        self.set_up()
        self.start("--poll", mode)

    def cpu_time(self, host):
        """Returns the CPU time of a host's daemon in seconds."""
        stat = pathlib.Path(f"/proc/{host.daemon.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(stat[11]) + int(stat[12])) / TICK

    def assert_works(self):
        self.assertEqual(self.left.lost_of(1000, "10.44.0.2", "-i", "0"), 0)
        streams.tcp(self.left, self.right, "10.44.0.2", 64)

    def test_event(self):
        self.start_with("event")
        self.assert_works()
        counters = self.left.counters()
        self.assertGreater(counters["sleeps"], 0)
        self.assertEqual((counters["spins"], counters["spins_in_vain"]), (0, 0))

    def test_busy(self):
        self.start_with("busy")
        self.assert_works()
        self.assertEqual(self.left.counters()["sleeps"], 0)
        before = self.cpu_time(self.left)
        wait_until(lambda: self.cpu_time(self.left) > before + 0.2, "the daemon keeps polling")

    def test_adaptive(self):
        self.start_with("adaptive")
        self.assert_works()
        self.assertGreater(self.left.counters()["sleeps"], 0)
        # The request itself wakes the thread, and so do the timers of an unused link.
        before = self.left.counters()
        after = self.left.counters()
        self.assertLess(after["sleeps"] - before["sleeps"], 100, "the thread stays asleep")


if __name__ == "__main__":
    hosts.main()
