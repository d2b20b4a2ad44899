"""Part "cache": the cost of a packet with few and with many neighbours.

There are two pairs of hosts. In each pair, every packet has a source and a destination drawn at
random from COUNT addresses, so both hosts look up another neighbour for each packet. The sending
program has one processor, both daemons share another one: they always have work, and so sleep
equally rarely with few and with many neighbours.

In a host's network namespace, this file is also the program that fills the neighbour cache, sends
and receives:                  cache.py fill COUNT NET LINK-LAYER-ADDRESS
                               cache.py send COUNT SECONDS
                               cache.py receive
"""
import ctypes
import os
import pathlib
import random
import signal
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
NETS = ("10.64.0.0", "10.68.0.0")  # the address ranges of the two hosts
PREFIX = 14
PROTOCOL = 253  # for experiments (RFC 3692); not UDP, whose socket look-up depends on addresses
IP_PKTINFO = 8  # ip(7); not every Python version names it
SIZE = 26  # bytes of payload: the smallest Ethernet frame
BURST = 50  # packets
MESSAGE = 64  # bytes: struct mmsghdr
CONTROL = 28  # bytes: struct cmsghdr and struct in_pktinfo, which set the source address


def addresses(net, count):
    first = struct.unpack("!I", socket.inet_aton(net))[0]
    return [struct.pack("!I", first + 1 + number) for number in range(count)]


class Address(ctypes.Structure):
    """struct ibarp_address"""
    _fields_ = [("family", ctypes.c_int), ("bytes", ctypes.c_uint8 * 16)]


def fill(count, net, hardware):
    """Sets permanent entries: all these addresses belong to the other host."""
    library = ctypes.CDLL(str(pathlib.Path(hosts.program("ibarp")).parents[1] / "lib/libibarp.so.0"))
    library.ibarp_strerror.restype = ctypes.c_char_p
    handle, to = ctypes.c_void_p(), ctypes.create_string_buffer(64)

    def check(error):
        if error:
            raise SystemExit(library.ibarp_strerror(error).decode())
    check(library.ibarp_open(b"ib0", ctypes.byref(handle)))
    check(library.ibarp_parse_hardware(hardware.encode(), to))
    for address in addresses(net, count):
        entry = Address(socket.AF_INET, tuple(address.ljust(16, b"\0")))
        check(library.ibarp_set(handle, ctypes.byref(entry), to, 0))
    library.ibarp_close(handle)


def run_on(processor, pid):
    """Pins all threads of a process."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), {processor})


def messages(count, far, own):
    """Returns `count` struct mmsghdr with random sources and destinations, and the buffers that
    they point to, which have to live as long."""
    draw = random.Random(1)
    names = ctypes.create_string_buffer(b"".join(
        struct.pack("=HH4s8x", socket.AF_INET, 0, draw.choice(far)) for _ in range(count)))
    controls = ctypes.create_string_buffer(b"".join(
        struct.pack("=Qiii4s4s4x", CONTROL, socket.IPPROTO_IP, IP_PKTINFO, 0, draw.choice(own),
                    bytes(4)) for _ in range(count)))
    payload = ctypes.create_string_buffer(SIZE)
    piece = ctypes.create_string_buffer(struct.pack("=QQ", ctypes.addressof(payload), SIZE))
    headers = ctypes.create_string_buffer(b"".join(
        struct.pack("=QQQQQQQQ", ctypes.addressof(names) + 16 * number, 16,
                    ctypes.addressof(piece), 1,
                    ctypes.addressof(controls) + 32 * number, CONTROL, 0, 0)
        for number in range(count)))
    return headers, (names, controls, payload, piece)


def send(count, seconds):
    """Sends as fast as possible; the number of message objects does not depend on `count`."""
    run_on(min(os.sched_getaffinity(0)), os.getpid())
    own, far = (addresses(net, count) for net in NETS)
    headers, _buffers = messages(max(COUNTS), far, own)
    library, first = ctypes.CDLL(None, use_errno=True), 0
    with socket.socket(type=socket.SOCK_RAW, proto=PROTOCOL) as out:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            at = ctypes.c_void_p(ctypes.addressof(headers) + MESSAGE * first)
            if library.sendmmsg(out.fileno(), at, BURST, 0) < 0:
                raise OSError(ctypes.get_errno(), "sendmmsg")
            first = (first + BURST) % max(COUNTS)


def receive():
    """Opens a raw socket whose filter drops every packet. Without the socket, the kernel would answer
    each packet with an ICMP error."""
    drop, so_attach_filter = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0)), 26
    with socket.socket(type=socket.SOCK_RAW, proto=PROTOCOL) as sink:
        sink.setsockopt(socket.SOL_SOCKET, so_attach_filter,
                        struct.pack("@HP", 1, ctypes.addressof(drop)))
        print("ready", flush=True)
        signal.pause()


def start_pair(subnet, count):
    """Starts two hosts with `count` neighbour entries each; returns the path between them."""
    ends = [subnet.host(f"{end}-{count}") for end in ("from", "to")]
    for number, host in enumerate(ends):
        host.start("--poll", "event", "--neighbours", str(2 * max(COUNTS)),
                   address=f"10.44.0.{number + 1}/24")
        host.run("ip", "route", "add", "local", f"{NETS[number]}/{PREFIX}", "dev", "lo")
        host.run("ip", "route", "add", f"{NETS[1 - number]}/{PREFIX}", "dev", "ib0")
    for number, host in enumerate(ends):
        far = ends[1 - number].ibarp("info")["lladdr"]
        host.run(sys.executable, __file__, "fill", str(count), NETS[1 - number], far)
    wait_until(lambda: ends[0].reaches("10.44.0.2"), "the hosts reach each other")
    for host in ends:
        run_on(max(os.sched_getaffinity(0)), host.daemon.pid)
    listener = hosts.Process(ends[1].command(sys.executable, __file__, "receive"), ends[1].log, None)
    wait_until(lambda: "ready" in listener.output(), "the receiver has started")
    path = Path(f"{count:,} neighbours", *(host.namespace for host in ends), "10.44.0.2",
                [host.daemon.pid for host in ends])
    return path, ends, listener


def one_round(path, ends, count, seconds):
    def arrived():
        return ends[1].counters()["rx_packets"]
    before, spent = arrived(), path.cpu_time()
    ends[0].run(sys.executable, __file__, "send", str(count), str(seconds))
    path.add("ns of CPU a packet", (path.cpu_time() - spent) * 1e9 / (arrived() - before))


def measure(options):
    subnet, listeners = hosts.Subnet("--log", "warning"), []
    try:
        pairs = []
        for count in COUNTS:
            path, ends, listener = start_pair(subnet, count)
            pairs.append((path, ends, count))
            listeners.append(listener)
        for _ in range(options.rounds):
            for each in pairs:
                one_round(*each, options.seconds)
        return {"paths": {path.name: path.figures for path, _, _ in pairs},
                "bound": pairs[0][0].name, "rounds": options.rounds, "seconds": options.seconds}
    finally:
        for listener in listeners:
            listener.end()
        subnet.close()


def text(measured):
    return tables.ratios(measured) + "\n" + tables.medians(measured)


def pictures(*_):
    return {}


if __name__ == "__main__":
    {"fill": lambda count, net, hardware: fill(int(count), net, hardware),
     "receive": receive,
     "send": lambda count, seconds: send(int(count), int(seconds))}[sys.argv[1]](*sys.argv[2:])
