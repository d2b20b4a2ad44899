#!/usr/bin/env python3
"""Runs libfabric's fi_pingpong over its provider verbs between two emulated HCAs: connected endpoints
(msg), and reliable datagrams on top of them (ofi_rxm).

Usage: libfabric.py SOFTIB

The connected endpoints have GIDs as addresses (AF_IB) where no network interface has an address of
the HCA. Those of ofi_rxm need IP addresses: libfabric 1.17 resolves an AF_IB address without a
destination, which librdmacm refuses.
"""
import subprocess
import sys

from softib_subnet import PATIENCE, Subnet, add_addresses, is_listening, need, need_own_network, run_tests, wait_for

need("fi_pingpong")
need_own_network()
SOFTIB = sys.argv[1]
CONTROL_PORT = 47592  # of fi_pingpong
ITERATIONS, SIZES = 10, 6
# After the last message both sides close; the one that is slower may find its receives flushed, and takes that
# for a failure.
FLUSHED = "cq_readerr: Work Request Flushed Error"


def pingpong(subnet, provider, endpoint, address):
    command = ("fi_pingpong", "-p", provider, "-e", endpoint, "-c", "-I", str(ITERATIONS))
    log = subnet.folder / "server.out"
    with open(log, "w", encoding="utf-8") as out:
        server = subnet.start("a", *command, stdout=out, stderr=subprocess.STDOUT)
    wait_for("the server", lambda: is_listening(CONTROL_PORT) or server.poll() is not None)
    client = subnet.run("b", *command, address, check=False)
    ends = ((server.wait(timeout=PATIENCE), log.read_text()), (client.returncode, client.stdout))
    for status, output in ends:
        assert status == 0 or FLUSHED in output, f"status {status}: {output}"
        rows = [row for row in output.splitlines() if f" ={ITERATIONS} " in row]
        assert len(rows) >= SIZES, output


def connected_endpoints_by_gids():
    with Subnet(SOFTIB) as subnet:
        pingpong(subnet, "verbs", "msg", "127.0.0.1")


def endpoints_by_ip_addresses():
    addresses = {"a": "10.1.0.1", "b": "10.1.0.2"}
    with Subnet(SOFTIB) as subnet:
        add_addresses(subnet, addresses)
        pingpong(subnet, "verbs", "msg", addresses["a"])
        pingpong(subnet, "verbs;ofi_rxm", "rdm", addresses["a"])


run_tests([connected_endpoints_by_gids, endpoints_by_ip_addresses])
