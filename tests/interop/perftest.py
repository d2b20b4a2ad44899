#!/usr/bin/env python3
"""Runs perftest's datagram programs between two emulated HCAs; any speed passes.

Usage: perftest.py SOFTIB
"""
import re
import sys
from concurrent.futures import ThreadPoolExecutor

from softib_subnet import Subnet, need, play, run_tests

need("ib_send_bw", "ib_send_lat")
SOFTIB = sys.argv[1]


def results(output):
    """Returns the rows of numbers below the headings."""
    return [line.split() for line in output.splitlines() if re.match(r"^ *\d+ +\d+ +\d", line)]


def bandwidth_of_each_posting_mode():
    with Subnet(SOFTIB) as subnet:
        for options in ([], ["--use_old_post_send"], ["--events"], ["--post_list", "20"]):
            _, client = play(subnet, "ib_send_bw", "-c", "UD", "-n", "1000", *options)
            assert [row[:2] for row in results(client)] == [["2048", "1000"]], client


def all_sizes():
    sizes = [str(1 << power) for power in range(1, 12)]
    with Subnet(SOFTIB) as subnet:
        for program in ("ib_send_bw", "ib_send_lat"):
            for options in ([], ["--events"]):
                _, client = play(subnet, program, "-c", "UD", "-a", "-n", "200", *options)
                assert [row[0] for row in results(client)] == sizes, client


def several_processes_on_the_same_hcas():
    with Subnet(SOFTIB) as subnet, ThreadPoolExecutor() as pool:
        pairs = [pool.submit(play, subnet, "ib_send_bw", "-c", "UD", "-n", "500") for _ in range(3)]
        for pair in pairs:
            _, client = pair.result()
            assert [row[:2] for row in results(client)] == [["2048", "500"]], client


def bandwidth_in_both_directions():
    with Subnet(SOFTIB) as subnet:
        for output in play(subnet, "ib_send_bw", "-c", "UD", "-n", "1000", "-b"):
            assert [row[:2] for row in results(output)] == [["2048", "1000"]], output


def latency_by_polling_and_by_events():
    with Subnet(SOFTIB) as subnet:
        for options in ([], ["--events"]):
            _, client = play(subnet, "ib_send_lat", "-c", "UD", "-n", "1000", *options)
            assert [row[:2] for row in results(client)] == [["2", "1000"]], client


run_tests([bandwidth_of_each_posting_mode, all_sizes, several_processes_on_the_same_hcas,
           bandwidth_in_both_directions, latency_by_polling_and_by_events])
