#!/usr/bin/env python3
"""An interrupted benchmark leaves no namespace, process or file behind."""

import os
import pathlib
import signal
import sys
import tempfile
import unittest

import hosts
from hosts import Process, need, wait_until

need("fastd", "iperf3")
BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench" / "bench.py"
PROGRAMS = pathlib.Path(hosts.BIN).resolve().parent
if not (PROGRAMS / "tests" / "bench_tun_pump").exists():
    hosts.softib_subnet.skip("the benchmark's programs are not built")


class Interrupted(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.mark = f"IPOIB_BENCH_TEST={folder.name}"

    def namespaces(self, bench):
        return [path.name for path in pathlib.Path("/run/netns").glob(f"ipoibd-{bench.pid}-*")]

    def interrupt(self, number, reached):
        """Interrupts the benchmark once the namespace `reached` exists."""
        name, value = self.mark.split("=")
        bench = Process([sys.executable, str(BENCH), "--programs", str(PROGRAMS), "paths"],
                        self.folder / "log",
                        {**os.environ, "TMPDIR": str(self.folder), name: value})
        self.addCleanup(bench.end)
        wait_until(lambda: f"ipoibd-{bench.pid}-{reached}" in self.namespaces(bench)
                   or not bench.is_running(), f"the benchmark has created {reached}")
        self.assertEqual(bench.end(number), 128 + number, bench.output())
        self.assertEqual(self.namespaces(bench), [])
        wait_until(lambda: not hosts.processes_with(self.mark), "all its processes have ended")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["log"])

    def test_at_the_first_namespaces(self):
        self.interrupt(signal.SIGINT, "right")

    def test_with_pump_and_fastd(self):
        self.interrupt(signal.SIGTERM, "ipoibd-left")

    def test_with_daemons(self):
        self.interrupt(signal.SIGHUP, "ipoibd-busy-right")


if __name__ == "__main__":
    hosts.main()
