"""Transfers between two hosts that check that all data arrives unchanged."""

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

# Sends datagrams of random sizes up to a limit in bursts of 16, and waits for each to be echoed.
UDP_SENDER = """
import os, random, socket, sys
address, rounds, limit = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
family = socket.AF_INET6 if ':' in address else socket.AF_INET
peer = socket.socket(family, socket.SOCK_DGRAM)
peer.settimeout(30)
peer.connect((address, 5001))
for _ in range(rounds):
    burst = {os.urandom(random.randint(16, limit)) for _ in range(16)}
    for datagram in burst:
        peer.send(datagram)
    while burst:
        burst.remove(peer.recv(1 << 16))
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


def start(host, script, folder, name):
    log = folder / f"{host.name}.{name}.out"
    log.unlink(missing_ok=True)
    process = hosts.Process(host.command(sys.executable, "-c", script), log,
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
