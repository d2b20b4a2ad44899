"""Sets up the measured paths, each between two network namespaces; a `with` block takes them down.

    veth      the kernel, no tunnel
    vxlan     the kernel's own tunnel, on the veth
    tun-pump  two TUN devices and a process that passes packets on unchanged: the upper bound of any
              tunnel between TUN devices
    fastd     a user-space tunnel with method "null", on the veth
    ipoibd    two daemons on their own emulated subnet, for each of the VARIANTS
"""
import contextlib
import pathlib
import re
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "netns"))
import hosts  # noqa: E402
from figures import Path  # noqa: E402
from hosts import wait_until  # noqa: E402

BOUND = "tun-pump"
MTU = 2044
VETH_MTU = 9000

# Variants of ipoibd: name, MTU of the subnet, further options of the daemons.
VARIANTS = (
    ("ipoibd", 2048, ()),
    ("ipoibd 4092", 4096, ()),
    ("ipoibd event", 2048, ("--poll", "event")),
    ("ipoibd busy", 2048, ("--poll", "busy")),
)


def fastd_configuration(number, keys):
    """Returns the configuration of end 1 or 2; `keys` has both ends' secret and public keys."""
    other = 3 - number
    return (f'mode tun; interface "fd0"; method "null"; mtu {MTU}; persist interface no;\n'
            f'bind 192.0.2.{number}:10000; secret "{keys[number]["Secret"]}"; log level warn;\n'
            f'peer "p" {{ key "{keys[other]["Public"]}"; remote 192.0.2.{other}:10000; }}\n')


def fastd_keys():
    output = subprocess.run(["fastd", "--generate-key"], check=True, capture_output=True, text=True)
    return dict(line.split(": ") for line in output.stdout.splitlines())


def start_pump(at_end, program, ends):
    """Starts the pump between two hosts; its TUN devices are their ib0, without addresses."""
    pump = hosts.Process([program, "ib0", *(end.namespace for end in ends)],
                         ends[0].subnet.folder / "pump.log", None)
    at_end.callback(pump.end)
    for end in ends:
        wait_until(end.link, "the pump has created its TUN")
        end.run("ip", "link", "set", "ib0", "mtu", str(MTU), "up")
    return pump


class Setting:
    def __init__(self, tun_pump):
        """`tun_pump` is the path of bench_tun_pump."""
        self.tun_pump = tun_pump
        self.at_end = contextlib.ExitStack()

    def __enter__(self):
        try:
            self.subnet = self.make_subnet()
            self.underlay = self.make_underlay()
        except BaseException:
            self.at_end.close()
            raise
        return self

    def __exit__(self, *_):
        self.at_end.close()

    def make_subnet(self, *options):
        """Starts a subnet; closing it takes down its hosts."""
        subnet = hosts.Subnet("--log", "warning", *options)
        self.at_end.callback(subnet.close)
        return subnet

    def start(self, host, *command):
        log = self.subnet.folder / f"{host.name}.{pathlib.Path(command[0]).name}.log"
        process = hosts.Process(host.command(*command), log, None)
        self.at_end.callback(process.end)
        return process

    def serve(self, host):
        """Starts an iperf3 server on the host."""
        self.start(host, "iperf3", "--server")
        wait_until(lambda: ":5201" in host.run("ss", "-ltn").stdout, "iperf3 listens")

    def ready(self, name, ends, address, *processes):
        wait_until(lambda: ends[0].reaches(address), f"{name} connects")
        path = Path(name, *(end.namespace for end in ends), address,
                    [process.pid for process in processes])
        self.at_end.callback(path.signal, signal.SIGCONT)  # a stopped process would not handle SIGTERM
        return path

    def make_underlay(self):
        """Creates the veth pair that other paths use."""
        left, right = self.subnet.host("left"), self.subnet.host("right")
        subprocess.run(["ip", "link", "add", "v0", "netns", left.namespace, "type", "veth", "peer",
                        "name", "v0", "netns", right.namespace], check=True)
        for number, host in enumerate((left, right), 1):
            host.run("ip", "link", "set", "v0", "mtu", str(VETH_MTU), "up")
            host.run("ip", "addr", "add", f"192.0.2.{number}/24", "dev", "v0")
        self.serve(right)
        return left, right

    def veth(self):
        return self.ready("veth", self.underlay, "192.0.2.2")

    def vxlan(self):
        for number, host in enumerate(self.underlay, 1):
            host.run("ip", "link", "add", "vx0", "type", "vxlan", "id", "1", "remote",
                     f"192.0.2.{3 - number}", "dstport", "4789", "dev", "v0")
            host.run("ip", "addr", "add", f"203.0.113.{number}/24", "dev", "vx0")
            host.run("ip", "link", "set", "vx0", "mtu", str(MTU), "up")
        return self.ready("vxlan", self.underlay, "203.0.113.2")

    def pump(self):
        ends = self.subnet.host("pumped-left"), self.subnet.host("pumped-right")
        process = start_pump(self.at_end, self.tun_pump, ends)
        for number, host in enumerate(ends, 1):
            host.run("ip", "addr", "add", f"10.46.0.{number}/24", "dev", "ib0")
        self.serve(ends[1])
        return self.ready(BOUND, ends, "10.46.0.2", process)

    def fastd(self):
        keys = {1: fastd_keys(), 2: fastd_keys()}
        processes = []
        for number, host in enumerate(self.underlay, 1):
            file = self.subnet.folder / f"fastd{number}.conf"
            file.write_text(fastd_configuration(number, keys), encoding="utf-8")
            processes.append(self.start(host, "fastd", "--config", str(file)))
        for number, host in enumerate(self.underlay, 1):
            wait_until(lambda: host.link("fd0"), "fastd has created its TUN")
            host.run("ip", "addr", "add", f"198.51.100.{number}/24", "dev", "fd0")
            host.run("ip", "link", "set", "fd0", "up")
        return self.ready("fastd", self.underlay, "198.51.100.2", *processes)

    def daemons(self, name, mtu, options, far_options=None):
        """Starts two daemons with these options, the second one with others if there are any; returns
        their hosts."""
        subnet = self.make_subnet("--mtu", str(mtu))
        word = re.sub(r"\W+", "-", name)
        ends = [subnet.host(f"{word}-{end}") for end in ("left", "right")]
        for number, (host, its) in enumerate(zip(ends, (options, far_options or options)), 1):
            host.start(*its, address=f"10.44.0.{number}/24")
        return ends

    def between(self, name, ends, address, daemons):
        """The path to `address`, that of the second end, by these daemons."""
        self.serve(ends[1])
        return self.ready(name, ends, address, *(host.daemon for host in daemons))

    def ipoibd(self, name, *daemons):
        """Two daemons, as of daemons()."""
        ends = self.daemons(name, *daemons)
        return self.between(name, ends, "10.44.0.2", ends)

    def variants(self):
        return [self.ipoibd(*variant) for variant in VARIANTS]
