"""Part "cache": what a packet costs among few neighbours and among many.

Two couples of hosts. In each, every packet goes from one of so many addresses to one of as many, all
drawn at random, so the caches of both hosts are asked for another neighbour each time.

In a host's network namespace, this file is also the program that fills the interface's cache, and
the one that sends:   cache.py fill COUNT NET LINK-LAYER-ADDRESS
                      cache.py send COUNT SECONDS
"""
import ctypes
import pathlib
import random
import socket
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "netns"))
import hosts  # noqa: E402
import tables  # noqa: E402
from figures import Path  # noqa: E402
from hosts import wait_until  # noqa: E402

COUNTS = (10, 100_000)
NETS = ("10.64.0.0", "10.68.0.0")  # where the addresses of either host begin
PREFIX = 14
DISCARD = 9  # UDP port
IP_PKTINFO = 8  # ip(7); Python does not name it everywhere
SIZE = 18  # octets of payload: the smallest frame of an Ethernet
LOOK_AT_CLOCK = 1000  # packets
RECEIVER = "import socket, time; s = socket.socket(type=socket.SOCK_DGRAM); " \
           f"s.bind(('', {DISCARD})); print('ready', flush=True); time.sleep(1e6)"


def addresses(net, count):
    first = struct.unpack("!I", socket.inet_aton(net))[0]
    return [struct.pack("!I", first + 1 + number) for number in range(count)]


class Address(ctypes.Structure):
    """struct ibarp_address"""
    _fields_ = [("family", ctypes.c_int), ("octets", ctypes.c_uint8 * 16)]


def fill(count, net, hardware):
    """Permanent entries: the far host has all of these addresses."""
    library = ctypes.CDLL(str(pathlib.Path(hosts.program("ibarp")).parents[1] / "lib/libibarp.so.0"))
    library.ibarp_strerror.restype = ctypes.c_char_p
    handle, to = ctypes.c_void_p(), ctypes.create_string_buffer(64)

    def check(error):
        if error:
            raise SystemExit(library.ibarp_strerror(error).decode())
    check(library.ibarp_open(b"ib0", ctypes.byref(handle)))
    check(library.ibarp_parse_hardware(hardware.encode(), to))
    for octets in addresses(net, count):
        entry = Address(socket.AF_INET, tuple(octets.ljust(16, b"\0")))
        check(library.ibarp_set(handle, ctypes.byref(entry), to, 0))
    library.ibarp_close(handle)


def send(count, seconds):
    """As fast as it goes; the packets are as many different objects whatever the count."""
    draw = random.Random(1)
    own, far = (addresses(net, count) for net in NETS)
    packets = []
    for _ in range(max(COUNTS)):
        source = struct.pack("=i4s4s", 0, draw.choice(own), bytes(4))
        packets.append(([(socket.IPPROTO_IP, IP_PKTINFO, source)],
                        (socket.inet_ntoa(draw.choice(far)), DISCARD)))
    payload, begin = [bytes(SIZE)], 0
    with socket.socket(type=socket.SOCK_DGRAM) as out:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for control, to in packets[begin:begin + LOOK_AT_CLOCK]:
                out.sendmsg(payload, control, 0, to)
            begin = (begin + LOOK_AT_CLOCK) % len(packets)


def couple(subnet, count):
    """Two hosts that know one another under so many addresses each, and a path between them."""
    ends = [subnet.host(f"{end}-{count}") for end in ("from", "to")]
    for number, host in enumerate(ends):
        host.start("--poll", "event", "--neighbours", str(2 * max(COUNTS)),
                   address=f"10.44.0.{number + 1}/24")
        host.run("ip", "route", "add", "local", f"{NETS[number]}/{PREFIX}", "dev", "lo")
        host.run("ip", "route", "add", f"{NETS[1 - number]}/{PREFIX}", "dev", "ib0")
    for number, host in enumerate(ends):
        far = ends[1 - number].ibarp("info")["lladdr"]
        host.run(sys.executable, __file__, "fill", str(count), NETS[1 - number], far)
    wait_until(lambda: ends[0].reaches("10.44.0.2"), "they reach each other")
    listener = hosts.Process(ends[1].command(sys.executable, "-c", RECEIVER), ends[1].log, None)
    wait_until(lambda: "ready" in listener.output(), "packets have somebody to go to")
    path = Path(f"{count:,} neighbours", *(host.namespace for host in ends), "10.44.0.2",
                [host.daemon.pid for host in ends])
    return path, ends, listener


def one_round(path, ends, count, seconds):
    def arrived():
        return ends[1].ibarp("stats")["counters"]["rx_packets"]
    before, spent = arrived(), path.cpu_time()
    ends[0].run(sys.executable, __file__, "send", str(count), str(seconds))
    path.add("ns of CPU a packet", (path.cpu_time() - spent) * 1e9 / (arrived() - before))


def measure(options):
    subnet, listeners = hosts.Subnet("--log", "warning"), []
    try:
        couples = []
        for count in COUNTS:
            path, ends, listener = couple(subnet, count)
            couples.append((path, ends, count))
            listeners.append(listener)
        for _ in range(options.rounds):
            for each in couples:
                one_round(*each, options.seconds)
        return {"paths": {path.name: path.figures for path, _, _ in couples},
                "bound": couples[0][0].name, "rounds": options.rounds, "seconds": options.seconds}
    finally:
        for listener in listeners:
            listener.end()
        subnet.close()


def text(measured):
    return tables.ratios(measured)


def pictures(*_):
    return {}


if __name__ == "__main__":
    {"fill": lambda count, net, hardware: fill(int(count), net, hardware),
     "send": lambda count, seconds: send(int(count), int(seconds))}[sys.argv[1]](*sys.argv[2:])
