"""What a hostile host tries, one attack after the other; docs/security.md says what each achieves.

These attackers take part: a program with verbs on an HCA of its own (hostile_host.cpp), a process that
may use the sockets and files of the emulated subnet (hostile_process.cpp), a user of the victim's
machine, a station behind an Ethernet interface, and a host that takes packets slowly or joins groups.
All of them send at a limited rate. Without that limit an attacker on the same machine would take a
processor from the victim, whatever the victim does with his messages.
"""

import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import signal
import sys
import threading
import typing

import hosts
from hosts import wait_until

# Messages per second, by what the victim has to do for one.
DATAGRAMS, MADS, CONNECTIONS, REQUESTS, BROADCASTS = 5000, 2000, 500, 5000, 2000
REPORTS, MEMBERSHIPS_CHANGED = 100, 200
BEGUN = "begun"  # what a program prints that has had an effect
MANY_GROUPS = 64

# What each script has first: its arguments, and turns that keep the rate.
TURNS = """
import os, socket, sys, time
target, rate, count = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
def turns():
    begin, done = time.monotonic(), 0
    while done < count:
        due = min(count, int((time.monotonic() - begin) * rate))
        while done < due:
            yield done
            done += 1
        time.sleep(0.002)
"""
# Messages of one byte that carry two descriptors, each on a connection of its own.
DESCRIPTORS = TURNS + """
with open('/dev/null') as one, open('/dev/null') as two:
    for _ in turns():
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
            peer.connect(target)
            socket.send_fds(peer, [b'\\2'], [one.fileno(), two.fileno()])
"""
# Connections that stay, up to 256, with a message of an unknown kind on each when it is closed.
CONNECTS = TURNS + """
peers = []
for _ in turns():
    peers.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    peers[-1].connect(target)
    if len(peers) > 256:
        peers[0].send(b'\\xff')
        peers.pop(0).close()
"""
# Requests to a control socket, pipelined on as many connections as the server permits.
ASKS = TURNS + """
peers = [socket.socket(socket.AF_UNIX) for _ in range(64)]
for peer in peers:
    peer.connect(target)
    peer.setblocking(False)
for number in turns():
    peer = peers[number % len(peers)]
    try:
        peer.send(b'{"op":"list"}\\n')
        peer.recv(1 << 16)
    except BlockingIOError:
        continue
    except OSError:
        peers.remove(peer)
"""
# Broadcasts as large as a packet of the link.
SHOUTS = TURNS + """
speaker = socket.socket(type=socket.SOCK_DGRAM)
speaker.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
speaker.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, target.encode())
for _ in turns():
    speaker.sendto(bytes(1900), ('255.255.255.255', 9))
"""

# A sender whose ring does not matter: it repeats it, and never reads what the receiver sends. Up to 256
# such connections stay, each with an answer that is not read.
RINGS = TURNS + """
import fcntl
ring = os.memfd_create('ring', os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
os.ftruncate(ring, 4096 + (1 << 19))
fcntl.fcntl(ring, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
peers = []
for number in turns():
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.connect(target)
    try:
        for message in b'\\3\\0\\0' + (b'\\3' if number % 2 else b''):  # MessageKind: ring, wakeup
            socket.send_fds(peer, [bytes([message])], [ring] if message == 3 else [])
    except BrokenPipeError:
        pass  # it has been disconnected already
    peers.append(peer)
    if len(peers) > 256:
        peers.pop(0).close()
"""
# A read lease on a file that replaces another one, since nobody has it open for writing. Taken again
# whenever it was lost. SIGIO says that somebody opens the file.
LEASES = """
import fcntl, os, signal, sys, time
signal.signal(signal.SIGIO, lambda *_: print('begun', flush=True))
os.unlink(sys.argv[1])
file = os.open(sys.argv[1], os.O_RDONLY | os.O_CREAT)
while True:
    try:
        if fcntl.fcntl(file, fcntl.F_GETLEASE) == fcntl.F_UNLCK:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            print('leased', flush=True)
    except BlockingIOError:
        pass  # somebody waits for its end
    time.sleep(0.01)
"""
# Frames of stations, on the Ethernet interface itself.
FRAMES = TURNS + """
import random, struct
frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
frames.bind((target, 0))
"""
# ARP probes for addresses that nobody has, under 500 Ethernet addresses.
STATION_PROBES = FRAMES + """
for number in turns():
    mac = struct.pack('!HI', 0x0200, 0x20000 + number % 500)
    wanted = struct.pack('!I', 0x0a2c4000 + number % 0x4000)
    frames.send(bytes([255] * 6) + mac + bytes.fromhex('0806000108000604' '0001') + mac + bytes(10) + wanted)
"""
# Reports of IGMPv3, each of 128 new groups (RFC 3376, 4.2).
STATION_GROUPS = FRAMES + """
def checksum(data):
    total = sum(struct.unpack(f'!{len(data) // 2}H', data))
    total = (total & 0xffff) + (total >> 16)
    return struct.pack('!H', ~(total + (total >> 16)) & 0xffff)
def filled(data, offset):
    return data[:offset] + checksum(data) + data[offset + 2:]
for _ in turns():
    records = b''.join(struct.pack('!BBHI', 4, 0, 0, 0xef800000 + random.getrandbits(23)) for _ in range(128))
    report = filled(struct.pack('!BBHHH', 0x22, 0, 0, 0, 128) + records, 2)
    head = struct.pack('!BBHHHBBH', 0x46, 0xc0, 24 + len(report), 0, 0, 1, 2, 0)
    head += socket.inet_aton('10.44.200.1') + socket.inet_aton('224.0.0.22') + bytes.fromhex('94040000')
    frames.send(bytes.fromhex('01005e000016' '020000030001' '0800') + filled(head, 10) + report)
"""
# Memberships of an ordinary user, 20 on each socket (net.ipv4.igmp_max_memberships): 1,100 at once, of
# which the oldest ones are replaced.
MEMBERSHIPS = TURNS + """
import collections, struct
index, members = socket.if_nametoindex(target), collections.deque()
def join(number):
    if number % 20 == 0:
        members.append(socket.socket(type=socket.SOCK_DGRAM))
    request = struct.pack('!I4x', 0xef400000 + number) + struct.pack('@i', index)
    members[-1].setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
for number in range(1100):
    join(number)
for number in turns():
    join(1100 + number)
    if number % 20 == 0:
        members.popleft().close()
"""


@dataclasses.dataclass(frozen=True)
class Attack:
    name: str
    what: str
    rate: int  # messages a second
    # A context manager: (scene, rate, count) -> the process that sends them. It waits for an effect that
    # no counter shows.
    start: typing.Callable
    rises: tuple = ()  # counters that show the effect
    at_station: bool = False  # the victim has an Ethernet interface
    to_broadcasts: bool = False  # the victim broadcasts, which it would without the attack, too
    measured: str = "TCP"  # what scripts/bench compares; see tests/bench/hostile.py


class Scene:
    """The victim, a neighbour with which it exchanges packets, and a third host, which is hostile."""

    NUMBERS = itertools.count()  # of their logs

    def __init__(self, victim, neighbour, hostile):
        self.victim, self.neighbour, self.hostile = victim, neighbour, hostile
        self.subnet = victim.subnet
        self.addresses = (*victim.addresses()[:1], *neighbour.addresses()[:1], victim.addresses("inet6")[0])
        # Later than IPv4: the kernel first looks for duplicates.
        wait_until(lambda: neighbour.reaches(self.addresses[-1], "-I", "ib0"),
                   "the victim has its IPv6 address")
        self.info = victim.ibarp("info")
        node = self.node(self.victim)
        process = node["processes"][0]
        self.socket = self.folder(node) / str(process["slot"])  # of the victim's process
        # The high half of the transaction ids of its requests: softib/core/mad_route.hpp.
        self.tid = ((node["node"] << 6 | process["slot"]) << 8 | process["epoch"]) << 8

    def node(self, host):
        return self.subnet.nodes()[host.name]

    def folder(self, node):
        return self.subnet.folder / "default" / "node" / str(node["node"])

    def counters(self):
        """Returns the victim's counters; those of its emulated HCA begin with "hca ", that of the SM
        with "sm "."""
        nodes = self.subnet.nodes()
        of_nodes = {f"{short} {name}": value
                    for short, node in (("hca", self.victim.name), ("sm", "softib-sm"))
                    for name, value in nodes[node]["counters"].items()}
        return {**self.victim.counters(), **of_nodes}

    def groups(self):
        """Returns how many multicast groups the subnet has."""
        return len(json.loads(self.subnet.softib("show", "--json"))["groups"])

    def descriptors(self):
        """Returns how many descriptors the victim's daemon has."""
        return len(os.listdir(f"/proc/{self.victim.daemon.pid}/fd"))

    @contextlib.contextmanager
    def process(self, command):
        log = self.subnet.folder / f"attack{next(self.NUMBERS)}.out"
        process = hosts.Process(command, log, self.subnet.environment)
        try:
            yield process
        finally:
            process.end()

    def on_hca(self, hca, program, *arguments):
        path = os.path.join(os.path.dirname(hosts.BIN.rstrip("/")), "tests", program)
        return self.process(self.subnet.command(hca, path, *map(str, arguments)))

    def script(self, text, *arguments, host=None):
        command = [sys.executable, "-c", text, *map(str, arguments)]
        return self.process(host.command(*command) if host else command)

    def broadcasts(self, rate, count):
        """Lets the victim send them."""
        return self.script(SHOUTS, "ib0", rate, count, host=self.victim)


class SlowReceiver:
    """Lets a host run only for a moment, eight times a second, while this object is entered."""

    PAUSE, MOMENT = 0.125, 0.0002

    def __init__(self, host):
        self.send_signal = host.daemon.popen.send_signal
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.is_over.wait(self.MOMENT):
            self.send_signal(signal.SIGSTOP)
            self.is_over.wait(self.PAUSE)
            self.send_signal(signal.SIGCONT)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


def has_said(process, word):
    """Waits until a process has printed a word."""
    wait_until(lambda: word in process.output() or not process.is_running(), f"it says {word}")
    assert process.is_running(), process.output()


# --- How each attack starts -----------------------------------------------------------------------


def from_hca(kind, hca="attacker"):
    """hostile_host on an HCA of its own."""
    def start(scene, rate, count):
        victim = (scene.info[key] for key in ("lid", "qpn", "gid", "qkey"))
        return scene.on_hca(hca, "hostile_host", kind, rate, count, *victim, *scene.addresses,
                            scene.tid)
    return start


@contextlib.contextmanager
def create_groups(scene, rate, count):
    """The groups end with the HCA that has joined them."""
    before = scene.groups()
    try:
        with from_hca("groups", "creator")(scene, rate, count) as process:
            wait_until(lambda: scene.groups() > before + MANY_GROUPS, "the groups exist")
            yield process
    finally:
        scene.subnet.run_softib("set", "hca", "creator", "absent")


def on_subnet(text):
    """A script that uses the socket of the victim's process."""
    return lambda scene, rate, count: scene.script(text, scene.socket, rate, count)


def on_victim(text):
    """A script that uses the victim's interface."""
    return lambda scene, rate, count: scene.script(text, "ib0", rate, count, host=scene.victim)


def ask(scene, rate, count):
    """A script that uses the victim's control socket for those who may only read."""
    inode = scene.victim.run("stat", "-Lc", "%i", "/proc/self/ns/net").stdout.strip()
    run = os.environ.get("IPOIBD_DIR", "/run/ipoibd")
    return scene.script(ASKS, pathlib.Path(run, f"net-{inode}", "ib0", "read"), rate, count,
                        host=scene.victim)


def ask_slowly(scene, rate, count):
    return scene.on_hca("attacker", "hostile_process", "slow-client", rate, count)


@contextlib.contextmanager
def join(scene, rate, count):
    """The groups have ended when this has."""
    def groups():
        return len(scene.hostile.ibarp("info")["groups"])
    with scene.script(MEMBERSHIPS, "ib0", rate, count, host=scene.hostile) as process:
        wait_until(lambda: groups() > MANY_GROUPS, "it has joined the groups")
        yield process
    wait_until(lambda: groups() < MANY_GROUPS, "it has left the groups")


@contextlib.contextmanager
def shout_to_hung(scene, rate, count):
    """The victim broadcasts while the hostile host takes nothing."""
    scene.hostile.daemon.popen.send_signal(signal.SIGSTOP)
    try:
        with scene.broadcasts(rate, count) as process:
            yield process
    finally:
        scene.hostile.daemon.popen.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def shout_to_slow(scene, rate, count):
    with SlowReceiver(scene.hostile), scene.broadcasts(rate, count) as process:
        yield process


@contextlib.contextmanager
def shout_to_leased(scene, rate, count):
    """The victim broadcasts to a process that was killed, and somebody has a lease on its lock file."""
    with scene.on_hca(scene.hostile.name, "hostile_process", "idle") as killed:
        has_said(killed, BEGUN)
        node = scene.node(scene.hostile)
        slot = next(each["slot"] for each in node["processes"] if each["pid"] == killed.pid)
        with scene.script(LEASES, scene.folder(node) / f"{slot}.lock") as lessee:
            has_said(lessee, "leased")
            killed.end(signal.SIGKILL)
            with scene.broadcasts(rate, count) as process:
                has_said(lessee, BEGUN)
                yield process


@contextlib.contextmanager
def shout_to_waiters(scene, rate, count):
    """The victim broadcasts to a process that always wants to be woken by another descriptor."""
    with scene.on_hca(scene.hostile.name, "hostile_process", "many-waiters") as waiters:
        with scene.broadcasts(rate, count) as process:
            has_said(waiters, BEGUN)
            yield process


ATTACKS = (
    Attack("random-gids", "ARP requests from unused addresses, with random GIDs", DATAGRAMS,
           from_hca("random-gids"), ("drop_source_limit",)),
    Attack("random-gids-by-nd", "the same by Neighbour Discovery", DATAGRAMS,
           from_hca("random-gids-by-nd"), ("drop_source_limit",)),
    Attack("many-addresses", "solicitations from many similar addresses", DATAGRAMS,
           from_hca("many-addresses"), ("neighbours_created",)),
    Attack("false-qpn", "claims of the neighbour's address, with a false QPN", DATAGRAMS,
           from_hca("false-qpn"), ("drop_false_qpn",)),
    Attack("false-gid", "the same with a false GID", DATAGRAMS, from_hca("false-gid"),
           ("drop_false_gid",)),
    Attack("unsolicited-replies", "ARP replies that nobody has asked for", DATAGRAMS,
           from_hca("unsolicited-replies"), ("drop_unsolicited_reply",)),
    Attack("probes", "ARP probes", DATAGRAMS, from_hca("probes"), ("arp_limited",)),
    Attack("malformed", "random bytes", DATAGRAMS, from_hca("malformed"), ("drop_malformed_arp",)),
    Attack("reports", "reports as if from the SA", MADS, from_hca("reports"),
           ("drop_sa_foreign_report",)),
    Attack("sa-responses", "responses as if from the SA, with random ids", MADS,
           from_hca("sa-responses"), ("hca drop_mad_no_request",)),
    Attack("rmpp-openings", "beginnings of long transfers", MADS, from_hca("rmpp-openings"),
           ("hca drop_mad_no_agent",)),
    Attack("descriptors", "messages with descriptors too many", CONNECTIONS, on_subnet(DESCRIPTORS),
           ("hca drop_malformed",)),
    Attack("connections", "connections to the emulated HCA", CONNECTIONS, on_subnet(CONNECTS),
           ("hca drop_malformed",)),
    Attack("rings", "rings that are repeated, by senders that read no answer", CONNECTIONS,
           on_subnet(RINGS), ("hca drop_malformed",)),
    Attack("control", "requests to the control socket, on 64 connections", REQUESTS, ask,
           ("control_clients_refused", "control_requests")),
    Attack("hung-receiver", "a receiver of the victim's broadcasts takes nothing", BROADCASTS,
           shout_to_hung, ("hca drop_congested",), to_broadcasts=True),
    Attack("slow-receiver", "the same takes a few packets, eight times a second", BROADCASTS,
           shout_to_slow, ("hca drop_congested",), to_broadcasts=True),
    Attack("lease", "a lease on the lock file of a process that was killed", BROADCASTS,
           shout_to_leased, ("hca drop_empty_place",), to_broadcasts=True),
    Attack("many-waiters", "a receiver in 20 slots, which has a new wakeup descriptor each time",
           BROADCASTS, shout_to_waiters, to_broadcasts=True, measured="resolutions"),
    Attack("slow-client", "a client of the SA that takes eight responses a second", MADS, ask_slowly,
           ("sm drop_congested",), measured="joins"),
    Attack("groups", "groups that a program creates at the SA", MADS, create_groups,
           measured="joins"),
    Attack("memberships", "1,100 memberships of a user of another host, which change",
           MEMBERSHIPS_CHANGED, join, measured="joins"),
    Attack("station-groups", "reports of 128 new groups of a station", REPORTS,
           on_victim(STATION_GROUPS), ("station_groups_left_out",), at_station=True,
           measured="joins"),
    Attack("station-probes", "ARP probes of 500 stations", DATAGRAMS, on_victim(STATION_PROBES),
           ("drop_ethernet_request_limit",), at_station=True, measured="resolutions"),
)


def carry_out(attack, scene, most):
    """Carries out an attack for a second, with so many messages at most; fails if the attacker could not
    send them."""
    with attack.start(scene, attack.rate, min(attack.rate, most)) as attacker:
        wait_until(lambda: not attacker.is_running(), f"{attack.name} is over")
        assert attacker.popen.returncode == 0, attacker.output()


@contextlib.contextmanager
def under(attack, scene):
    """Runs a block during an attack, once all its effects have been seen."""
    before = scene.counters()
    with attack.start(scene, attack.rate, 10**9) as attacker:
        if attack.rises:
            wait_until(lambda: not attacker.is_running() or has_risen(attack, before, scene.counters()),
                       f"{attack.name} has begun")
        yield
        assert attacker.is_running(), f"{attack.name} has ended early: {attacker.output()}"


def has_risen(attack, before, now):
    return all(now[name] > before[name] for name in attack.rises)
