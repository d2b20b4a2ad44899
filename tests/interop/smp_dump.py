#!/usr/bin/env python3
"""Prints all attributes of subnet management of all nodes of a subnet as JSON, read by directed routes.

Usage: smp_dump.py

The keys are "NODE-GUID attribute modifier", the values the 64 bytes in hexadecimal digits, or "status N".
"""
import json
import sys

from libibmad import (GUID_INFO, LINEAR_TABLE, MULTICAST_TABLE, NODE_DESCRIPTION, NODE_INFO, PKEY_TABLE,
                      PORT_INFO, SL_TO_VL, SWITCH_INFO, VL_ARBITRATION, Port)

LINK_UP = 5
SWITCH = 2
MULTICAST_PORTS = 16
NAMES = {NODE_DESCRIPTION: "NodeDescription", NODE_INFO: "NodeInfo", SWITCH_INFO: "SwitchInfo",
         GUID_INFO: "GUIDInfo", PORT_INFO: "PortInfo", PKEY_TABLE: "P_KeyTable", SL_TO_VL: "SLtoVLMappingTable",
         VL_ARBITRATION: "VLArbitrationTable", LINEAR_TABLE: "LinearForwardingTable",
         MULTICAST_TABLE: "MulticastForwardingTable"}


class Dump:
    """Walks over the subnet, breadth first."""

    def __init__(self, port):
        self.port = port
        self.values = {}

    def walk(self):
        paths = [()]
        while paths:
            path = paths.pop(0)
            info = self.port.get(path, NODE_INFO, 0)
            kind, ports, guid, entry = info[2], info[3], info[12:20].hex(), info[36]
            if f"{guid} NodeInfo 0" not in self.values:
                exits = range(1, ports + 1) if kind == SWITCH else [entry] if path == () else []
                paths += [path + (exit,) for exit in exits
                          if self.port.get(path, PORT_INFO, exit)[33] >> 4 == LINK_UP]
                self.read_node(path, guid, kind, ports)
            # The way by which it was found decides on LocalPortNum.
            self.values[f"{guid} NodeInfo {entry if path else 0}"] = info.hex()

    def read_node(self, path, guid, kind, ports):
        def read(attribute, modifier=0):
            value = self.port.get(path, attribute, modifier)
            self.values[f"{guid} {NAMES[attribute]} {modifier:#x}"] = (
                f"status {value}" if isinstance(value, int) else value.hex())
            return value

        self.values[f"{guid} NodeInfo 0"] = ""
        read(NODE_DESCRIPTION)
        for block in (0, 1):
            read(GUID_INFO, block)
        for number in range(ports + 2):
            read(PORT_INFO, number)
        numbers = range(ports + 1) if kind == SWITCH else [0]
        for out in numbers:
            read(PKEY_TABLE, out << 16)
            for block in range(1, 5):
                read(VL_ARBITRATION, block << 16 | out)
            for entry in numbers:
                read(SL_TO_VL, entry << 8 | out)
        read(PKEY_TABLE, 1)
        for modifier in (0, 5 << 16):
            read(VL_ARBITRATION, modifier)
        read(SWITCH_INFO)
        for block in (0, 1, 2, 767, 768):
            read(LINEAR_TABLE, block)
        for position in range((ports + 1 + MULTICAST_PORTS - 1) // MULTICAST_PORTS + 1):
            for block in (0, 1, 31):
                read(MULTICAST_TABLE, position << 28 | block)


def main():
    dump = Dump(Port())
    dump.walk()
    json.dump(dump.values, sys.stdout)


main()
