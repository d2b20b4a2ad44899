"""Part "idle": the cost of idle interfaces, and the time from start to carrier.

On an emulated subnet there are two hosts with one interface each, and two hosts with one interface
for each of PARTITIONS, of which all but one are idle.
"""
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
import tables  # noqa: E402
from hosts import wait_until  # noqa: E402

PARTITIONS = 32
IDLE_SECONDS = 10


def start_to_carrier(host):
    """Milliseconds from exec to ib0 being up; it is set up as soon as it exists."""
    with subprocess.Popen(host.command("ip", "monitor", "link"), stdout=subprocess.PIPE) as monitor:
        try:
            begin = time.monotonic()
            host.start(wait=False)
            seen, is_set = b"", False
            while not re.search(rb"ib0.*LOWER_UP", seen):
                if select.select([monitor.stdout], [], [], 0.01)[0]:
                    seen += os.read(monitor.stdout.fileno(), 65536)
                if b"ib0" in seen and not is_set:
                    is_set = host.run("ip", "link", "set", "ib0", "up", check=False).returncode == 0
                if time.monotonic() - begin > hosts.PATIENCE:
                    raise SystemExit(f"ib0 does not come up: {host.daemon.output()}")
            return (time.monotonic() - begin) * 1e3
        finally:
            monitor.kill()


def spent(pid):
    """Sums over all threads: voluntary context switches, and nanoseconds of CPU time."""
    wake_ups = run = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        wake_ups += int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)",
                                  (task / "status").read_text(), re.M).group(1))
        run += int((task / "schedstat").read_text().split()[0])
    return wake_ups, run


def idle_cost(host, interfaces):
    before = spent(host.daemon.pid)
    time.sleep(IDLE_SECONDS)
    after = spent(host.daemon.pid)
    each = IDLE_SECONDS * interfaces
    return (after[0] - before[0]) / each, (after[1] - before[1]) / 1e7 / each


def gbps(ends, network, seconds):
    done = ends[0].run("iperf3", "--client", f"10.44.{network}.2", "--time", str(seconds), "--json")
    return json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 1e9


def pair(subnet, network, start):
    """Starts two hosts that reach each other through ib0."""
    ends = [subnet.host(f"{name}{network}") for name in ("from", "to")]
    for number, host in enumerate(ends, 1):
        # With IPv6 they would send router solicitations.
        host.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        start(host)
        host.configure("ib0", f"10.44.{network}.{number}/24")
    wait_until(lambda: ends[0].reaches(f"10.44.{network}.2"), "the hosts reach each other")
    return ends


def set_all_up(host):
    for number in range(1, PARTITIONS):
        name = f"ib0.{0x8000 | number:04x}"
        wait_until(lambda: host.link(name) is not None, f"{name} is there")
        host.run("ip", "link", "set", name, "up")
        wait_until(lambda: host.has_carrier(name), f"{name} is up")


def measure_on(subnet, options):
    once = subnet.host("once")
    started = []
    for _ in range(options.rounds):
        started.append(start_to_carrier(once))
        once.daemon.end()
    one = pair(subnet, 1, lambda host: host.start())
    many = pair(subnet, 2, lambda host: host.start_all())
    for host in many:
        set_all_up(host)
    # A new address is announced twice.
    wait_until(lambda: many[0].counters()["announcements_sent"] > 1, "the address is announced")
    wake_ups, percent = idle_cost(many[0], PARTITIONS)
    servers = [hosts.Process(ends[1].command("iperf3", "--server"), ends[1].log, None)
               for ends in (one, many)]
    try:
        for ends in (one, many):
            wait_until(lambda: ":5201" in ends[1].run("ss", "-ltn").stdout, "iperf3 listens")
        alone, beside = [], []
        for _ in range(options.rounds):
            alone.append(gbps(one, 1, options.seconds))
            beside.append(gbps(many, 2, options.seconds))
    finally:
        for server in servers:
            server.end()
    return {"start to carrier, ms": started, "wake-ups of an idle interface in a second": [wake_ups],
            "an idle interface, % of a core": [percent], "TCP of a single interface, Gb/s": alone,
            f"TCP beside {PARTITIONS - 1} idle ones, Gb/s": beside,
            "ratio of these": [statistics.median(beside) / statistics.median(alone)]}


def measure(options):
    subnet = hosts.Subnet(*(f"--partition={number}=full" for number in range(1, PARTITIONS)))
    try:
        return measure_on(subnet, options)
    finally:
        subnet.close()


def text(measured):
    return tables.table(["what", "median"], [[what, tables.number(statistics.median(values))]
                                             for what, values in measured.items()])


def pictures(*_):
    return {}
