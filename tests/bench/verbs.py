"""Part "verbs": perftest's programs between two emulated HCAs, in two processes, beside a copy through
shared memory and a pipe between two processes (bench_copy); connections by the RDMA CM (cmtime, rping)."""
import pathlib
import re
import statistics
import subprocess
import sys
import time

import tables

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "interop"))
from softib_subnet import Subnet, is_locked, play, wait_for  # noqa: E402

SIZES = {2048: (2048, 64), 4096: (4096, 64)}  # by the subnet's MTU
POSTED = {"one by one": (), "in lists of 16": ("--post_list", "16")}
LARGE = ("-s", "65536")
STREAMS = {
    "ib_write_bw": LARGE,
    "ib_read_bw": LARGE,
    "ib_send_bw": LARGE,
    "ib_send_bw -c UC": ("-c", "UC", *LARGE),
    "ib_write_bw -q 100": ("-q", "100", *LARGE),
    "ib_write_bw -q 1000": ("-q", "1000", *LARGE),
    "ib_send_bw, 64 bytes, in lists of 16": ("-s", "64", "--post_list", "16"),
}
COPIES = {"cold": "memcpy of 1,000 blocks in turn", "direct": "one copy instead of two",
          "direct-cold": "one copy of 1,000 blocks in turn", "byte": "a byte through a pipe, not polled"}
EXCHANGES = {
    "ib_send_lat -c UD": ("-c", "UD", "-s", "64"),
    "ib_send_lat": ("-s", "64"),
    "ib_write_lat": ("-s", "64"),
    "ib_read_lat": ("-s", "64"),
    "ib_atomic_lat": (),
}
MESSAGES = 20000  # of which the latencies are the median
CONNECTIONS = 500  # of cmtime
ROUNDS_OF_RPING = 2000
CMTIME_SERVICE, RPING_SERVICE = 0x01060000 | 7471, 0x01060000 | 7174


class SoftPorts:
    """The interface of Subnet that play() needs, for programs on two ports of the kernel (rdma_rxe)."""

    DEVICES = {"a": "rxe0", "b": "rxe1"}

    @classmethod
    def start(cls, hca, program, *options, **more):
        return subprocess.Popen([program, "-d", cls.DEVICES[hca], *options], text=True, **more)

    @classmethod
    def run(cls, hca, program, *options, check=True):
        return subprocess.run([program, "-d", cls.DEVICES[hca], *options], check=check, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def of_bandwidth(output):
    """Returns Gb/s and millions of messages per second from the row below the headings."""
    row = re.search(r"^ *\d+ +\d+ +[\d.]+ +([\d.]+)\s+([\d.]+)", output, re.M)
    if row is None:
        raise SystemExit(f"perftest printed no result:\n{output}")
    return float(row[1]), float(row[2])


def of_latency(output):
    """Returns the median in microseconds from the row below the headings."""
    row = re.search(r"^ *\d+ +\d+ +[\d.]+ +[\d.]+ +([\d.]+)", output, re.M)
    if row is None:
        raise SystemExit(f"perftest printed no result:\n{output}")
    return float(row[1])


def of_cmtime(output):
    """Returns the time of a connection in microseconds: of all steps until it is established, and of the
    exchange of messages (connect)."""
    steps = dict(re.findall(r"^([a-z ]+?) *: .* ([\d.]+) *$", output, re.M))
    try:
        whole = sum(float(steps[step]) for step in
                    ("create id", "resolve addr", "resolve route", "create qp", "connect"))
    except KeyError as step:
        raise SystemExit(f"cmtime printed no time of {step}:\n{output}") from None
    return whole, float(steps["connect"])


def of_copies(output):
    """Returns {name: number} from the output of bench_copy."""
    return {name: float(speed) for name, speed in map(str.split, output.splitlines())}


def program_of(name):
    return re.match(r"\w+", name)[0]


def stream(subnet, name, seconds):
    """Returns the result of a row of STREAMS."""
    return of_bandwidth(play(subnet, program_of(name), "--report_gbits", "-D", str(seconds), "-f",
                             "0", *STREAMS[name])[1])


def measure_datagrams(softib, options):
    rows = []
    for mtu, sizes in SIZES.items():
        with Subnet(softib, "--mtu", str(mtu), "--log", "warning") as subnet:
            for size in sizes:
                for posted, more in POSTED.items():
                    runs = [of_bandwidth(play(subnet, "ib_send_bw", "-c", "UD", "--report_gbits",
                                              "-s", str(size), "-D", str(options.seconds), "-f",
                                              "0", *more)[0])
                            for _ in range(options.rounds)]
                    rows.append({"mtu": mtu, "size": size, "posted": posted,
                                 "Gb/s": [run[0] for run in runs],
                                 "Mmsg/s": [run[1] for run in runs]})
    return rows


def measure_connections(softib, options):
    """Returns the figures of all rounds; in a round, each is measured in turn."""
    copies, streams, exchanges = {}, {}, {}
    with Subnet(softib, "--mtu", "4096", "--log", "warning") as subnet:
        for _ in range(options.rounds):
            output = subprocess.run([options.programs / "tests" / "bench_copy", str(options.seconds)],
                                    check=True, capture_output=True, text=True).stdout
            for name, number in of_copies(output).items():
                kind = exchanges if name == "byte" else copies
                kind.setdefault(COPIES.get(name, name), []).append(number)
            for name in STREAMS:
                streams.setdefault(name, []).append(stream(subnet, name, options.seconds))
            for name, more in EXCHANGES.items():
                _, client = play(subnet, program_of(name), "-n", str(MESSAGES), *more)
                exchanges.setdefault(name, []).append(of_latency(client))
    return {"copies": copies, "streams": streams, "exchanges": exchanges}


def serve(subnet, service, *command):
    """Starts a server of librdmacm on HCA "a", which has node 1."""
    services = subnet.folder / "default/node/1/services"
    server = subnet.start("a", *command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(command[0], lambda: services.exists() and is_locked(services, service))
    return server


def cmtime(subnet, connections):
    """See of_cmtime()."""
    server = serve(subnet, CMTIME_SERVICE, "cmtime")
    done = subnet.run("b", "cmtime", "-s", "127.77.0.1", "-c", str(connections))
    server.kill()
    server.wait()
    return of_cmtime(done.stdout)


def rping(subnet, rounds):
    """Returns the seconds that a client takes."""
    begin = time.monotonic()
    subnet.run("b", "rping", "-c", "-S", "64", "-C", str(rounds), "-a", "127.77.0.1")
    return time.monotonic() - begin


def measure_set_up(softib, options):
    """Returns microseconds: of a connection, and of a round of rping, which is two messages, a READ and
    two more, a WRITE, each of which wakes the other program."""
    times = {}
    with Subnet(softib, "--log", "warning") as subnet:
        for _ in range(options.rounds):
            whole, connect = cmtime(subnet, CONNECTIONS)
            server = serve(subnet, RPING_SERVICE, "rping", "-s", "-P", "-S", "64")
            exchange = (rping(subnet, ROUNDS_OF_RPING + 1) - rping(subnet, 1)) / ROUNDS_OF_RPING * 1e6
            server.kill()
            server.wait()
            for name, took in (("cmtime, all steps", whole), ("cmtime, connect", connect),
                               ("a round of rping", exchange)):
                times.setdefault(name, []).append(took)
    return times


def measure(options):
    softib = options.programs / "bin" / "softib"
    return {"rounds": options.rounds, "seconds": options.seconds,
            "datagrams": measure_datagrams(softib, options),
            **measure_connections(softib, options), "set_up": measure_set_up(softib, options)}


def datagrams_text(rows):
    return tables.table(
        ["ib_send_bw -c UD, posted", "MTU", "bytes", "Gb/s", "million messages/s"],
        [[row["posted"], row["mtu"], row["size"], tables.number(statistics.median(row["Gb/s"])),
          tables.number(statistics.median(row["Mmsg/s"]))] for row in rows])


def streams_text(measured):
    """Ratios to the copy through shared memory."""
    bound = statistics.median(measured["copies"]["memcpy"])
    rows = []
    for name, speeds in measured["copies"].items():
        speed = statistics.median(speeds)
        rows.append([name, tables.number(speed), f"{speed / bound:.2f}", "-"])
    for name, runs in measured["streams"].items():
        speed = statistics.median(run[0] for run in runs)
        messages = statistics.median(run[1] for run in runs)
        rows.append([name, tables.number(speed), f"{speed / bound:.2f}", tables.number(messages)])
    return tables.table(["64 KiB, two processes", "Gb/s", "ratio", "million messages/s"], rows)


def exchanges_text(exchanges):
    medians = {name: statistics.median(runs) for name, runs in exchanges.items()}
    bound = medians["ib_send_lat -c UD"]
    return tables.table(["64 bytes, polled", "us", "ratio"],
                        [[name, tables.number(median), f"{median / bound:.2f}"]
                         for name, median in medians.items()])


def set_up_text(times):
    return tables.table(["RDMA CM", "us", "per second"],
                        [[name, tables.number(statistics.median(runs)),
                          tables.number(1e6 / statistics.median(runs))] for name, runs in times.items()])


def text(measured):
    return "\n".join([
        datagrams_text(measured["datagrams"]), streams_text(measured),
        exchanges_text(measured["exchanges"]),
        *([set_up_text(measured["set_up"])] if "set_up" in measured else []),  # not in older results
        f"Medians of {measured['rounds']} rounds of {measured['seconds']} s, or of {MESSAGES} "
        "messages, in one run; ratios to memcpy and to datagrams.\n"])


def pictures(*_):
    return {}
