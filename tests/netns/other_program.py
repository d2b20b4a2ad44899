"""Another program on a port of a softib subnet: sends requests for memberships to the SA."""

import sys

FULL, SEND_ONLY_NON_MEMBER, SEND_ONLY_FULL_MEMBER = 1, 4, 8

# Sends one Set or Delete of an MCMemberRecord, and prints the status of the response.
PROGRAM = """
import ctypes, ipaddress, struct, sys
method, mgid, port_gid, state, sm_lid = sys.argv[1:]
MGID, PORT_GID, PKEY, JOIN_STATE = 1 << 0, 1 << 1, 1 << 7, 1 << 16
CLASS, CLASS_VERSION, ATTRIBUTE, MAD_SIZE = 3, 2, 0x38, 256
components = MGID | PORT_GID | JOIN_STATE | (PKEY if method == 'set' else 0)
mad = struct.pack('>BBBBHHQHHI', 1, CLASS, CLASS_VERSION, {'set': 2, 'delete': 0x15}[method], 0, 0,
                  1, ATTRIBUTE, 0, 0)
mad += bytes(12) + struct.pack('>QHHQ', 0, 0, 0, components)
mad += ipaddress.ip_address(mgid).packed + ipaddress.ip_address(port_gid).packed
mad += struct.pack('>IHBBHBBIB', 0, 0, 0, 0, 0xffff, 0, 0, 0, int(state))
mad = mad.ljust(MAD_SIZE, bytes(1))
lib = ctypes.CDLL(None)
port = lib.umad_open_port(None, 1)
agent = lib.umad_register(port, CLASS, CLASS_VERSION, 0, None)
assert port >= 0 and agent >= 0, (port, agent)
size = lib.umad_size()
umad = ctypes.create_string_buffer(size + MAD_SIZE)
umad[size:] = mad
lib.umad_set_addr(umad, int(sm_lid), 1, 0, ctypes.c_int(0x80010000 - (1 << 32)))
lib.umad_set_pkey(umad, 0)
assert lib.umad_send(port, agent, umad, MAD_SIZE, 1000, 5) == 0
length = ctypes.c_int(MAD_SIZE)
assert lib.umad_recv(port, umad, ctypes.byref(length), 10000) == agent
print(struct.unpack_from('>H', umad, size + 4)[0])
"""


def _request(subnet, hca, method, mgid, state):
    """Returns the status."""
    node = subnet.nodes()[hca]
    done = subnet.run(hca, sys.executable, "-c", PROGRAM, method, mgid, node["gid"], str(state),
                      str(node["sm_lid"]))
    return int(done.stdout)


def join(subnet, hca, mgid, state):
    """Joins an existing group with these bits of JoinState."""
    assert _request(subnet, hca, "set", mgid, state) == 0


def leave(subnet, hca, mgid, state):
    assert _request(subnet, hca, "delete", mgid, state) == 0
