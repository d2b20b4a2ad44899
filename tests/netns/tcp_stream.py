#!/usr/bin/env python3
"""A stream of numbered blocks over TCP, each byte of which the other side compares.

Usage: tcp_stream.py receive PORT
       tcp_stream.py send ADDRESS PORT

The receiver prints "listening", and answers each block; at the first wrong one it ends with 1. The sender prints
how many have been answered, several times a second, and ends when its standard input does; then it prints how many
it has sent, and the longest time that it waited for an answer, in milliseconds.
"""
import random
import select
import socket
import sys
import time

BLOCK = 64 * 1024
PATIENCE = 60
REPORT = 0.05  # seconds


def block(number):
    return random.Random(number).randbytes(BLOCK)


def receive(port):
    with socket.create_server(("", port)) as server:
        print("listening", flush=True)
        peer, _ = server.accept()
    with peer:
        number = 0
        while data := peer.recv(BLOCK, socket.MSG_WAITALL):
            if data != block(number):
                sys.exit(f"block {number} has arrived wrong")
            peer.sendall(number.to_bytes(4, "big"))
            number += 1
    print(f"{number} blocks have arrived")


def send(address, port):
    sent, longest, report = 0, 0, time.monotonic()
    with socket.create_connection((address, port), PATIENCE) as peer:
        while not select.select([sys.stdin], [], [], 0)[0]:
            begin = time.monotonic()
            if begin >= report:
                print(sent, flush=True)
                report = begin + REPORT
            peer.sendall(block(sent))
            answer = peer.recv(4, socket.MSG_WAITALL)
            if answer != sent.to_bytes(4, "big"):
                sys.exit(f"block {sent} was not answered")
            longest = max(longest, time.monotonic() - begin)
            sent += 1
    print(f"{sent} blocks sent, longest wait {1000 * longest:.0f} ms")


if sys.argv[1] == "receive":
    receive(int(sys.argv[2]))
else:
    send(sys.argv[2], int(sys.argv[3]))
