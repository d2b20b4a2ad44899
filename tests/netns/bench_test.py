#!/usr/bin/env python3
"""An interrupted benchmark leaves no namespace, process or file behind. A stream has the congestion
control that its figure names."""

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
sys.path.insert(0, str(BENCH.parent))
import figures  # noqa: E402
import setting  # noqa: E402

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

    def test_leaves_nothing_at_the_first_namespaces(self):
        self.interrupt(signal.SIGINT, "right")

    def test_leaves_nothing_with_pump_and_fastd(self):
        self.interrupt(signal.SIGTERM, "ipoibd-left")

    def test_leaves_nothing_with_daemons(self):
        self.interrupt(signal.SIGHUP, "ipoibd-busy-right")


class Measured(unittest.TestCase):
    def test_streams_have_their_congestion_control(self):
        with setting.Setting(PROGRAMS / "tests" / "bench_tun_pump") as paths:
            path = paths.veth()
            measured = figures.with_each_control(path)
            for figure in measured:
                control = figure.keywords["control"]
                end = path.iperf(1, *figures.of_control(control))
                self.assertEqual(end["sender_tcp_congestion"], control)
                figure(path, 1)
        controls = {figure.keywords["control"] for figure in measured}
        self.assertEqual(set(path.figures), {f"{what} {control} Gb/s" for control in controls
                                             for what in ("TCP", "8 streams")})


if __name__ == "__main__":
    hosts.main()
