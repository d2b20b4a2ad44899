#!/usr/bin/env python3
"""Kills the source or the target of RDMA WRITEs at random: the survivor ends by itself, and memory
outside the region stays as it was.

Usage: write_kills.py SOFTIB WRITE_KILLS [--kills N] [--seed N]
"""
import argparse
import subprocess

from softib_subnet import Subnet, run_tests

parser = argparse.ArgumentParser()
parser.add_argument("softib")
parser.add_argument("write_kills")
parser.add_argument("--kills", type=int, default=60)
parser.add_argument("--seed", type=int, default=1)
ARGUMENTS = parser.parse_args()


def random_kills_change_no_memory_outside_the_region():
    with Subnet(ARGUMENTS.softib) as subnet:
        for hca in ("a", "b"):
            subnet.run(hca, "true")
        command = subnet.command("a", ARGUMENTS.write_kills, str(ARGUMENTS.kills),
                                 str(ARGUMENTS.seed), "a", "b")
        done = subprocess.run(command, env=subnet.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        print(done.stdout, end="")
        assert done.returncode == 0, done.returncode
        assert f"{ARGUMENTS.kills} kills" in done.stdout, done.stdout


run_tests([random_kills_change_no_memory_outside_the_region])
