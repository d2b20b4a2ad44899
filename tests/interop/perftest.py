#!/usr/bin/env python3
"""Runs perftest's programs between two emulated HCAs; any speed passes.

Usage: perftest.py SOFTIB
"""
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from softib_subnet import (PATIENCE, Subnet, free_tcp_port, is_listening, need, play, run_tests,
                           wait_for)

need(*(f"ib_{operation}_{kind}" for operation in ("atomic", "read", "send", "write")
       for kind in ("bw", "lat")))
SOFTIB = sys.argv[1]
# Of programs that poll for each other's messages: on a busy processor one of them waits for the other's turn
# to end, twice an iteration.
TURNS = "50"


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
        for program, *options in (("ib_send_bw", "-n", "200"), ("ib_send_lat", "-n", "20", "--events")):
            _, client = play(subnet, program, "-c", "UD", "-a", *options)
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
            _, client = play(subnet, "ib_send_lat", "-c", "UD", "-n", TURNS, *options)
            assert [row[:2] for row in results(client)] == [["2", TURNS]], client


def connected_bandwidth():
    """Of each operation, each with its ways to post."""
    ways = {
        "ib_send_bw": ([], ["--events"], ["--post_list", "20"], ["-I", "64", "-s", "64"], ["-b"]),
        "ib_write_bw": (["--use_old_post_send"], ["-q", "4"], ["-s", "1000001"], ["-s", "1"]),
        "ib_read_bw": ([], ["--events"], ["-q", "4"], ["-s", "1000001"]),
        "ib_atomic_bw": ([], ["-A", "CMP_AND_SWAP"]),
    }
    with Subnet(SOFTIB) as subnet:
        for program, options in ways.items():
            for way in options:
                _, client = play(subnet, program, "-n", "100", *way)
                assert len(results(client)) == 1, (program, way, client)


def many_connections():
    """They share one HCA on either side, and each of them completes all its messages."""
    with Subnet(SOFTIB) as subnet:
        _, client = play(subnet, "ib_write_bw", "-q", "1000", "-n", "5", "-s", "4096")
        assert [row[:2] for row in results(client)] == [["4096", "5000"]], client


def unreliable_connections():
    """There are no more messages than receives: nobody sends again what found none."""
    with Subnet(SOFTIB) as subnet:
        for program, count in (("ib_send_bw", "300"), ("ib_send_lat", TURNS), ("ib_write_bw", "300"),
                               ("ib_write_lat", TURNS)):
            for way in ([], ["-s", "100001"]):
                _, client = play(subnet, program, "-c", "UC", "-n", count, *way)
                assert len(results(client)) == 1, (program, way, client)


def shared_receive_queues():
    with Subnet(SOFTIB) as subnet:
        for program, options in (("ib_send_bw", ([], ["-q", "4"], ["--events"], ["-s", "100001"],
                                                 ["-c", "UD"], ["-c", "UD", "--events"])),
                                 ("ib_send_lat", ([], ["--events"], ["-c", "UD"]))):
            for way in options:
                _, client = play(subnet, program, "--use-srq", "-n", TURNS, *way)
                assert len(results(client)) == 1, (program, way, client)


def connected_latency():
    """ib_write_lat polls memory and calls no verb meanwhile."""
    with Subnet(SOFTIB) as subnet:
        for program in ("ib_send_lat", "ib_write_lat", "ib_read_lat", "ib_atomic_lat"):
            _, client = play(subnet, program, "-n", TURNS)
            assert len(results(client)) == 1, (program, client)
        for size in ("1", "65537", "8388608"):
            _, client = play(subnet, "ib_write_lat", "-s", size, "-n", "10")
            assert [row[:2] for row in results(client)] == [[size, "10"]], client


def a_failed_target_is_noticed():
    """The requester gets an error if the target is killed, or if the queue pair of the target fails.
    The next target is reached again."""
    with Subnet(SOFTIB) as subnet:
        for end in ("kill", "kill", "error"):
            tcp_port = free_tcp_port()
            command = ["ib_write_bw", "--run_infinitely", "-p", str(tcp_port)]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            target = subnet.start("a", *command, **pipes)
            wait_for("the target", lambda port=tcp_port: is_listening(port))
            requester = subnet.start("b", *command, "127.0.0.1", **pipes)
            wait_for("HCA b", lambda: "b" in subnet.nodes())
            before = subnet.nodes()["b"]["counters"]["sent_packets"]
            wait_for("traffic", lambda before=before: subnet.nodes()["b"]["counters"]["sent_packets"]
                     > before + 1000)
            if end == "error":
                subnet.softib("set", "qp", "a", "error")
            else:
                target.kill()
            output, _ = requester.communicate(timeout=PATIENCE)
            target.kill()
            target.communicate()
            assert requester.returncode != 0 and "Failed status 12" in output, output


run_tests([bandwidth_of_each_posting_mode, all_sizes, several_processes_on_the_same_hcas,
           bandwidth_in_both_directions, latency_by_polling_and_by_events, connected_bandwidth,
           many_connections, unreliable_connections, shared_receive_queues, connected_latency,
           a_failed_target_is_noticed])
