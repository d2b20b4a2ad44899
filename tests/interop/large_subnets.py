#!/usr/bin/env python3
"""large_subnets.py SOFTIB [K,HOSTS]...: what subnets of many switches cost: three-level fat trees of switches with
K ports (5/4 K^2 switches, K^3/2 cables between them) and HOSTS hosts. Prints the rows of docs/performance.md.

Usage: large_subnets.py SOFTIB [K,HOSTS]...
"""
import itertools
import os
import pathlib
import sys
import tempfile
import time

from opensm import OpenSm
from softib_subnet import Subnet, need, wait_for

SIZES = ["10,128", "20,512", "28,1023"]
PATIENCE = 900
TICKS = os.sysconf("SC_CLK_TCK")
COLUMNS = ("switches", "hosts", "cables", "subnet", "until", "s", "processor s of softib", "MiB", "MiB of file")


def net(k, hosts):
    """Returns a net file: the tree of `softib subnet --topology fat-tree:K`, with fewer hosts, evenly."""
    half, cables, switches = k // 2, {}, []

    def connect(one, other):
        cables.setdefault(one[0], []).append((one[1], *other))
        cables.setdefault(other[0], []).append((other[1], *one))

    for pod, i in itertools.product(range(k), range(half)):
        number = pod * half + i + 1
        for j in range(half):
            connect((f"leaf-{number}", half + 1 + j), (f"spine-{pod * half + j + 1}", i + 1))
            connect((f"spine-{number}", half + 1 + j), (f"core-{i * half + j + 1}", pod + 1))
    switches = list(cables)
    for host in range(hosts):
        leaf, at = host % (k * half) + 1, host // (k * half) + 1
        assert at <= half, "too many hosts"
        connect((f"host-{host + 1}", 1), (f"leaf-{leaf}", at))
    lines = []
    for node, ends in cables.items():
        lines.append(f'{"Switch " + str(k) if node in switches else "Ca 1"} "{node}"')
        lines += [f'[{port}] "{other}"[{other_port}]' for port, other, other_port in sorted(ends)] + [""]
    return "\n".join(lines), len(switches), k * half * half * 2


def processor_time(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Rows:
    def __init__(self, subnet, *size):
        self.subnet, self.size = subnet, size
        self.begin, self.before = 0, 0

    def start(self):
        self.begin, self.before = time.monotonic(), processor_time(self.subnet.process.pid)

    def add(self, kind, what):
        took = time.monotonic() - self.begin
        status = pathlib.Path(f"/proc/{self.subnet.process.pid}/status").read_text(encoding="ascii")
        memory = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")) // 1024
        file = max(path.stat().st_size for path in self.subnet.folder.glob("*/fabric")) // 2**20
        used = processor_time(self.subnet.process.pid) - self.before
        print("|", " | ".join(map(str, (*self.size, kind, what, f"{took:.2f}", f"{used:.2f}", memory, file))), "|",
              flush=True)


def measure(softib, k, hosts, folder):
    text, switches, cables = net(k, hosts)
    path = folder / "net"
    path.write_text(text, encoding="ascii")
    for options in ((), ("--sm", "none")):
        begin = time.monotonic()
        with Subnet(softib, *options, "--topology", str(path)) as subnet:
            rows = Rows(subnet, switches, hosts, cables)
            rows.begin = begin
            kind = "external SM" if options else "own SM"
            rows.add(kind, "start")
            if options:
                rows.start()
                manager = OpenSm(subnet, "host-1", options="routing_engine updn\nsweep_interval 0\n", until="")
                wait_for("SUBNET UP", lambda: "SUBNET UP" in manager.output(), PATIENCE)
                wait_for("all ports", lambda: all(
                    node["state"] == "active" for node in subnet.nodes().values()), PATIENCE)
                rows.add(kind, "first sweep of OpenSM")
            routed = "tables configured on all switches"
            count = manager.output().count(routed) if options else 0
            rows.start()
            subnet.softib("set", "switch", "core-1", "absent")
            if options:
                wait_for("OpenSM to route", lambda: manager.output().count(routed) > count, PATIENCE)
            rows.add(kind, "routes without a core switch")
            rows.start()
            subnet.softib("show", "--json")
            rows.add(kind, "softib show")


def main():
    need("opensm")
    print("|", " | ".join(COLUMNS), "|")
    print("|", " | ".join("---" for _ in COLUMNS), "|")
    with tempfile.TemporaryDirectory(prefix="large-subnets-") as folder:
        for size in sys.argv[2:] or SIZES:
            measure(sys.argv[1], *map(int, size.split(",")), pathlib.Path(folder))


main()
