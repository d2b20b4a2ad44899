"""Part "roce": perftest's programs between two emulated RoCE ports (softib run --roce), in two network namespaces
whose interfaces are connected by a veth, beside UDP between the same: by iperf3, which leaves it to IP to take
datagrams apart, and with the segmentation offloads of the kernel (bench_udp)."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import tables
import verbs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "netns"))
import hosts  # noqa: E402
from hosts import wait_until  # noqa: E402
from softib_lab import host as lab  # noqa: E402

MTU = 9000  # of the interfaces: 4096 bytes of payload
ADDRESSES = {"a": "10.44.0.1", "b": "10.44.0.2"}
LARGE = ("--report_gbits", "-s", "65536", "-m", "4096")
STREAMS = {"ib_write_bw": LARGE, "ib_read_bw": LARGE, "ib_send_bw": LARGE}
EXCHANGES = {"ib_send_lat": ("-s", "64"), "ib_write_lat": ("-s", "64"), "ib_send_lat -c UD": ("-c", "UD", "-s", "64")}
BOUND = "UDP, no CRC"
BY_IPERF3 = "UDP by iperf3"
UDP_PORT, IPERF3_PORT = 5001, 5201
DATAGRAM = 65000  # of iperf3, bytes


class Ports:
    """Two hosts with a RoCE port each; a `with` block takes them down."""

    def __init__(self, softib):
        self.softib = softib

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.environment = {**os.environ, "SOFTIB_DIR": self.folder.name}
        self.hosts = {}
        for name in ADDRESSES:
            self.hosts[name] = lab.Host(f"ipoibd-{os.getpid()}-{name}", self.environment, self.softib.parent / "ibarp")
        self.hosts["a"].run("ip", "link", "add", "eth0", "mtu", str(MTU), "type", "veth", "peer", "name", "eth0", "mtu",
                            str(MTU), "netns", self.hosts["b"].namespace)
        for name, address in ADDRESSES.items():
            self.hosts[name].run("ip", "addr", "add", f"{address}/24", "dev", "eth0")
            self.hosts[name].run("ip", "link", "set", "eth0", "up")
        for host in self.hosts.values():
            wait_until(lambda of=host: of.has_carrier("eth0"), "the cable is there")
        return self

    def __exit__(self, *_):
        for host in self.hosts.values():
            host.remove()
        # The processes of the ports have gone with their last program, after some seconds.
        self.folder.cleanup()

    def command(self, name, program, *options):
        return self.hosts[name].command(self.softib, "run", "--roce", "eth0", "--", program, *options)

    def listens(self, name):
        return "LISTEN" in self.hosts[name].run("ss", "-Hlnt").stdout

    def play(self, program, *options):
        """Runs a server on "a" and its client on "b"; returns what the client has printed."""
        command = (program, "-d", "softib0", "-x", "0", "-F", *options)
        with tempfile.TemporaryFile("w+") as log:
            server = subprocess.Popen(self.command("a", *command), env=self.environment, stdout=log, stderr=log)
            wait_until(lambda: self.listens("a") or server.poll() is not None, "the server listens")
            client = subprocess.run(self.command("b", *command, ADDRESSES["a"]), env=self.environment, check=False,
                                    text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            server.wait()
            if client.returncode != 0:
                log.seek(0)
                raise SystemExit(f"{program}: {client.stdout}\n{log.read()}")
        return client.stdout

    def udp(self, program, seconds):
        """Returns Gb/s."""
        server = subprocess.Popen(self.hosts["a"].command(program, "receive", str(UDP_PORT)), text=True, stdout=subprocess.PIPE)
        server.stdout.readline()
        self.hosts["b"].run(program, "send", ADDRESSES["a"], str(UDP_PORT), str(seconds), patience=seconds + 30)
        return float(server.communicate()[0])

    def iperf3(self, seconds):
        """Returns the Gb/s that arrive."""
        server = subprocess.Popen(self.hosts["a"].command("iperf3", "-s", "-1"), stdout=subprocess.DEVNULL)
        wait_until(lambda: f":{IPERF3_PORT}" in self.hosts["a"].run("ss", "-Hlnt").stdout, "iperf3 listens")
        client = self.hosts["b"].run("iperf3", "-c", ADDRESSES["a"], "-u", "-b", "0", "-l", str(DATAGRAM), "-t",
                                     str(seconds), "-J", patience=seconds + 30)
        server.wait()
        done = json.loads(client.stdout)["end"]["sum"]
        return done["bits_per_second"] * (1 - done["lost_percent"] / 100) / 1e9


def play_all(ports, bench_udp, rounds, seconds):
    """Returns the figures of all rounds; in a round, each is measured in turn."""
    streams, exchanges = {}, {}
    for _ in range(rounds):
        streams.setdefault(BOUND, []).append(ports.udp(bench_udp, seconds))
        streams.setdefault(BY_IPERF3, []).append(ports.iperf3(seconds))
        for name, options in STREAMS.items():
            output = ports.play(verbs.program_of(name), *options, "-D", str(seconds), "-f", "0")
            streams.setdefault(name, []).append(verbs.of_bandwidth(output)[0])
        for name, options in EXCHANGES.items():
            exchanges.setdefault(name, []).append(
                verbs.of_latency(ports.play(verbs.program_of(name), "-n", str(verbs.MESSAGES), *options)))
    return {"streams": streams, "exchanges": exchanges}


def measure(options):
    with Ports(options.programs / "bin" / "softib") as ports:
        measured = play_all(ports, options.programs / "tests" / "bench_udp", options.rounds, options.seconds)
    return {"rounds": options.rounds, "seconds": options.seconds, **measured}


def text(measured):
    bound = statistics.median(measured["streams"][BOUND])
    streams = [[name, tables.number(statistics.median(speeds)), f"{statistics.median(speeds) / bound:.2f}"]
               for name, speeds in measured["streams"].items()]
    exchanges = [[name, tables.number(statistics.median(times)), tables.number(min(times))]
                 for name, times in measured["exchanges"].items()]
    return (tables.table(["64 KiB, interfaces of 9000", "Gb/s", f"of {BOUND}"], streams) + "\n"
            + tables.table(["64 bytes, polled", "us", "best round"], exchanges)
            + f"\nMedians of {measured['rounds']} rounds of {measured['seconds']} s in one run.\n")


def pictures(*_):
    return {}
