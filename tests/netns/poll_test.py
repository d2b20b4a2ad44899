#!/usr/bin/env python3
"""How ipoibd waits when it has nothing to do (--poll)."""

import collections
import os
import pathlib
import re

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

    def test_event_mode(self):
        self.start_with("event")
        self.assert_works()
        counters = self.left.counters()
        self.assertGreater(counters["sleeps"], 0)
        self.assertEqual((counters["spins"], counters["spins_in_vain"]), (0, 0))

    def test_busy_mode(self):
        self.start_with("busy")
        self.assert_works()
        self.assertEqual(self.left.counters()["sleeps"], 0)
        before = self.cpu_time(self.left)
        wait_until(lambda: self.cpu_time(self.left) > before + 0.2, "the daemon keeps polling")

    def test_adaptive_mode(self):
        self.start_with("adaptive")
        self.assert_works()
        self.assertGreater(self.left.counters()["sleeps"], 0)
        # The request itself wakes the thread, and so do the timers of an unused link.
        before = self.left.counters()
        after = self.left.counters()
        self.assertLess(after["sleeps"] - before["sleeps"], 100, "the thread stays asleep")


class Cpus(hosts.Pair):
    def allowed(self):
        """Returns the CPUs that each thread of the daemon may use, as text."""
        found = []
        for path in pathlib.Path(f"/proc/{self.left.daemon.pid}/task").glob("*/status"):
            try:
                text = path.read_text(encoding="utf-8")
            except OSError:  # the thread has ended
                continue
            found.append(re.search(r"^Cpus_allowed_list:\s*(.*)$", text, re.M)[1])
        return collections.Counter(found)

    def test_threads_are_pinned_in_turn(self):
        own = sorted(os.sched_getaffinity(0))
        if len(own) < 2:
            self.skipTest("needs two CPUs")
        first, second = own[-1], own[0]
        self.set_up("--partition", "1=full", "--partition", "2=full")
        self.left.start_all("--cpu", f"{first},{second}")
        wait_until(lambda: self.left.has_carrier("ib0.8002"), "three interfaces")
        allowed = self.allowed()
        self.assertEqual((allowed[str(first)], allowed[str(second)]), (2, 1), allowed)
        self.assertGreater(sum(allowed.values()), 3, "other threads are not pinned")
        self.left.run(hosts.program("ibarp"), "interface", "del", "ib0")
        self.left.run(hosts.program("ibarp"), "interface", "add", "0xffff")
        wait_until(lambda: self.allowed() == allowed, "a new thread has the place of the old one")


if __name__ == "__main__":
    hosts.main()
