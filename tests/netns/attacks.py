"""What a hostile host tries, one attack after the other; docs/security.md says what each achieves.

Three kinds of attackers take part: a program with verbs on an HCA of its own (hostile_host.cpp), a
process that may use the sockets of the emulated subnet, and a user of the victim's machine. All of
them send at a limited rate. Without that limit an attacker on the same machine would take a processor
from the victim, whatever the victim does with his messages.
"""

import collections
import contextlib
import os
import pathlib
import signal
import sys

import hosts
from hosts import wait_until

# Messages per second, by what the victim has to do for one.
DATAGRAMS, MADS, CONNECTIONS, REQUESTS, BROADCASTS = 5000, 2000, 500, 5000, 2000

# What each script has first: its arguments, and turns that keep the rate.
TURNS = """
import os, socket, sys, time
target, rate, count = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
def turns():
    begin, done = time.monotonic(), 0
    while done < count:
        for done in range(done, min(count, int((time.monotonic() - begin) * rate))):
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
for _ in turns():
    speaker.sendto(bytes(1900), (target, 9))
"""

Attack = collections.namedtuple("Attack", "name what rate start rises")


class Scene:
    """The victim, a neighbour with which it exchanges packets, and a third host, which is hostile."""

    def __init__(self, victim, neighbour, hostile):
        self.victim, self.neighbour, self.hostile = victim, neighbour, hostile
        self.subnet = victim.subnet
        self.addresses = (*victim.addresses(), *neighbour.addresses(), victim.addresses("inet6")[0])
        # Later than IPv4: the kernel first looks for duplicates.
        wait_until(lambda: neighbour.reaches(f"{self.addresses[-1]}%ib0"),
                   "the victim has its IPv6 address")
        self.info = victim.ibarp("info")
        node = self.victim_node()
        process = node["processes"][0]
        folder = self.subnet.folder / "default" / "node" / str(node["node"])
        self.socket = folder / str(process["slot"])  # of the victim's process
        # The high half of the transaction ids of its requests: softib/core/mad_route.hpp.
        self.tid = ((node["node"] << 6 | process["slot"]) << 8 | process["epoch"]) << 8

    def victim_node(self):
        return self.subnet.nodes()[self.victim.name]

    def counters(self):
        """Returns the victim's counters; those of its emulated HCA begin with "hca "."""
        of_hca = {f"hca {name}": value for name, value in self.victim_node()["counters"].items()}
        return {**self.victim.counters(), **of_hca}

    def descriptors(self):
        """Returns how many descriptors the victim's daemon has."""
        return len(os.listdir(f"/proc/{self.victim.daemon.pid}/fd"))

    def process(self, command):
        return hosts.Process(command, self.subnet.folder / "attack.log", self.subnet.environment)

    def script(self, text, *arguments, host=None):
        command = [sys.executable, "-c", text, *map(str, arguments)]
        return self.process(host.command(*command) if host else command)


def on_hca(kind):
    """Starts hostile_host on an HCA of its own."""
    def start(scene, rate, count):
        program = os.path.join(os.path.dirname(hosts.BIN.rstrip("/")), "tests", "hostile_host")
        victim = (scene.info[key] for key in ("lid", "qpn", "gid", "qkey"))
        words = (kind, rate, count, *victim, *scene.addresses, scene.tid)
        return scene.process(scene.subnet.command("attacker", program, *map(str, words)))
    return start


def on_subnet(text):
    """Starts a script that uses the socket of the victim's process."""
    def start(scene, rate, count):
        return scene.script(text, scene.socket, rate, count)
    return start


def ask(scene, rate, count):
    """Starts a script that uses the victim's control socket for those who may only read."""
    inode = scene.victim.run("stat", "-Lc", "%i", "/proc/self/ns/net").stdout.strip()
    run = os.environ.get("IPOIBD_DIR", "/run/ipoibd")
    return scene.script(ASKS, pathlib.Path(run, f"net-{inode}", "ib0", "read"), rate, count,
                        host=scene.victim)


def shout(scene, rate, count):
    """Lets the victim broadcast while the hostile host takes nothing."""
    scene.hostile.daemon.popen.send_signal(signal.SIGSTOP)
    return scene.script(SHOUTS, "10.44.255.255", rate, count, host=scene.victim)


ATTACKS = (
    Attack("random-gids", "ARP requests from unused addresses, with random GIDs", DATAGRAMS,
           on_hca("random-gids"), ("drop_source_limit",)),
    Attack("random-gids-by-nd", "the same by Neighbour Discovery", DATAGRAMS,
           on_hca("random-gids-by-nd"), ("drop_source_limit",)),
    Attack("many-addresses", "solicitations from many similar addresses", DATAGRAMS,
           on_hca("many-addresses"), ("neighbours_created",)),
    Attack("false-qpn", "claims of the neighbour's address, with a false QPN", DATAGRAMS,
           on_hca("false-qpn"), ("drop_false_qpn",)),
    Attack("false-gid", "the same with a false GID", DATAGRAMS, on_hca("false-gid"),
           ("drop_false_gid",)),
    Attack("unsolicited-replies", "ARP replies that nobody has asked for", DATAGRAMS,
           on_hca("unsolicited-replies"), ("drop_unsolicited_reply",)),
    Attack("probes", "ARP probes", DATAGRAMS, on_hca("probes"), ("arp_limited",)),
    Attack("malformed", "random bytes", DATAGRAMS, on_hca("malformed"), ("drop_malformed_arp",)),
    Attack("reports", "reports as if from the SA", MADS, on_hca("reports"),
           ("drop_sa_foreign_report",)),
    Attack("sa-responses", "responses as if from the SA, with random ids", MADS,
           on_hca("sa-responses"), ("hca drop_mad_no_request",)),
    Attack("rmpp-openings", "beginnings of long transfers", MADS, on_hca("rmpp-openings"),
           ("hca drop_mad_no_agent",)),
    Attack("descriptors", "messages with descriptors too many", CONNECTIONS, on_subnet(DESCRIPTORS),
           ("hca drop_malformed",)),
    Attack("connections", "connections to the emulated HCA", CONNECTIONS, on_subnet(CONNECTS),
           ("hca drop_malformed",)),
    Attack("control", "requests to the control socket, on 64 connections", REQUESTS, ask,
           ("control_clients_refused", "control_requests")),
    Attack("hung-receiver", "a receiver of the victim's broadcasts takes nothing", BROADCASTS, shout,
           ("hca drop_congested",)),
)


@contextlib.contextmanager
def under(attack, scene, count):
    """Runs a block during an attack with so many messages; yields the attacker's process."""
    attacker = attack.start(scene, attack.rate, count)
    try:
        yield attacker
    finally:
        scene.hostile.daemon.popen.send_signal(signal.SIGCONT)
        attacker.end()


def carry_out(attack, scene, count):
    """Carries out an attack with so many messages; fails if the attacker could not send them."""
    with under(attack, scene, count) as attacker:
        wait_until(lambda: not attacker.is_running(), f"{attack.name} is over")
        assert attacker.popen.returncode == 0, attacker.output()
