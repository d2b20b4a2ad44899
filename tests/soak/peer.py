#!/usr/bin/env python3
"""What a host of scripts/soak does, until its standard input ends: keeps addresses on its interfaces,
and sends datagrams (beats) and TCP transfers to all other hosts.

The time is divided into epochs. The beats of an epoch are numbered from 0, so the first one that
arrives shows how long a path was interrupted, in beats. Commands on the standard input:

    epoch N     begins an epoch
    status      prints a JSON object, see Peer.status()

Usage: peer.py HOST HOSTS SEED INTERFACE...
"""

import asyncio
import json
import os
import pathlib
import random
import socket
import struct
import subprocess
import sys

from payload import HEADER, RESPONSE, Sequence, Wrong, beat, header, parse_beat, parse_header

INTERVAL = 0.2  # seconds between two beats
CHANNELS = ("IPv4", "IPv6", "IPv4 multicast", "IPv6 multicast")
UNICAST_PORT, MULTICAST_PORT, TCP_PORT = 5010, 5011, 5012
GROUPS = ("239.44.0.1", "ff15::44")
FAMILIES = (socket.AF_INET, socket.AF_INET6)
LARGEST_TRANSFER = 2 << 20  # bytes
# A connection that makes no progress is given up, so that TCP's own pauses, which grow, do not hide
# that a path works again.
CONNECT_SECONDS, SILENT_SECONDS, TRANSFER_SECONDS = 3, 8, 30


def address(family, interface, host):
    """Returns the address of a host on an interface; both are numbers."""
    return f"10.{44 + interface}.0.{host}" if family == socket.AF_INET else f"fd{44 + interface}::{host}"


async def receive_exactly(loop, connection, size):
    data = b""
    while len(data) < size:
        part = await loop.sock_recv(connection, size - len(data))
        if not part:
            raise Wrong(f"a connection ends after {len(data)} of {size} bytes")
        data += part
    return data


async def receive(connection):
    """Receives one transfer and responds. Raises Wrong, or OSError if the connection breaks."""
    loop = asyncio.get_running_loop()
    first = await loop.sock_recv(connection, HEADER.size)
    if not first:
        return
    first += await receive_exactly(loop, connection, HEADER.size - len(first))
    key, size = parse_header(first)
    received = Sequence(key)
    while data := await loop.sock_recv(connection, 1 << 18):
        received.compare(data)
    if received.position != size:
        raise Wrong(f"a transfer of {size} bytes ends after {received.position}")
    await loop.sock_sendall(connection, received.response())


async def send(connection, key, size, source):
    """Sends one transfer in pieces of random sizes, and compares the response."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(connection, header(key, size))
    sent = Sequence(key)
    while sent.position < size:
        piece = min(size - sent.position, source.choice((1, 1000, 20000, 65536, 65536)))
        await loop.sock_sendall(connection, sent.next(piece))
        if source.random() < 0.3:
            await asyncio.sleep(source.random() * 0.1)
    connection.shutdown(socket.SHUT_WR)
    if await receive_exactly(loop, connection, RESPONSE.size) != sent.response():
        raise Wrong(f"the receiver of a transfer of {size} bytes has another checksum")


def prepare(connection):
    """A connection that is given up is reset, so its receiver does not take it for a finished one."""
    connection.setblocking(False)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_SECONDS * 1000)


class Peer:
    def __init__(self, host, hosts, seed, interfaces):
        self.host = host
        self.others = [other for other in range(1, hosts + 1) if other != host]
        self.interfaces = interfaces
        self.random = random.Random(f"{seed}/{host}")
        self.indices = {}  # interface -> its index when it was set up
        self.unicast = []
        self.multicast = {}  # interface -> a socket for each family
        self.epoch, self.beats = 0, 0
        self.heard = {}  # (sender, interface, channel) -> number of the first beat in this epoch
        self.completed = {}  # other host -> transfers begun and completed in this epoch
        self.transfers, self.bytes, self.broken = 0, 0, 0
        self.wrong = []

    def status(self):
        """Returns the beats sent in this epoch and those that were heard first, the transfers to each
        host that were begun and completed in it, and totals."""
        return {"epoch": self.epoch, "beats": self.beats,
                "heard": [[*path, number] for path, number in self.heard.items()],
                "completed": self.completed, "transfers": self.transfers, "bytes": self.bytes,
                "broken": self.broken, "wrong": self.wrong}

    def begin(self, epoch):
        self.epoch, self.beats = epoch, 0
        self.heard, self.completed = {}, {other: 0 for other in self.others}

    # --- Interfaces -------------------------------------------------------------------------------

    async def keep_interfaces(self):
        """Sets up each interface that is new or has lost its address, as a network manager does."""
        while True:
            shown = pathlib.Path("/proc/self/net/if_inet6").read_text(encoding="ascii")
            for number, name in enumerate(self.interfaces):
                try:
                    index = socket.if_nametoindex(name)
                except OSError:
                    continue
                packed = socket.inet_pton(socket.AF_INET6, address(socket.AF_INET6, number, self.host))
                if self.indices.get(name) != index or packed.hex() not in shown:
                    self.set_up(name, number, index)
            await asyncio.sleep(0.3)

    def set_up(self, name, number, index):
        for family, length in zip(FAMILIES, ("24", "64")):
            done = subprocess.run(["ip", "addr", "replace",
                                   f"{address(family, number, self.host)}/{length}", "dev", name,
                                   *(["nodad"] if family == socket.AF_INET6 else [])],
                                  check=False, capture_output=True)
            if done.returncode != 0:
                return  # it has disappeared meanwhile, or is down
        if self.indices.get(name) != index:
            for old in self.multicast.pop(name, []):
                asyncio.get_running_loop().remove_reader(old)
                old.close()
            try:
                self.multicast[name] = [self.member(family, name, index) for family in FAMILIES]
            except OSError:
                return
            self.indices[name] = index

    def member(self, family, name, index):
        """Returns a socket that is a member of the group on one interface, and sends to it there."""
        out = self.datagram_socket(family)
        out.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name.encode())
        if family == socket.AF_INET:
            request = struct.pack("4s4si", socket.inet_aton(GROUPS[0]), bytes(4), index)
            out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, request)
            out.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
        else:
            group = socket.inet_pton(family, GROUPS[1])
            out.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
            out.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group + struct.pack("@I", index))
        out.bind(("", MULTICAST_PORT))
        return out

    def datagram_socket(self, family):
        out = socket.socket(family, socket.SOCK_DGRAM)
        out.setblocking(False)
        out.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            out.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        asyncio.get_running_loop().add_reader(out, self.receive_beats, out)
        return out

    # --- Beats ------------------------------------------------------------------------------------

    async def send_beats(self):
        while True:
            for interface, name in enumerate(self.interfaces):
                for channel, (way, family) in enumerate((w, f) for w in range(2) for f in FAMILIES):
                    data = beat(self.epoch, self.beats, self.host, interface, channel)
                    if way == 0:
                        for other in self.others:
                            self.send_beat(self.unicast[channel % 2], data,
                                           (address(family, interface, other), UNICAST_PORT))
                    elif name in self.multicast:
                        self.send_beat(self.multicast[name][channel % 2], data,
                                       (GROUPS[channel % 2], MULTICAST_PORT))
            self.beats += 1
            await asyncio.sleep(INTERVAL)

    @staticmethod
    def send_beat(out, data, to):
        try:
            out.sendto(data, to)
        except OSError:
            pass  # no route, or the ICMP error of an earlier datagram

    def receive_beats(self, from_):
        for _ in range(100):
            try:
                epoch, number, *path = parse_beat(from_.recv(1 << 16))
            except OSError:
                return
            except Wrong as error:
                self.wrong.append(str(error))
                continue
            if epoch == self.epoch and path[0] != self.host:
                self.heard.setdefault(tuple(path), number)

    # --- Transfers --------------------------------------------------------------------------------

    async def serve(self, server):
        loop, tasks = asyncio.get_running_loop(), set()
        while True:
            connection, _ = await loop.sock_accept(server)
            prepare(connection)
            task = loop.create_task(self.one(receive(connection), connection))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def send_to(self, other):
        while True:
            source, epoch = self.random, self.epoch
            family = source.choice(FAMILIES)
            to = address(family, source.randrange(len(self.interfaces)), other)
            size = source.choice((source.randrange(2000), source.randrange(LARGEST_TRANSFER)))
            connection = socket.socket(family, socket.SOCK_STREAM)
            prepare(connection)
            if await self.one(self.connect_and_send(connection, to, size), connection):
                self.transfers += 1
                self.bytes += size
                if epoch == self.epoch:
                    self.completed[other] = self.completed.get(other, 0) + 1
            await asyncio.sleep(0.2)

    async def connect_and_send(self, connection, to, size):
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_SECONDS):
            await loop.sock_connect(connection, (to, TCP_PORT))
        await send(connection, self.random.getrandbits(64), size, self.random)

    async def one(self, transfer, connection):
        """Returns whether the transfer has ended well. Not with wait_for(), which in Python 3.11 loses a
        cancellation that comes together with the result; then the peer would not end."""
        try:
            async with asyncio.timeout(TRANSFER_SECONDS):
                await transfer
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
            return True
        except Wrong as error:
            self.wrong.append(str(error))
        except OSError:  # also a time-out
            self.broken += 1
        finally:
            connection.close()
        return False

    # --- Commands ---------------------------------------------------------------------------------

    def obey(self, ended):
        for line in os.read(sys.stdin.fileno(), 1 << 16).decode().splitlines() or [""]:
            command, *arguments = line.split() or [""]
            if command == "epoch":
                self.begin(int(arguments[0]))
            elif command == "status":
                print(json.dumps(self.status()), flush=True)
            else:
                asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
                ended.set()

    async def run(self):
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(sys.stdin.fileno(), self.obey, ended)
        self.unicast = [self.datagram_socket(family) for family in FAMILIES]
        for out in self.unicast:
            out.bind(("", UNICAST_PORT))
        server = socket.create_server(("", TCP_PORT), family=socket.AF_INET6, dualstack_ipv6=True)
        server.setblocking(False)
        work = [self.keep_interfaces(), self.send_beats(), self.serve(server),
                *(self.send_to(other) for other in self.others)]
        tasks = [loop.create_task(one) for one in work]
        end = loop.create_task(ended.wait())
        await asyncio.wait([end, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()  # raises what ended it
            task.cancel()


if __name__ == "__main__":
    asyncio.run(Peer(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]).run())
