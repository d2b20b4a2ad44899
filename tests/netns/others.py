"""What everybody else does beside an attack that touches no established stream: resolves neighbours, and
joins groups.
"""

import sys

from hosts import program, wait_until

ADDRESSES = 400  # of the neighbour, besides its own
RESOLUTIONS = 400  # in a second; with the default --arp-rate there could be 500
IN_TIME = 0.1  # seconds until a resolution counts as failed
GROUPS = 100  # joined at a time, once in a second: as many as the daemon asks the SA for

ECHO = """
import socket
server = socket.socket(type=socket.SOCK_DGRAM)
server.bind(('', 7))
print('listening', flush=True)
while True:
    server.sendto(*server.recvfrom(100))
"""
# Sends a datagram to each address, which has to be resolved first. Prints how many have been answered in
# time, in a second.
RESOLVE = """
import contextlib, socket, struct, subprocess, sys, time
ibarp, rate, in_time, seconds = sys.argv[1], *map(float, sys.argv[2:5])
addresses = sys.argv[5:]
peer = socket.socket(type=socket.SOCK_DGRAM)
peer.setblocking(False)
sent, answered = 0, 0
while sent < rate * seconds:
    for flush in ([ibarp, 'flush', 'dev', 'ib0'], ['ip', 'neigh', 'flush', 'dev', 'ib0']):
        subprocess.run(flush, check=True, capture_output=True)
    begin, done = time.monotonic(), 0
    while (now := time.monotonic()) < begin + len(addresses) / rate + in_time:
        while done < min(len(addresses), (now - begin) * rate):
            with contextlib.suppress(BlockingIOError):  # too many wait for their neighbour
                peer.sendto(struct.pack('d', time.monotonic()), (addresses[done], 7))
            done += 1
        try:
            while True:
                answered += time.monotonic() - struct.unpack('d', peer.recv(100))[0] <= in_time
        except BlockingIOError:
            time.sleep(0.001)
    sent += done
print(answered * rate / sent)
"""
# Prints how many groups in a second it joins, while it joins any.
JOIN = """
import json, socket, struct, subprocess, sys, time
ibarp, count, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
index, number, joined, taken = socket.if_nametoindex('ib0'), 0, 0, 0
def memberships():
    done = subprocess.run([ibarp, 'info', '-i', 'ib0', '--json'], check=True, capture_output=True)
    return sum(group['mgid'].startswith('ff12:401b:ffff::f10:') and group['membership'] == 'full'
               for group in json.loads(done.stdout)[0]['groups'])
for _ in range(max(1, round(seconds))):
    members = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(count // 20)]
    begin = time.monotonic()
    for member in members * 20:
        request = struct.pack('!I4x', 0xef100000 + number % 0x10000) + struct.pack('@i', index)
        member.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
        number += 1
    while memberships() < count:
        pass
    taken += time.monotonic() - begin
    joined += count
    for member in members:
        member.close()
    while memberships() > 0:
        pass
    time.sleep(max(0, begin + 1 - time.monotonic()))
print(joined / taken)
"""


def addresses():
    return [f"10.44.{16 + number // 250}.{1 + number % 250}" for number in range(ADDRESSES)]


def prepare(neighbour):
    """Gives the neighbour its addresses."""
    batch = neighbour.subnet.folder / "addresses"
    batch.write_text("".join(f"addr add {each}/32 dev ib0\n" for each in addresses()), encoding="ascii")
    before = neighbour.counters()["announcements_sent"]
    neighbour.run("ip", "-batch", str(batch))
    wait_until(lambda: neighbour.counters()["announcements_sent"] >= before + 2 * ADDRESSES,
               "the addresses have been announced")


def resolutions(host, seconds):
    """Returns how many addresses of the neighbour a host resolves in a second."""
    done = host.run(sys.executable, "-c", RESOLVE, program("ibarp"), str(RESOLUTIONS), str(IN_TIME),
                    str(seconds), *addresses())
    return float(done.stdout)


def joins(host, seconds):
    """Returns how many groups a host joins in a second, while it joins many at once."""
    done = host.run(sys.executable, "-c", JOIN, program("ibarp"), str(GROUPS), str(seconds))
    return float(done.stdout)
