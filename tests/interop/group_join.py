#!/usr/bin/env python3
"""Lets ports join a multicast group, which the first of them creates. Prints its MLID.

Usage: group_join.py MGID GID...
"""
import socket
import sys

from libibmad import Port

mgid, *members = [socket.inet_pton(socket.AF_INET6, gid) for gid in sys.argv[1:]]
print(Port().join(mgid, members))
