#!/usr/bin/env python3
"""What interfaces cost that carry nothing, and how soon one carries something.

Usage: interfaces.py [--programs DIR] [--partitions N] [--rounds N] [--seconds N] [--idle N] [--json FILE]

Hosts on an emulated subnet, two of them with one interface and two with one for each of N partitions,
all but one idle. Prints and writes: milliseconds from the start of the daemon to an interface that is
up; how often an idle daemon wakes and what it takes of a processor, for each interface; TCP through
the busy interface, and what part that is of TCP where there is no other one. Needs root.
"""
import argparse
import json
import os
import pathlib
import re
import select
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "netns"))
import hosts  # noqa: E402
from hosts import wait_until  # noqa: E402


def start_to_carrier(host):
    """Milliseconds from exec to ib0 being up; somebody sets it up as soon as it is there."""
    with subprocess.Popen(host.command("ip", "monitor", "link"), stdout=subprocess.PIPE) as monitor:
        try:
            begin = time.monotonic()
            host.start(wait=False)
            seen = b""
            while not re.search(rb"ib0.*LOWER_UP", seen):
                if not select.select([monitor.stdout], [], [], hosts.PATIENCE)[0]:
                    raise SystemExit(f"ib0 does not come up: {host.daemon.output()}")
                seen += os.read(monitor.stdout.fileno(), 65536)
                if b"ib0" in seen:
                    host.run("ip", "link", "set", "ib0", "up")
            took = time.monotonic() - begin
        finally:
            monitor.kill()
    return took * 1e3


def spent(pid):
    """Of all threads: times that they went to sleep, and nanoseconds that they ran."""
    wake_ups = run = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        wake_ups += int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)",
                                  (task / "status").read_text(), re.M).group(1))
        run += int((task / "schedstat").read_text().split()[0])
    return wake_ups, run


def idle(host, interfaces, seconds):
    before = spent(host.daemon.pid)
    time.sleep(seconds)
    after = spent(host.daemon.pid)
    each = seconds * interfaces
    return {"wake_ups_per_second": (after[0] - before[0]) / each,
            "percent_of_a_core": (after[1] - before[1]) / 1e7 / each}


def gbps(host, address, seconds):
    done = host.run("iperf3", "--client", address, "--time", str(seconds), "--json")
    return json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 1e9


def pair(subnet, network, start):
    """Two hosts that reach each other through ib0, and an iperf3 that listens."""
    couple = [subnet.host(f"{name}{network}") for name in ("from", "to")]
    for number, host in enumerate(couple, 1):
        host.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        start(host)
        host.configure("ib0", f"10.44.{network}.{number}/24")
    wait_until(lambda: couple[0].reaches(f"10.44.{network}.2"), "they reach each other")
    couple[1].run("iperf3", "--server", "--daemon",
                  "--pidfile", str(subnet.folder / f"iperf{network}.pid"))
    return couple


def measure(options):
    others = [f"--partition={number}=full" for number in range(1, options.partitions)]
    subnet = hosts.Subnet(*others)
    try:
        once = subnet.host("once")
        started = []
        for _ in range(options.rounds):
            started.append(start_to_carrier(once))
            once.daemon.end()
        one = pair(subnet, 1, lambda host: host.start())
        many = pair(subnet, 2, lambda host: host.start_all())
        for host in many:
            for number in range(1, options.partitions):
                name = f"ib0.{0x8000 | number:04x}"
                wait_until(lambda: host.link(name) is not None, f"{name} is there")
                host.run("ip", "link", "set", name, "up")
                wait_until(lambda: host.has_carrier(name), f"{name} is up")
        time.sleep(3)  # for what is said again when an interface is new
        at_rest = idle(many[0], options.partitions, options.idle)
        speeds = {"one": [], "many": []}
        for _ in range(options.rounds):
            speeds["one"].append(gbps(one[0], "10.44.1.2", options.seconds))
            speeds["many"].append(gbps(many[0], "10.44.2.2", options.seconds))
    finally:
        for pidfile in subnet.folder.glob("iperf*.pid"):
            os.kill(int(pidfile.read_text().rstrip("\0\n")), 15)
        subnet.close()
    alone, beside = (statistics.median(speeds[which]) for which in ("one", "many"))
    return {"start_to_carrier_ms": statistics.median(started), "partitions": options.partitions,
            "idle": at_rest, "tcp_gbps_alone": alone, "tcp_gbps_beside_idle": beside,
            "ratio": beside / alone, "all": {"started": started, **speeds}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default=hosts.BIN)
    parser.add_argument("--partitions", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--idle", type=int, default=10)
    parser.add_argument("--json")
    options = parser.parse_args()
    hosts.BIN = os.path.abspath(options.programs)
    found = measure(options)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({key: value for key, value in found.items() if key != "all"}, indent=1))


if __name__ == "__main__":
    main()
