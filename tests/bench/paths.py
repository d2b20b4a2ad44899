#!/usr/bin/env python3
"""Measures paths between two network namespaces side by side, in turn, and prints medians.

Usage: paths.py --from NAMESPACE --rounds N --seconds N --json FILE --bound NAME NAME=ADDRESS[=PID,...]...

An iperf3 server listens at each address. PIDs are the processes that carry the path: the CPU time
that they take for a GiB of TCP is measured too. A figure of one run says little, the machine decides
it; what it is to the bound's in the same run says much, and stands beside it.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess

GIB = 1 << 30
TICK = os.sysconf("SC_CLK_TCK")


class Path:
    def __init__(self, text):
        name, address, *pids = text.split("=")
        self.name = name
        self.address = address
        self.pids = [int(pid) for pid in pids[0].split(",")] if pids else []
        self.figures = {}

    def cpu_time(self):
        """Seconds that its processes have had."""
        total = 0
        for pid in self.pids:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total / TICK

    def add(self, figure, value):
        self.figures.setdefault(figure, []).append(value)

    def median(self, figure):
        values = self.figures.get(figure)
        return statistics.median(values) if values else None


class Measurement:
    def __init__(self, namespace, seconds):
        self.namespace = namespace
        self.seconds = seconds

    def run(self, *command):
        done = subprocess.run(["ip", "netns", "exec", self.namespace, *command],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def iperf(self, path, *options):
        out = self.run("iperf3", "--client", path.address, "--time", str(self.seconds), "--json",
                       *options)
        return json.loads(out)["end"]

    def tcp(self, path):
        before = path.cpu_time()
        received = self.iperf(path)["sum_received"]
        path.add("TCP Gb/s", received["bits_per_second"] / 1e9)
        if path.pids:
            path.add("CPU s/GiB", (path.cpu_time() - before) / (received["bytes"] / GIB))

    def tcp_of_many(self, path):
        received = self.iperf(path, "--parallel", "8")["sum_received"]
        path.add("8 streams", received["bits_per_second"] / 1e9)

    def udp(self, path, size):
        end = self.iperf(path, "--udp", "--bitrate", "0", "--length", str(size))["sum"]
        arrived = end["packets"] - end["lost_packets"]
        path.add(f"UDP {size} kpps", arrived / end["seconds"] / 1e3)

    def ping(self, path):
        out = self.run("ping", "-n", "-c", "300", "-i", "0.002", path.address)
        path.add("RTT us", 1000 * statistics.median(map(float, re.findall(r"time=([\d.]+)", out))))

    def round(self, paths):
        for what in (self.tcp, self.tcp_of_many, lambda path: self.udp(path, 1400),
                     lambda path: self.udp(path, 64), self.ping):
            for path in paths:
                what(path)


def table(paths, bound):
    figures = list(bound.figures)
    rows = [["path", *(word for figure in figures for word in (figure, "ratio"))]]
    for path in paths:
        row = [path.name]
        for figure in figures:
            value = path.median(figure)
            row += ["-", "-"] if value is None else [f"{value:.4g}",
                                                     f"{value / bound.median(figure):.2f}"]
        rows.append(row)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("| " + " | ".join(word.rjust(width) for word, width in zip(row, widths)) + " |"
                     for row in rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--from", dest="namespace", required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--json", required=True)
    parser.add_argument("--bound", required=True)
    parser.add_argument("paths", nargs="+", type=Path)
    options = parser.parse_args()
    measurement = Measurement(options.namespace, options.seconds)
    for number in range(1, options.rounds + 1):
        measurement.round(options.paths)
        print(f"round {number}: " + ", ".join(
            f"{path.name} {path.figures['TCP Gb/s'][-1]:.2f} Gb/s" for path in options.paths),
            flush=True)
    bound = next(path for path in options.paths if path.name == options.bound)
    print(table(options.paths, bound))
    pathlib.Path(options.json).write_text(json.dumps(
        {path.name: path.figures for path in options.paths}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
