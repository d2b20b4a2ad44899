"""Measures paths between two network namespaces, round by round.

An iperf3 server listens at the path's address. Absolute values depend on the machine's load; ratios
between paths in the same run are comparable. So a round measures each figure on all paths in turn,
and the values of all rounds are kept.
"""
import contextlib
import functools
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time

GIB = 1 << 30
TICK = os.sysconf("SC_CLK_TCK")
TRIES = 3  # of iperf3
REPLY_TIMEOUT = 10  # seconds to wait for a reply on a path that was stopped
STREAMS = 8
CONGESTION_CONTROLS = ("cubic", "bbr")
SET_CONGESTION_CONTROL = """
import socket, sys
try:
    socket.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[1].encode())
except OSError as error:
    print(error.strerror)
"""


class Path:
    """A path from one namespace to an address in another; `processes` carry its packets."""

    def __init__(self, name, namespace, far, address, processes=()):
        self.name = name
        self.namespace = namespace
        self.far = far
        self.address = address
        self.processes = processes
        self.figures = {}

    def add(self, figure, value):
        self.figures.setdefault(figure, []).append(value)

    def signal(self, number):
        for pid in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self):
        """Stops the processes: a polling process would take CPU time from all other paths."""
        self.signal(signal.SIGSTOP)

    @contextlib.contextmanager
    def running(self):
        """Lets the processes run for the duration of the block."""
        self.signal(signal.SIGCONT)
        try:
            self.run("ping", "-n", "-c", "1", "-w", str(REPLY_TIMEOUT), self.address)
            yield
        finally:
            self.stop()

    def cpu_time(self):
        """Returns the CPU time of its processes in seconds."""
        total = 0
        for pid in self.processes:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
            user, system = fields.rsplit(")", 1)[1].split()[11:13]
            total += int(user) + int(system)
        return total / TICK

    def run(self, *command):
        done = subprocess.run(["ip", "netns", "exec", self.namespace, *command],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{self.name}: {' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def iperf(self, seconds, *options):
        """Runs iperf3, again if its control connection broke on a busy machine, or if the server is
        still busy with the run before."""
        for attempt in range(TRIES):
            time.sleep(attempt)
            output = json.loads(self.run("iperf3", "--client", self.address, "--time", str(seconds),
                                       "--json", *options))
            if "cpu_utilization_percent" in output["end"]:
                return output["end"]
        raise SystemExit(f"{self.name}: iperf3: {output.get('error', 'incomplete result')}")


def tcp(path, seconds, control=None):
    """One stream with this congestion control, by default that of the machine."""
    before = path.cpu_time()
    received = path.iperf(seconds, *of_control(control))["sum_received"]
    path.add(named("TCP", control, "Gb/s"), received["bits_per_second"] / 1e9)
    if path.processes:
        path.add(named("CPU", control, "s/GiB"),
                 (path.cpu_time() - before) / (received["bytes"] / GIB))


def tcp_of_many(path, seconds, control=None):
    received = path.iperf(seconds, "--parallel", str(STREAMS), *of_control(control))["sum_received"]
    path.add(named(f"{STREAMS} streams", control, "Gb/s"), received["bits_per_second"] / 1e9)


def of_control(control):
    return () if control is None else ("--congestion", control)


def named(*words):
    return " ".join(word for word in words if word is not None)


def default_congestion_control(path):
    return path.run("sysctl", "-n", "net.ipv4.tcp_congestion_control").strip()


def with_each_control(path):
    """Returns the TCP figures for each of CONGESTION_CONTROLS that the kernel has or can load for the
    path's namespace; prints why one is skipped."""
    controls = []
    for control in CONGESTION_CONTROLS:
        why = path.run(sys.executable, "-c", SET_CONGESTION_CONTROL, control).strip()
        if why:
            print(f"skipping TCP with {control}: {why}", flush=True)
        else:
            controls.append(control)
    if not controls:
        raise SystemExit(f"the kernel has none of {', '.join(CONGESTION_CONTROLS)}")
    return [functools.partial(figure, control=control) for figure in (tcp, tcp_of_many)
            for control in controls]


def udp(path, seconds, size):
    end = path.iperf(seconds, "--udp", "--bitrate", "0", "--length", str(size))["sum"]
    path.add(f"UDP {size} kpps", (end["packets"] - end["lost_packets"]) / end["seconds"] / 1e3)


def udp_1400(path, seconds):
    udp(path, seconds, 1400)


def udp_64(path, seconds):
    udp(path, seconds, 64)


def ping(path, _):
    output = path.run("ping", "-n", "-c", "600", "-i", "0.002", path.address)
    path.add("RTT us", 1000 * statistics.median(map(float, re.findall(r"time=([\d.]+)", output))))


OTHERS = (udp_1400, udp_64, ping)


def measure(paths, rounds, seconds, figures):
    """Prints the first figure after each round; returns {path: {figure: [value]}}."""
    for path in paths:
        path.stop()
    for number in range(1, rounds + 1):
        for figure in figures:
            for path in paths:
                with path.running():
                    figure(path, seconds)
        first = next(iter(paths[0].figures))
        print(f"round {number}, {first}: " + ", ".join(
            f"{path.name} {path.figures[first][-1]:.3g}" for path in paths), flush=True)
    return {path.name: path.figures for path in paths}
