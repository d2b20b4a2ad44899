"""Subnet management and SA requests by libibmad, so wherever that library finds a port: on ibsim, on softib,
on hardware."""
import ctypes
import struct

SMI, SMI_DIRECT, SA = 1, 0x81, 3
SMP_SIZE = 64
SA_SIZE = 200
TIMEOUT = 1000  # milliseconds
NODE_DESCRIPTION, NODE_INFO, SWITCH_INFO, GUID_INFO, PORT_INFO = 0x10, 0x11, 0x12, 0x14, 0x15
PKEY_TABLE, SL_TO_VL, VL_ARBITRATION, LINEAR_TABLE, MULTICAST_TABLE = 0x16, 0x17, 0x18, 0x19, 0x1b
MULTICAST_MEMBER = 0x38
SET = 2
# Components of a record of a multicast member: what a join needs, and a creation besides.
JOIN = 1 << 0 | 1 << 1 | 1 << 16  # MGID, PortGID, JoinState
CREATE = 1 << 2 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13  # Q_Key, TClass, P_Key, SL, FlowLabel


class Path(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int), ("ports", ctypes.c_uint8 * 64), ("slid", ctypes.c_uint16),
                ("dlid", ctypes.c_uint16)]


class Destination(ctypes.Structure):
    _fields_ = [("lid", ctypes.c_int), ("path", Path), ("has_grh", ctypes.c_int), ("gid", ctypes.c_uint8 * 16),
                ("qp", ctypes.c_uint32), ("qkey", ctypes.c_uint32), ("sl", ctypes.c_uint8),
                ("pkey_index", ctypes.c_uint)]


class SaCall(ctypes.Structure):
    _fields_ = [("attribute", ctypes.c_uint), ("modifier", ctypes.c_uint), ("mask", ctypes.c_uint64),
                ("method", ctypes.c_uint), ("transaction", ctypes.c_uint64), ("record_size", ctypes.c_uint),
                ("rmpp", ctypes.c_int * 5)]


class Port:
    """The first port that libibmad finds."""

    def __init__(self):
        self.library = ctypes.CDLL("libibmad.so.5", use_errno=True)
        self.library.mad_rpc_open_port.restype = ctypes.c_void_p
        self.library.smp_query_status_via.restype = ctypes.c_void_p
        self.library.sa_rpc_call.restype = ctypes.c_void_p
        classes = (ctypes.c_int * 3)(SMI, SMI_DIRECT, SA)
        self.port = ctypes.c_void_p(self.library.mad_rpc_open_port(None, 0, classes, 3))
        assert self.port.value, "no port"

    def get(self, path, attribute, modifier):
        """Returns the value, or the status of the response."""
        to = Destination(path=Path(len(path), (0, *path)))
        buffer = ctypes.create_string_buffer(SMP_SIZE)
        status = ctypes.c_int(-1)
        found = self.library.smp_query_status_via(buffer, ctypes.byref(to), attribute, modifier, TIMEOUT,
                                                  ctypes.byref(status), self.port)
        assert found or status.value > 0, f"no response: {path} {attribute:#x} {modifier:#x}"
        return buffer.raw if found else status.value

    def join(self, mgid, members, qkey=0x11111111):
        """Lets the ports of these GIDs join a multicast group as full members. The first creates it, in the
        default partition. Returns its MLID."""
        sm_lid = struct.unpack_from(">H", self.get((), PORT_INFO, 0), 18)[0]
        mask = JOIN | CREATE
        for gid in members:
            record = struct.pack(">16s16sIHBBHBBIB", mgid, gid, qkey, 0, 0, 0, 0xffff, 0, 0, 0, 1)
            buffer = ctypes.create_string_buffer(record.ljust(SA_SIZE, b"\0"), SA_SIZE)
            call = SaCall(attribute=MULTICAST_MEMBER, mask=mask, method=SET)
            to = Destination(lid=sm_lid)
            assert self.library.sa_rpc_call(self.port, buffer, ctypes.byref(to), ctypes.byref(call), TIMEOUT), (
                f"the SA refuses {gid.hex()}")
            mask = JOIN
        return struct.unpack_from(">H", buffer.raw, 36)[0]
