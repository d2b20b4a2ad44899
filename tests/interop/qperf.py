#!/usr/bin/env python3
"""Runs the RDMA tests of qperf between two emulated HCAs; any speed passes.

Usage: qperf.py SOFTIB
"""
import re
import subprocess
import sys

from softib_subnet import PATIENCE, Subnet, equal, free_tcp_port, is_listening, need, run_tests, wait_for

need("qperf")
SOFTIB = sys.argv[1]
TESTS = [
    *(f"{transport}_{kind}" for transport in ("rc", "uc", "ud") for kind in ("bi_bw", "bw", "lat")),
    *(f"{transport}_rdma_write_{kind}" for transport in ("rc", "uc")
      for kind in ("bw", "lat", "poll_lat")),
    "rc_rdma_read_bw", "rc_rdma_read_lat", "rc_compare_swap_mr", "rc_fetch_add_mr",
    "ver_rc_compare_swap", "ver_rc_fetch_add",
]
OVER_RDMA_CM = ["rc_bw", "rc_rdma_read_lat"]
ATTEMPTS = 10


def each_rdma_test():
    measure(TESTS, "127.0.0.1")


def connections_by_the_rdma_cm():
    measure(OVER_RDMA_CM, "127.77.0.1", "-cm1")  # an address of the HCA, and of the host for TCP


def run_client(command, environment):
    """The server names its port of the RDMA CM before it listens there: a client may be rejected."""
    for _ in range(ATTEMPTS):
        client = subprocess.run(command, env=environment, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, timeout=PATIENCE)
        if "Event rejected" not in client.stdout:
            break
    return client


def measure(tests, server_address, *options):
    with Subnet(SOFTIB) as subnet:
        port = str(free_tcp_port())
        # No pipe: the server forks for each client.
        server = subnet.start("a", "qperf", "-lp", port, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
        wait_for("the server", lambda: is_listening(int(port)) or server.poll() is not None)
        for test in tests:
            client = run_client(
                subnet.command("b", "qperf", "-lp", port, server_address, "-t", "1", *options, test),
                subnet.environment)
            equal(client.returncode, 0)
            figures = re.findall(r"(?:bw|latency|msg_rate) +=  *([0-9.]+) ", client.stdout)
            assert figures and all(float(each) > 0 for each in figures), client.stdout
        quit_server = subnet.run("b", "qperf", "-lp", port, server_address, "quit")
        equal(quit_server.returncode, 0)
        server.wait(PATIENCE)


run_tests([each_rdma_test, connections_by_the_rdma_cm])
