"""Transfers between hosts that check that all data arrives unchanged, and multicast programs."""

import sys

import hosts
from hosts import wait_until

# Sends numbered blocks over TCP; both ends print a checksum.
TCP_SENDER = """
import hashlib, os, socket, sys
block, digest = os.urandom(1 << 20), hashlib.blake2b()
with socket.create_connection((sys.argv[1], 5001)) as peer:
    for i in range(int(sys.argv[2])):
        data = i.to_bytes(8, 'big') + block[8:]
        digest.update(data)
        peer.sendall(data)
print(digest.hexdigest())
"""
TCP_RECEIVER = """
import hashlib, socket
digest = hashlib.blake2b()
server = socket.create_server(('', 5001), family=socket.AF_INET6, dualstack_ipv6=True)
print('listening', flush=True)
peer, _ = server.accept()
while data := peer.recv(1 << 18):
    digest.update(data)
print(digest.hexdigest())
"""

# Sends datagrams of random sizes up to a limit in bursts of 16, and waits for each to be echoed. UDP may
# lose some, which are sent again after a second.
UDP_SENDER = """
import os, random, socket, sys, time
address, rounds, limit = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
family = socket.AF_INET6 if ':' in address else socket.AF_INET
peer = socket.socket(family, socket.SOCK_DGRAM)
peer.settimeout(1)
peer.connect((address, 5001))
end, sent = time.monotonic() + 30, set()
for _ in range(rounds):
    missing = {os.urandom(random.randint(16, limit)) for _ in range(16)}
    sent |= missing
    while missing:
        for datagram in missing:
            peer.send(datagram)
        try:
            while missing:
                echo = peer.recv(1 << 16)
                assert echo in sent, 'a datagram has changed'
                missing.discard(echo)
        except TimeoutError:
            assert time.monotonic() < end, f'lost again and again: {sorted(map(len, missing))} bytes'
"""
UDP_ECHO = """
import socket
server = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
server.bind(('', 5001))
print('listening', flush=True)
while True:
    server.sendto(*server.recvfrom(1 << 16))
"""

# Prints each message to a multicast group; joins the group if the second argument is "join". The third
# one is the interface.
LISTENER = """
import socket, struct, sys
group, join = sys.argv[1], sys.argv[2] == 'join'
family = socket.AF_INET6 if ':' in group else socket.AF_INET
heard = socket.socket(family, socket.SOCK_DGRAM)
heard.bind(('', 5002))
index = socket.if_nametoindex(sys.argv[3] if len(sys.argv) > 3 else 'ib0')
if join and family == socket.AF_INET6:
    heard.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP,
                     socket.inet_pton(family, group) + struct.pack('@I', index))
elif join:
    heard.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                     struct.pack('4s4si', socket.inet_aton(group), bytes(4), index))
print('listening', flush=True)
while True:
    print(heard.recv(100).decode(), flush=True)
"""
SPEAKER = """
import socket, struct, sys
group = sys.argv[1]
index = socket.if_nametoindex(sys.argv[3] if len(sys.argv) > 3 else 'ib0')
family = socket.AF_INET6 if ':' in group else socket.AF_INET
speaker = socket.socket(family, socket.SOCK_DGRAM)
if family == socket.AF_INET6:
    speaker.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
else:
    speaker.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF,
                       struct.pack('4s4si', bytes(4), bytes(4), index))
speaker.sendto(sys.argv[2].encode(), (group, 5002))
"""



# Connects to an address; prints the name of the error. With UDP, after a datagram.
CONNECT = """
import errno, socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
kind = {'tcp': socket.SOCK_STREAM, 'udp': socket.SOCK_DGRAM}[sys.argv[2]]
client = socket.socket(family, kind)
client.settimeout(60)
if family == socket.AF_INET:
    client.setsockopt(socket.IPPROTO_IP, 11, 1)  # IP_RECVERR
else:
    client.setsockopt(socket.IPPROTO_IPV6, 25, 1)  # IPV6_RECVERR
try:
    client.connect((sys.argv[1], 4455))
    client.send(b'hello')
    client.recv(1)
    print('connected')
except TimeoutError:
    print('TIMEOUT')
except OSError as error:
    print(errno.errorcode[error.errno])
"""


def start(host, script, folder, name, *arguments):
    """Starts a script on a host and waits until it listens."""
    log = folder / f"{host.name}.{name}.out"
    log.unlink(missing_ok=True)
    process = hosts.Process(host.command(sys.executable, "-c", script, *arguments), log,
                            host.subnet.environment)
    wait_until(lambda: "listening" in process.output(), f"{name} listens on {host.name}")
    return process


def tcp(sender, receiver, address, mebibytes):
    """Transfers data over TCP to an address of the receiver."""
    listening = start(receiver, TCP_RECEIVER, sender.subnet.folder, "tcp")
    try:
        sent = sender.run(sys.executable, "-c", TCP_SENDER, address, str(mebibytes)).stdout.strip()
        listening.popen.wait(hosts.PATIENCE)
        assert listening.output().split()[-1] == sent, "the data has changed"
    finally:
        listening.end()


def udp(sender, receiver, address, rounds, limit):
    """Sends datagrams of up to `limit` bytes and back."""
    listening = start(receiver, UDP_ECHO, sender.subnet.folder, "udp")
    try:
        done = sender.run(sys.executable, "-c", UDP_SENDER, address, str(rounds), str(limit),
                          check=False)
        assert done.returncode == 0, done.stderr
    finally:
        listening.end()


# Like TCP_SENDER, until SIGTERM, with pauses, so that the processors are not busy with it alone.
ENDLESS_SENDER = """
import hashlib, os, signal, socket, sys, time
ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
block, digest, number = os.urandom(1 << 17), hashlib.blake2b(), 0
with socket.create_connection((sys.argv[1], 5003)) as peer:
    print('listening', flush=True)
    while not ended:
        data = number.to_bytes(8, 'big') + block[8:]
        digest.update(data)
        peer.sendall(data)
        number += 1
        time.sleep(0.005)
print(digest.hexdigest())
"""
# Like TCP_RECEIVER; the size of a file shows how many MiB have arrived.
ENDLESS_RECEIVER = """
import hashlib, socket, sys
digest, total = hashlib.blake2b(), 0
server = socket.create_server(('', 5003))
print('listening', flush=True)
peer, _ = server.accept()
with open(sys.argv[1], 'wb', buffering=0) as progress:
    while data := peer.recv(1 << 17):
        digest.update(data)
        total += len(data)
        progress.truncate(total >> 20)
print(digest.hexdigest())
"""


class Endless:
    """A transfer over TCP until end(), which checks that all data has arrived unchanged."""

    def __init__(self, sender, receiver, address):
        folder = sender.subnet.folder
        self.progress = folder / "endless"
        self.receiver = start(receiver, ENDLESS_RECEIVER, folder, "endless", str(self.progress))
        self.sender = start(sender, ENDLESS_SENDER, folder, "endless", address)

    def received(self):
        """Returns how many MiB have arrived."""
        return self.progress.stat().st_size if self.progress.exists() else 0

    def end(self):
        assert self.sender.end() == 0, self.sender.output()
        assert self.receiver.popen.wait(hosts.PATIENCE) == 0, self.receiver.output()
        sent, arrived = (each.output().split()[-1] for each in (self.sender, self.receiver))
        assert sent == arrived, "the data has changed"

    def close(self):
        for process in (self.sender, self.receiver):
            process.end()
