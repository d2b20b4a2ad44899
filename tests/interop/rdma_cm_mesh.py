#!/usr/bin/env python3
"""Many processes on some HCAs, each of which connects to all others by the RDMA CM. One is killed:
all others are told, and nothing else changes.

Usage: rdma_cm_mesh.py SOFTIB RDMA_CM_MESH [--processes N]
"""
import argparse
import json
import subprocess
import time

from softib_subnet import PATIENCE, Subnet, equal, run_tests

parser = argparse.ArgumentParser()
parser.add_argument("softib")
parser.add_argument("program")
parser.add_argument("--processes", type=int, default=24)
arguments = parser.parse_args()
PROCESSES, HCAS = arguments.processes, 4
KILLED = PROCESSES // 2


def each_connects_to_all_others():
    with Subnet(arguments.softib) as subnet:
        hcas = [f"hca{number}" for number in range(HCAS)]
        for hca in hcas:
            subnet.run(hca, "true")  # in this order, which gives them their addresses
        processes = [
            subnet.start(hcas[rank % HCAS], arguments.program, str(rank), str(PROCESSES), str(HCAS),
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE) for rank in range(PROCESSES)
        ]

        def say(line):
            for process in processes:
                process.stdin.write(line + "\n")
                process.stdin.flush()

        def expect(line):
            for rank, process in enumerate(processes):
                equal((rank, process.stdout.readline()), (rank, line + "\n"))

        expect("ready")
        begun = time.monotonic()
        say("connect")
        expect("connected")
        connections = PROCESSES * (PROCESSES - 1) // 2
        print(f"{connections} connections in {time.monotonic() - begun:.1f} s")
        shown = json.loads(subnet.softib("show", "--cm", "--json"))["processes"]
        equal(sum(each.get("connection") == "Established" for one in shown for each in one["ids"]),
              2 * connections)
        killed = processes.pop(KILLED)
        killed.kill()
        killed.wait()
        expect("lost")
        say("end")
        expect("done")
        for process in processes:
            equal(process.wait(timeout=PATIENCE), 0)


run_tests([each_connects_to_all_others])
