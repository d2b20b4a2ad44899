"""Part "sockets": a TCP stream of iperf over RDMA sockets (librspreload) between two emulated HCAs, beside the same
program over loopback, veth and ipoibd, and the CPU time for a GiB of all processes that are needed for it."""
import contextlib
import pathlib
import resource
import statistics
import subprocess
import sys
import time

import tables
from figures import GIB
from setting import Setting

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "interop"))
from softib_subnet import PATIENCE, Subnet, rsocket_preload  # noqa: E402

BOUND = "ipoibd"
RETRY_INTERVAL = 0.1  # seconds until a client looks for its server again


def children_time():
    """Returns the CPU time of the children that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Way:
    """A server and a client of iperf, each below a command of its own, and the daemons between them."""

    def __init__(self, address, server, client, cpu_time=lambda: 0):
        self.address, self.server, self.client, self.cpu_time = address, server, client, cpu_time

    def stream(self, seconds):
        """Returns Gb/s, and the seconds of CPU time for a GiB."""
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        before = children_time() + self.cpu_time()
        server = self.server(["iperf", "-s", "-B", self.address], **quiet)
        try:
            sent, speed = self.run(seconds)
        finally:
            server.kill()
            server.wait()
        return speed / 1e9, (children_time() + self.cpu_time() - before) / (sent / GIB)

    def run(self, seconds):
        """Returns the bytes that the client has sent, and bits a second."""
        deadline = time.monotonic() + PATIENCE
        while True:
            output = self.client(["iperf", "-c", self.address, "-t", str(seconds), "-y", "C"])
            fields = output.strip().splitlines()[-1].split(",") if output.strip() else []
            if len(fields) > 8 and int(fields[7]) > 0:
                return int(fields[7]), int(fields[8])
            if time.monotonic() > deadline:
                raise SystemExit(f"iperf printed no result: {output}")
            time.sleep(RETRY_INTERVAL)


def between_hosts(near, far, address, path=None):
    """A way between two network namespaces."""
    def client(command):
        return subprocess.run(near.command(*command), check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True).stdout

    return Way(address, lambda command, **quiet: subprocess.Popen(far.command(*command), **quiet), client,
               path.cpu_time if path else lambda: 0)


def over_rdma(subnet):
    """A way between two HCAs; the subnet's process takes no part in it."""
    preloaded = rsocket_preload()
    return Way("127.77.0.1", lambda command, **quiet: subnet.start("a", *preloaded, *command, **quiet),
               lambda command: subnet.run("b", *preloaded, *command, check=False).stdout)


def measure(options):
    softib = options.programs / "bin" / "softib"
    with Setting(None) as setting, Subnet(softib, "--mtu", "4096", "--log", "warning") as subnet:
        near, far = setting.underlay
        near.run("ip", "link", "set", "lo", "up")
        ends = setting.daemons("ipoibd", 4096, ())
        path = setting.between("ipoibd", ends, "10.44.0.2", ends)
        subnet.run("a", "true")  # has the first address
        ways = {"ipoibd": between_hosts(*ends, "10.44.0.2", path), "veth": between_hosts(near, far, "192.0.2.2"),
                "loopback": between_hosts(near, near, "127.0.0.1"), "RDMA sockets": over_rdma(subnet)}
        measured = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, way in ways.items():
                with path.running() if name == "ipoibd" else contextlib.nullcontext():
                    measured[name].append(way.stream(options.seconds))
    return {"rounds": options.rounds, "seconds": options.seconds, "ways": measured}


def text(measured):
    medians = {name: [statistics.median(run[figure] for run in runs) for figure in (0, 1)]
               for name, runs in measured["ways"].items()}
    speed, cost = medians[BOUND]
    rows = [[name, tables.number(own[0]), f"{own[0] / speed:.2f}", tables.number(own[1]), f"{cost / own[1]:.2f}"]
            for name, own in medians.items()]
    return tables.table(["one stream of iperf", "Gb/s", "ratio", "CPU s/GiB", "efficiency, ratio"], rows) + (
        f"\nMedians of {measured['rounds']} rounds of {measured['seconds']} s in one run; MTU 4092 of the ipoibd, 9000 of "
        "the veth; the efficiency is GiB for a second of CPU time, beside ipoibd.\n")


def pictures(*_):
    return {}
