"""What is measured of a path between two network namespaces, round by round.

An iperf3 server listens at the path's address. A figure of one run says little, the machine decides
it; what it is to another path's in the same run says much. So a round measures each figure on all
paths in turn, and all rounds are kept.
"""
import contextlib
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess

GIB = 1 << 30
TICK = os.sysconf("SC_CLK_TCK")
TRIES = 3  # of iperf3
ANSWERS = 10  # tries of a second each, until a path answers after it stood still


class Path:
    """From one namespace to an address in another; `processes` are those that carry it."""

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

    def stand_still(self):
        """A process that polls would take a processor from all other paths."""
        self.signal(signal.SIGSTOP)

    @contextlib.contextmanager
    def awake(self):
        """Stands still before and after."""
        self.signal(signal.SIGCONT)
        try:
            self.run("ping", "-n", "-c", "1", "-w", str(ANSWERS), self.address)
            yield
        finally:
            self.stand_still()

    def cpu_time(self):
        """Seconds that its processes have had."""
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
        """Again when a busy machine has cut its control connection short: then it has no end."""
        for _ in range(TRIES):
            said = json.loads(self.run("iperf3", "--client", self.address, "--time", str(seconds),
                                       "--json", *options))
            if "cpu_utilization_percent" in said["end"]:
                return said["end"]
        raise SystemExit(f"{self.name}: iperf3: {said.get('error', 'did not come to an end')}")


def tcp(path, seconds):
    before = path.cpu_time()
    received = path.iperf(seconds)["sum_received"]
    path.add("TCP Gb/s", received["bits_per_second"] / 1e9)
    if path.processes:
        path.add("CPU s/GiB", (path.cpu_time() - before) / (received["bytes"] / GIB))


def tcp_of_many(path, seconds):
    received = path.iperf(seconds, "--parallel", "8")["sum_received"]
    path.add("8 streams Gb/s", received["bits_per_second"] / 1e9)


def udp(path, seconds, size):
    end = path.iperf(seconds, "--udp", "--bitrate", "0", "--length", str(size))["sum"]
    path.add(f"UDP {size} kpps", (end["packets"] - end["lost_packets"]) / end["seconds"] / 1e3)


def udp_1400(path, seconds):
    udp(path, seconds, 1400)


def udp_64(path, seconds):
    udp(path, seconds, 64)


def ping(path, _):
    said = path.run("ping", "-n", "-c", "600", "-i", "0.002", path.address)
    path.add("RTT us", 1000 * statistics.median(map(float, re.findall(r"time=([\d.]+)", said))))


ALL = (tcp, tcp_of_many, udp_1400, udp_64, ping)


def measure(paths, rounds, seconds, figures=ALL):
    """Says after each round what a stream of TCP made; returns {path: {figure: [value]}}."""
    for path in paths:
        path.stand_still()
    for number in range(1, rounds + 1):
        for figure in figures:
            for path in paths:
                with path.awake():
                    figure(path, seconds)
        print(f"round {number}: " + ", ".join(
            f"{path.name} {path.figures['TCP Gb/s'][-1]:.3g} Gb/s" for path in paths), flush=True)
    return {path.name: path.figures for path in paths}
