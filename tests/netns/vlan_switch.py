#!/usr/bin/env python3
"""A bridge with VLANs in user space, for kernels whose bridge has none: floods frames between ports.

    vlan_switch.py TRUNK PORT=VLAN ...

The trunk has the frames of all VLANs, with tags; a port those of its own VLAN, without; VLAN 0 has no tag on
the trunk either. Large packets and partial checksums pass as they are.
"""

import select
import socket
import struct
import sys

SOL_PACKET, AUXDATA, VNET_HEADER, IGNORE_OUTGOING = 263, 8, 15, 23
VLAN_VALID = 0x10  # in the status of the auxiliary data
NEEDS_CHECKSUM = 1
HEADER = struct.Struct("=BBHHHH")  # struct virtio_net_hdr
AUXILIARY = struct.Struct("=IIIHHHH")  # struct tpacket_auxdata
LARGEST = 1 << 17


def open_port(name):
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    for option in (AUXDATA, VNET_HEADER, IGNORE_OUTGOING):
        port.setsockopt(SOL_PACKET, option, 1)
    port.bind((name, 3))  # ETH_P_ALL
    return port


def receive(port):
    """Returns the header, the frame without a tag, and the VLAN of its tag, or 0."""
    data, auxiliary, _, _ = port.recvmsg(LARGEST, socket.CMSG_SPACE(AUXILIARY.size))
    status, *_, tag, _ = AUXILIARY.unpack(auxiliary[0][2][:AUXILIARY.size])
    return data[:HEADER.size], data[HEADER.size:], tag & 0xfff if status & VLAN_VALID else 0


def tagged(header, frame, vlan):
    if vlan == 0:
        return header, frame
    flags, kind, length, size, start, offset = HEADER.unpack(header)
    if flags & NEEDS_CHECKSUM:
        length, start = length + 4, start + 4
    header = HEADER.pack(flags, kind, length, size, start, offset)
    return header, frame[:12] + struct.pack("!HH", 0x8100, vlan) + frame[12:]


def send(port, header, frame):
    # That a checksum was verified is nothing that a sender can say.
    header = bytes([header[0] & NEEDS_CHECKSUM]) + header[1:]
    try:
        port.send(header + frame)
    except OSError as error:  # a port that is down, or an MTU that is too small
        print(f"not sent: {error}", flush=True)


def main(trunk_name, *ports):
    trunk = open_port(trunk_name)
    vlans = {}
    for port in ports:
        name, vlan = port.split("=")
        vlans[open_port(name)] = int(vlan)
    print("switching", flush=True)
    while True:
        for ready in select.select([trunk, *vlans], [], [])[0]:
            header, frame, tag = receive(ready)
            vlan = tag if ready is trunk else vlans[ready]
            if ready is not trunk:
                send(trunk, *tagged(header, frame, vlan))
            for port, its_vlan in vlans.items():
                if port is not ready and its_vlan == vlan:
                    send(port, header, frame)


if __name__ == "__main__":
    main(*sys.argv[1:])
