#!/usr/bin/env python3
"""An idle daemon sleeps: only a few timers wake it."""

import pathlib
import re
import subprocess

import hosts
from hosts import wait_until

SECONDS = 5
# Per thread, once a second. A polling thread would have hundreds.
MAX_WAKE_UPS = 5


def wake_ups(pid):
    """Returns thread -> voluntary context switches so far, that is, how often it went to sleep."""
    found = {}
    for status in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
        found[status.parent.name] = int(
            re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status.read_text(), re.M).group(1))
    return found


class Idle(hosts.Pair):
    def setUp(self):
        self.set_up("--partition", "1=full", "--partition", "2=full")

    def assert_sleeps(self, process):
        before = wake_ups(process.pid)
        with self.assertRaises(subprocess.TimeoutExpired, msg="the process keeps running"):
            process.wait(SECONDS)
        woken = {thread: count - before[thread]
                 for thread, count in wake_ups(process.pid).items()
                 if count - before[thread] > MAX_WAKE_UPS}
        self.assertEqual(woken, {})

    def test_nothing_wakes_it(self):
        # With IPv6 the kernel would send router solicitations.
        self.left.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        self.left.start_all(address="10.44.0.1/24")
        for interface in ("ib0.8001", "ib0.8002"):
            self.left.run("ip", "link", "set", interface, "up")
            wait_until(lambda name=interface: self.left.has_carrier(name), f"{interface} is up")
        wait_until(lambda: self.left.counters().get("announcements_sent", 0) >= 2,
                   "the address has been announced twice")
        self.assert_sleeps(self.left.daemon.popen)
        self.assert_sleeps(self.subnet.process)


if __name__ == "__main__":
    hosts.main()
