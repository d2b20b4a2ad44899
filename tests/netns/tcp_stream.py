#!/usr/bin/env python3
"""A stream of numbered blocks over TCP, each byte of which the other side compares.

Usage: tcp_stream.py receive PORT
       tcp_stream.py send ADDRESS PORT SECONDS

The receiver answers each block. The sender prints how many it has sent, and the longest time that it waited
for an answer, in milliseconds.
"""
import random
import socket
import sys
import time

BLOCK = 64 * 1024
PATIENCE = 30


def block(number):
    return random.Random(number).randbytes(BLOCK)


def receive(port):
    server = socket.create_server(("", port))
    while True:
        peer, _ = server.accept()
        with peer:
            number = 0
            while data := peer.recv(BLOCK, socket.MSG_WAITALL):
                # The end of the connection is the sign for a wrong block.
                if data != block(number):
                    break
                peer.sendall(number.to_bytes(4, "big"))
                number += 1


def send(address, port, seconds):
    sent, longest = 0, 0
    with socket.create_connection((address, port), PATIENCE) as peer:
        end = time.monotonic() + seconds
        while (begin := time.monotonic()) < end:
            peer.sendall(block(sent))
            answer = peer.recv(4, socket.MSG_WAITALL)
            assert answer == sent.to_bytes(4, "big"), f"block {sent} has arrived wrong"
            longest = max(longest, time.monotonic() - begin)
            sent += 1
    print(f"{sent} blocks sent, longest wait {1000 * longest:.0f} ms")


if sys.argv[1] == "receive":
    receive(int(sys.argv[2]))
else:
    send(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
