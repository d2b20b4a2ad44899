"""What the hosts of scripts/soak send each other: bytes that the receiver can compute, so that it
finds each wrong one.

A transfer is a header, `size` bytes that follow from its key, and the response of the receiver: the
number and the checksum of the bytes that it got. A beat is a datagram that follows from its numbers.
"""

import hashlib
import random
import struct

BLOCK = 1 << 16  # bytes
MAGIC = b"ipoib:tx"
HEADER = struct.Struct(">8sQQ8s")
RESPONSE = struct.Struct(">Q32s")
BEAT = struct.Struct(">4sIIBBB")
BEAT_MAGIC = b"beat"
SHORTEST_BEAT, LONGEST_BEAT = BEAT.size, 1800  # bytes; fits an MTU of 2044 with all headers


class Wrong(Exception):
    """Bytes that differ from those that were sent."""


def block(key, number):
    """Returns block `number` of the data of a transfer."""
    return random.Random(f"{key}/{number}").randbytes(BLOCK)


def header(key, size):
    return HEADER.pack(MAGIC, key, size, checksum(struct.pack(">QQ", key, size))[:8])


def parse_header(data):
    """Returns key and size."""
    magic, key, size, check = HEADER.unpack(data)
    if magic != MAGIC or check != checksum(struct.pack(">QQ", key, size))[:8]:
        raise Wrong(f"the header of a transfer is wrong: {data.hex()}")
    return key, size


def checksum(data):
    return hashlib.blake2b(data, digest_size=32).digest()


class Sequence:
    """The data of a transfer from its begin to its end, with its checksum."""

    def __init__(self, key):
        self.key = key
        self.position = 0
        self._digest = hashlib.blake2b(digest_size=32)

    def next(self, size):
        """Returns the next bytes: `size`, or fewer at the end of a block."""
        number, begin = divmod(self.position, BLOCK)
        data = block(self.key, number)[begin:begin + size]
        self._add(data)
        return data

    def compare(self, data):
        """Raises Wrong with the position if these are not the next bytes."""
        while data:
            number, begin = divmod(self.position, BLOCK)
            expected = block(self.key, number)[begin:begin + len(data)]
            part, data = data[:len(expected)], data[len(expected):]
            if part != expected:
                at = next(i for i, (a, b) in enumerate(zip(part, expected)) if a != b)
                raise Wrong(f"byte {self.position + at} of a transfer is {part[at]:#04x}, "
                            f"not {expected[at]:#04x}")
            self._add(part)

    def response(self):
        return RESPONSE.pack(self.position, self._digest.digest())

    def _add(self, data):
        self.position += len(data)
        self._digest.update(data)


FILLING = random.Random(44).randbytes(2 * LONGEST_BEAT)


def beat(epoch, number, sender, interface, channel):
    """Returns a datagram of a size that depends on its number."""
    size = SHORTEST_BEAT + number * 389 % (LONGEST_BEAT - SHORTEST_BEAT + 1)
    begin = BEAT.pack(BEAT_MAGIC, epoch, number, sender, interface, channel)
    offset = number % LONGEST_BEAT
    return begin + FILLING[offset:offset + size - len(begin)]


def parse_beat(data):
    """Returns epoch, number, sender, interface and channel."""
    if len(data) < BEAT.size:
        raise Wrong(f"a datagram is too short: {data.hex()}")
    magic, *numbers = BEAT.unpack(data[:BEAT.size])
    if magic != BEAT_MAGIC or data != beat(*numbers):
        raise Wrong(f"a datagram of {len(data)} bytes is wrong: {data.hex()}")
    return tuple(numbers)
