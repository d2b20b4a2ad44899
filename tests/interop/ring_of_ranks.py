#!/usr/bin/env python3
"""Processes in a ring, each with reliable connections to its neighbours, as the ranks of an MPI job: what each costs
in descriptors and memory. Prints the rows of docs/programs.md.

Usage: ring_of_ranks.py SOFTIB RING_OF_RANKS [--ranks N] [--neighbours N]...
"""
import argparse
import os
import pathlib
import resource
import subprocess

from softib_subnet import PATIENCE, Subnet, equal, run_tests, skip, wait_for

parser = argparse.ArgumentParser()
parser.add_argument("softib")
parser.add_argument("program")
parser.add_argument("--ranks", type=int, default=20)
parser.add_argument("--neighbours", type=int, action="append")
arguments = parser.parse_args()
RANKS, ROUNDS = arguments.ranks, 10
RANKS_OF_HOST = 256  # which an HCA has room for
# What a rank may cost, with what this program takes: three descriptors of its standard streams, one of its completion
# channel, and 12 KiB of messages for each neighbour.
DESCRIPTORS, DESCRIPTORS_OF_NEIGHBOUR = 16, 2
PRIVATE, PRIVATE_OF_NEIGHBOUR = 600, 25  # KB that no other process has
PROPORTIONAL, PROPORTIONAL_OF_NEIGHBOUR = 800, 70  # KB, where shared pages are divided among those who share them
RESIDENT, RESIDENT_OF_NEIGHBOUR = 7000, 150  # KB, where they are not


def memory_of(pid):
    """Returns the fields of /proc/PID/smaps_rollup in KB."""
    fields = {}
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]:
        name, size, _ = line.split()
        fields[name.rstrip(":")] = int(size)
    return fields


def cost_of(pid):
    memory = memory_of(pid)
    return {"descriptors": len(os.listdir(f"/proc/{pid}/fd")), "resident": memory["Rss"],
            "proportional": memory["Pss"], "private": memory["Private_Clean"] + memory["Private_Dirty"]}


def shared_memory():
    return set(os.listdir("/dev/shm"))


class Ring:
    """The ranks, which do each step together."""

    def __init__(self, subnet, neighbours, hosts):
        self.neighbours = neighbours
        self.processes = [
            subnet.start(f"host{rank % hosts}", arguments.program, str(rank), str(RANKS), str(neighbours), str(ROUNDS),
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE) for rank in range(RANKS)
        ]

    def say(self, line):
        for process in self.processes:
            process.stdin.write(line + "\n")
            process.stdin.flush()

    def expect(self, line):
        for rank, process in enumerate(self.processes):
            equal((rank, process.stdout.readline()), (rank, line + "\n"))

    def connect(self):
        ports = [process.stdout.readline().split() for process in self.processes]
        half = self.neighbours // 2
        for rank, process in enumerate(self.processes):
            words = []
            for place, distance in enumerate((*range(-half, 0), *range(1, half + 1))):
                lid, *pairs = ports[(rank + distance) % RANKS]
                words += [lid, pairs[self.neighbours - 1 - place]]
            process.stdin.write(" ".join(words) + "\n")
            process.stdin.flush()
        self.expect("ready")

    def end(self):
        self.say("end")
        for process in self.processes:
            equal(process.wait(timeout=PATIENCE), 0)


def cost_of_a_rank(neighbours):
    hosts = -(-RANKS // RANKS_OF_HOST)
    before = shared_memory()
    with Subnet(arguments.softib) as subnet:
        for number in range(hosts):
            subnet.softib("set", "hca", f"host{number}", "present")
        ring = Ring(subnet, neighbours, hosts)
        ring.connect()
        ring.say("go")
        ring.expect("ok")
        costs = [cost_of(process.pid) for process in ring.processes]
        highest = {what: max(each[what] for each in costs) for what in costs[0]}
        average = {what: sum(each[what] for each in costs) / RANKS for what in costs[0]}
        print("ranks, neighbours, hosts, descriptors, MB: resident, divided among those who share it, private\n"
              f"| {RANKS:,} | {neighbours} | {hosts} | {average['descriptors']:.0f} | {average['resident'] / 1000:.1f} | "
              f"{average['proportional'] / 1000:.1f} | {average['private'] / 1000:.1f} |\nthe highest: {highest}")
        bounds = {"descriptors": DESCRIPTORS + neighbours * DESCRIPTORS_OF_NEIGHBOUR,
                  "resident": RESIDENT + neighbours * RESIDENT_OF_NEIGHBOUR,
                  "proportional": PROPORTIONAL + neighbours * PROPORTIONAL_OF_NEIGHBOUR,
                  "private": PRIVATE + neighbours * PRIVATE_OF_NEIGHBOUR}
        exceeded = {what: (highest[what], bounds[what]) for what in bounds if highest[what] > bounds[what]}
        equal(exceeded, {})
        ring.end()
        wait_for("the subnet to forget them", lambda: not any(
            node["processes"] for name, node in subnet.nodes().items() if name.startswith("host")))
    equal(shared_memory() - before, set())


def enough_descriptors():
    """This program has two pipes to each rank."""
    wanted = 2 * RANKS + 100
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and limit < wanted:
        skip(f"the limit of descriptors (ulimit -Hn) is {limit}, less than {wanted}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, limit))


def each_rank_has_its_cost():
    for neighbours in arguments.neighbours or [2, 8]:
        cost_of_a_rank(neighbours)


enough_descriptors()
run_tests([each_rank_has_its_cost])
