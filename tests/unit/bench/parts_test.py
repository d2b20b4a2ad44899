#!/usr/bin/env python3
"""Tests the tables, pictures and document of scripts/bench, and its option parsing.

Usage: parts_test.py
"""
import argparse
import contextlib
import importlib
import importlib.util
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "bench"))
import bench  # noqa: E402
import build  # noqa: E402
import costs  # noqa: E402
import figures  # noqa: E402
import hostile  # noqa: E402
import latency  # noqa: E402
import paths  # noqa: E402
import pinning  # noqa: E402
import roce  # noqa: E402
import rxe  # noqa: E402
import sockets  # noqa: E402
import tables  # noqa: E402
import verbs  # noqa: E402

MEASURED = {"bound": "pump", "rounds": 3, "seconds": 1, "paths": {
    "veth": {"TCP Gb/s": [30, 10, 20]},
    "pump": {"TCP Gb/s": [9, 10, 11], "CPU s/GiB": [0.5]},
    "ours": {"TCP Gb/s": [8, 8, 1], "CPU s/GiB": [1.25]},
}}


class Tables(unittest.TestCase):
    def test_ratios_are_of_medians_to_the_bound(self):
        self.assertEqual(tables.ratios(MEASURED).splitlines(), [
            "| path | TCP Gb/s | ratio | CPU s/GiB | ratio |",
            "|---|---:|---:|---:|---:|",
            "| veth |       20 |  2.00 |         - |     - |",
            "| pump |       10 |  1.00 |       0.5 |  1.00 |",
            "| ours |        8 |  0.80 |      1.25 |  2.50 |"])
        self.assertEqual(tables.medians(MEASURED),
                         "Medians of 3 rounds of 1 s in one run; ratios to pump.\n")

    def test_numbers_have_four_digits(self):
        self.assertEqual([tables.number(value) for value in (12345.6, 999.96, 12.3456, 0.01234567)],
                         ["12346", "1000", "12.35", "0.01235"])

    def test_speed_and_cost_of_sockets(self):
        rows = sockets.text({"rounds": 3, "seconds": 2, "ways": {
            "ipoibd": [[4, 2], [3, 1], [5, 3]], "RDMA sockets": [[20, 0.5], [16, 0.25], [24, 1]]}}).splitlines()
        self.assertEqual([[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:4]],
                         [["ipoibd", "4", "1.00", "2", "1.00"], ["RDMA sockets", "20", "5.00", "0.5", "4.00"]])

    def test_speed_under_attack(self):
        text = hostile.text({"rounds": 3, "seconds": 2, "ratios": {"probes": [0.8, 0.95, 1]}})
        self.assertRegex(text, r"\| probes: ARP probes +\| +5000 \| +TCP \| +0\.95 \|\n$")
        self.assertIn("3 rounds of 2 s", text)

    def test_pinned_daemons_beside_others(self):
        one = list(pinning.variants([3]))
        self.assertEqual(one[0], (pinning.BOUND, (), ()))
        self.assertEqual([name for name, *_ in one],
                         ["not pinned", "on one CPU, adaptive", "not pinned, event",
                          "on one CPU, event"])
        two = {name: options for name, *options in pinning.variants([3, 5, 6])}
        self.assertEqual(two["on two CPUs, event"], [("--poll", "event", "--cpu", "3"),
                                                     ("--poll", "event", "--cpu", "5")])
        self.assertEqual(two["on one CPU, event"], 2 * [("--poll", "event", "--cpu", "3")])
        text = pinning.text({**MEASURED, "CPUs": 2})
        self.assertIn("On 2 CPUs", text)
        self.assertRegex(text, r"\| ours \| +8 \| +0\.80 \|")

    def test_cost_of_an_item_or_of_a_run(self):
        self.assertEqual(costs.nanoseconds({"items_per_second": 1e6, "cpu_time": 7}), 1000)
        self.assertEqual(costs.nanoseconds({"cpu_time": 7, "time_unit": "us"}), 7000)

    def test_result_of_perftest(self):
        self.assertEqual(
            verbs.of_bandwidth("#bytes #iterations\n"
                               " 2048       450593     0.00     3.69   \t\t   0.225294\n"),
            (3.69, 0.225294))
        self.assertEqual(
            verbs.of_latency("#bytes #iterations t_min t_max t_typical t_avg t_stdev 99% 99.9%\n"
                             " 64      1000     0.75   18.32   0.79   0.86   0.53   1.63   18.32\n"),
            0.79)
        for parse in (verbs.of_bandwidth, verbs.of_latency):
            with self.assertRaises(SystemExit):
                parse("Couldn't listen to port\n")

    def test_times_of_cmtime(self):
        rows = "".join(f"{step:<13}:       77.62      24.56       5.00     {us}\n" for step, us in
                       (("create id", "1.00"), ("resolve addr", "2.00"), ("resolve route", "3.00"),
                        ("create qp", "4.00"), ("connect", "90.50"), ("disconnect", "7.00")))
        self.assertEqual(verbs.of_cmtime("connecting\n" + rows), (100.5, 90.5))
        with self.assertRaises(SystemExit):
            verbs.of_cmtime("connecting\n")

    def test_speed_of_connections(self):
        self.assertEqual(verbs.of_copies("memcpy 50.00\npipe 25.50\n"),
                         {"memcpy": 50, "pipe": 25.5})
        text = verbs.text({
            "rounds": 1, "seconds": 2, "datagrams": [], "copies": {"memcpy": [50], "pipe": [25]},
            "streams": {"ib_write_bw": [(20, 0.04)]},
            "exchanges": {"ib_send_lat -c UD": [2], "ib_write_lat": [3]},
            "set_up": {"cmtime, all steps": [200]}})
        self.assertRegex(text, r"(?m)^\| cmtime, all steps +\| +200 \| +5000 \|$")
        self.assertRegex(text, r"(?m)^\| pipe +\| +25 \| +0\.50 \| +- \|$")
        self.assertRegex(text, r"(?m)^\| ib_write_bw +\| +20 \| +0\.40 \| +0\.04 \|$")
        self.assertRegex(text, r"(?m)^\| ib_write_lat +\| +3 \| +1\.50 \|$")
        self.assertRegex(
            rxe.text({"rounds": 1, "seconds": 2, "rdma_rxe": dict.fromkeys(rxe.STREAMS, [2]),
                      "softib": dict.fromkeys(rxe.STREAMS, [5]),
                      "streams": {"rdma_rxe": {"ib_send_bw": [4]}, "softib": {"ib_send_bw": [2]}},
                      "set_up": {"rdma_rxe": [(900, 600)], "softib": [(300, 150)]}}),
            r"(?m)^\| ib_read_bw +\| +2 \| +5 \| +2\.5 \|\n(.*\n)*"
            r"\| ib_send_bw +\| +4 \| +2 \| +0\.5 \|\n(.*\n)*"
            r"\| cmtime, all steps +\| +900 \| +300 \| +3\.0 \|\n"
            r"\| cmtime, connect +\| +600 \| +150 \| +4\.0 \|$")

    def test_roce_ports_beside_their_bound(self):
        text = roce.text({"rounds": 1, "seconds": 2, "streams": {roce.BOUND: [40], "ib_write_bw": [10]},
                          "exchanges": {"ib_send_lat": [20, 18, 19]}})
        self.assertRegex(text, r"(?m)^\| ib_write_bw +\| +10 \| +0\.25 \|$")
        self.assertRegex(text, r"(?m)^\| ib_send_lat +\| +19 \| +18 \|$")


class Build(unittest.TestCase):
    LOG = ("# ninja log v5\n"
           "0\t9000\t1\tsrc/sa/CMakeFiles/ipoib_sa.dir/Unity/unity_0_cxx.cxx.o\tff\n"
           "10\t20\t1\tlib/libipoib_sa.a\tff\n"
           "500\t3000\t1\tsrc/control/CMakeFiles/ibarp.dir/client.cpp.o\tff\n")

    def test_sources_and_their_times(self):
        found = {build.source(output): time for output, time in build.compilations(self.LOG).items()}
        self.assertEqual(found, {"ipoib_sa, merged source 0": 9, "src/control/client.cpp": 2.5})

    def test_wall_and_cpu_time_of_a_command(self):
        slept = build.timed(["sleep", "0.3"])
        self.assertGreaterEqual(slept["wall"], 0.3)
        self.assertLess(slept["CPU"], slept["wall"])
        with self.assertRaises(SystemExit):
            build.timed(["false"])

    def test_table(self):
        rows = build.text({"steps": {"programs": {"wall": 61.4, "CPU": 120}}, "processors": 2,
                           "sources": 40, "most expensive": {"a.cpp": 9.04}}).splitlines()
        self.assertEqual(rows[2], "| programs |     61 |   120 |")
        self.assertEqual(rows[-1], "| a.cpp  |    9.0 |")


class FakePath(figures.Path):
    """Answers as a kernel with these congestion controls, the first one its default."""

    def __init__(self, *controls):
        super().__init__("fake", "namespace", "far", "address")
        self.controls = controls

    def run(self, *command):
        if command[0] == "sysctl":
            return f"{self.controls[0]}\n"
        return "" if command[-1] in self.controls else "No such file or directory\n"

    def iperf(self, seconds, *options):
        control = options[options.index("--congestion") + 1] if options else self.controls[0]
        rate = {"cubic": 1e9, "bbr": 2e9}[control] * (4 if "--parallel" in options else 1)
        return {"sum_received": {"bits_per_second": rate, "bytes": rate * seconds / 8}}


class CongestionControl(unittest.TestCase):
    def figures_of(self, *controls):
        """Returns what is measured, and what is printed."""
        path, printed = FakePath(*controls), io.StringIO()
        with contextlib.redirect_stdout(printed):
            for figure in figures.with_each_control(path):
                figure(path, 1)
        return path.figures, printed.getvalue()

    def test_each_one_has_its_figures(self):
        self.assertEqual(self.figures_of("bbr", "cubic"),
                         ({"TCP cubic Gb/s": [1], "TCP bbr Gb/s": [2],
                           "8 streams cubic Gb/s": [4], "8 streams bbr Gb/s": [8]}, ""))

    def test_missing_one_is_skipped_with_the_reason(self):
        self.assertEqual(self.figures_of("cubic"),
                         ({"TCP cubic Gb/s": [1], "8 streams cubic Gb/s": [4]},
                          "skipping TCP with bbr: No such file or directory\n"))
        with self.assertRaisesRegex(SystemExit, "none of cubic, bbr"):
            self.figures_of("reno")

    def test_program_asks_the_kernel(self):
        for control, reason in (("reno", ""), ("no-such", "No such file or directory")):
            done = subprocess.run([sys.executable, "-c", figures.SET_CONGESTION_CONTROL, control],
                                  check=True, text=True, capture_output=True)
            self.assertEqual((done.stdout.strip(), done.stderr), (reason, ""), control)

    def test_tables_say_which_is_the_default(self):
        text = paths.text({"bound": "a", "rounds": 1, "seconds": 4, "default": "bbr", "paths": {
            "a": {"TCP cubic Gb/s": [1], "CPU cubic s/GiB": [1], "8 streams bbr Gb/s": [1],
                  "UDP 64 kpps": [1], "RTT us": [1]}}})
        headings = [line for line in text.splitlines() if line.startswith("| path")]
        self.assertEqual([heading.replace(" | ratio", "") for heading in headings],
                         ["| path | TCP cubic Gb/s | CPU cubic s/GiB |",
                          "| path | 8 streams bbr Gb/s | UDP 64 kpps | RTT us |"])
        self.assertIn("`cubic` is the default of most machines, `bbr` that of the measured one",
                      text)
        self.assertIn("1 rounds of 4 s", text)


TIMES = {"messages": 4, "lost": 0, "p10": 1000, "median": 2000, "p90": 3500, "p99": 4000,
         "buckets": [[1000, 1], [2000, 2], [3500, 1]]}


class Latency(unittest.TestCase):
    def test_one_option_is_varied_at_a_time(self):
        self.assertEqual(list(latency.variations({"a": (1, 2, 3), "b": ("x", "y")})),
                         [(latency.BASELINE, {"a": 1, "b": "x"}), ("a 2", {"a": 2, "b": "x"}),
                          ("a 3", {"a": 3, "b": "x"}), ("b y", {"a": 1, "b": "y"})])

    def test_options_of_the_program(self):
        self.assertEqual(latency.arguments({"size": 8, "inline": "no"}), ["--size", "8"])
        self.assertEqual(latency.arguments({"inline": "yes", "poll": "busy"}),
                         ["--inline", "--poll", "busy"])

    def test_table_has_a_row_for_each_variation(self):
        rows = latency.text({"verbs": dict.fromkeys(
            (name for name, _ in latency.variations(latency.VERBS)), TIMES), "veth": {}})
        self.assertEqual(len(rows.splitlines()), 2 + len(list(latency.variations(latency.VERBS))))
        for row in rows.splitlines()[2:]:
            self.assertRegex(row, r"2 \(1 to 3\.5\) \| +- \|$")


class Document(unittest.TestCase):
    def test_block_replaces_text_between_markers(self):
        text = "a\n<!-- measured: x -->\nold\n<!-- end -->\nb\n<!-- measured: y -->\n<!-- end -->\n"
        self.assertEqual(bench.put(text, "x", "new\n"), text.replace("old", "new"))
        with self.assertRaises(SystemExit):
            bench.put(text, "z", "new\n")

    def test_each_part_has_its_markers(self):
        text = bench.DOCUMENT.read_text(encoding="utf-8")
        for part in bench.PARTS:
            self.assertIn("new\n", bench.put(text, part, "new\n"))


@unittest.skipUnless(importlib.util.find_spec("matplotlib"), "python3-matplotlib is not installed")
class Pictures(unittest.TestCase):
    def test_pictures_are_reproducible(self):
        import plots
        with tempfile.TemporaryDirectory() as folder:
            first, second = (pathlib.Path(folder) / name for name in ("1.svg", "2.svg"))
            for path in (first, second):
                plots.save(plots.ratios(MEASURED), path)
            self.assertEqual(first.read_bytes(), second.read_bytes())
            for word in ("veth", "ours", "TCP Gb/s", "CPU s/GiB"):
                self.assertIn(f">{word}<", first.read_text(encoding="utf-8"))

    def test_latency(self):
        import plots
        measured = {name: dict.fromkeys((row for row, _ in latency.variations(values)), TIMES)
                    for name, values in (("verbs", latency.VERBS), ("veth", latency.UDP))}
        pictures = latency.pictures(measured, plots)
        self.assertEqual(set(pictures), {"latency", "latency-histograms"})
        with tempfile.TemporaryDirectory() as folder:
            for name, words in (("latency", (*latency.VERBS, "veth")),
                                ("latency-histograms", ("verbs, poll busy", "veth"))):
                file = pathlib.Path(folder) / f"{name}.svg"
                plots.save(pictures[name], file)
                for word in words:
                    self.assertIn(f">{word}<", file.read_text(encoding="utf-8"))


class Interruption(unittest.TestCase):
    def test_ends_processes_that_nobody_has_registered(self):
        process = subprocess.Popen(["sleep", "1000"])
        bench.take_down()
        self.assertFalse(pathlib.Path(f"/proc/{process.pid}").exists())
        process.wait()


class Parts(unittest.TestCase):
    def test_each_part_is_the_module_of_its_name(self):
        """The test folders on the path may have modules of the same name."""
        for name in bench.PARTS:
            part = importlib.import_module(name)
            self.assertEqual(pathlib.Path(part.__file__), ROOT / "tests" / "bench" / f"{name}.py")
            self.assertTrue(part.measure and part.text and part.pictures)


    def test_duration_of_a_stream(self):
        """Its default depends on the part."""
        for name, given, expected in (("paths", None, 4), ("verbs", None, 2), ("paths", 1, 1)):
            part = importlib.import_module(name)
            with tempfile.TemporaryDirectory() as folder, \
                    mock.patch.object(part, "measure", return_value={}) as measure, \
                    mock.patch.object(part, "text", return_value=""), \
                    mock.patch.object(bench, "draw"), \
                    contextlib.redirect_stdout(io.StringIO()):
                bench.run(name, argparse.Namespace(seconds=given), pathlib.Path(folder))
                self.assertEqual(measure.call_args.args[0].seconds, expected, name)


class Script(unittest.TestCase):
    def bench(self, *options):
        return subprocess.run([ROOT / "scripts" / "bench", *options], check=False, text=True,
                              capture_output=True)

    def test_wrong_options(self):
        for options in (["--rounds"], ["--rounds", "0"], ["--seconds", "x"], ["--moment", "2"],
                        ["elsewhere"]):
            done = self.bench(*options)
            self.assertEqual((done.returncode, done.stdout), (2, ""), options)
            self.assertIn(options[0], done.stderr)

    def test_help_names_each_part(self):
        done = self.bench("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for part in bench.PARTS:
            self.assertRegex(done.stdout, rf"(?m)^  {part} ")


if __name__ == "__main__":
    unittest.main(verbosity=2)
