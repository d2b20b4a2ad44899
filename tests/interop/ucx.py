#!/usr/bin/env python3
"""UCX on softib: its tools, over reliable connections and over datagrams, polled and with events, and a program
whose endpoints the RDMA CM connects.

It finds devices only if there are files of them (src/softib/view). openmpi.py checks the data.

Usage: ucx.py SOFTIB [NAME]...
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from softib_subnet import Subnet, equal, free_tcp_port, is_listening, need, run_tests, skip, wait_for

need("ucx_info", "ucx_perftest")
SOFTIB = sys.argv[1]
PORT = 4321  # of the RDMA CM, whose ports are those of the subnet
TRANSPORTS = {"rc": "rc_v,self", "ud": "ud_v,self"}  # with what they need for their set-up


def measure(subnet, transport, test, *options):
    """Runs a test of ucx_perftest between two HCAs; its exit status says whether all went well."""
    port = free_tcp_port()
    command = ["env", f"UCX_TLS={TRANSPORTS[transport]}", "UCX_NET_DEVICES=softib0:1", "ucx_perftest",
               "-p", str(port), "-f", "-n", "200", *options]
    server = subnet.start("a", *command, stdout=subprocess.DEVNULL)
    wait_for("the server", lambda: is_listening(port) or server.poll() is not None)
    output = subnet.run("b", *command, "-t", test, "127.0.0.1").stdout
    assert server.wait(timeout=60) == 0, output
    assert re.search(r"^ +200 ", output, re.MULTILINE), output


def devices():
    with Subnet(SOFTIB) as subnet:
        output = subnet.run("a", "ucx_info", "-d").stdout
        for transport in ("rc_verbs", "ud_verbs"):
            assert re.search(rf"Transport: {transport}\n# +Device: softib0:1\n", output), output
        assert "Connection manager: rdmacm" in output, output


def all_tests(transport):
    with Subnet(SOFTIB) as subnet:
        for test in ("tag_lat", "tag_bw", "stream_lat", "ucp_put_lat", "ucp_put_bw", "ucp_get",
                     "ucp_am_lat"):
            for size in ("8", "100000"):
                measure(subnet, transport, test, "-s", size)


def reliable_connections():
    all_tests("rc")


def datagrams():
    all_tests("ud")


def atomics():
    with Subnet(SOFTIB) as subnet:
        for test in ("ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap"):
            measure(subnet, "rc", test, "-s", "8")


def events():
    """A program that sleeps until there is an event."""
    with Subnet(SOFTIB) as subnet:
        for transport in TRANSPORTS:
            for test in ("tag_lat", "tag_bw"):
                measure(subnet, transport, test, "-s", "4096", "-E", "sleep")


def endpoints_that_the_rdma_cm_connects():
    """ucx_perftest of 1.13 exchanges addresses by TCP, so this is a program of its own, which compares its data."""
    need("gcc")
    if subprocess.run(["pkg-config", "--exists", "ucx"], check=False).returncode != 0:
        skip("libucx-dev is not installed")
    with Subnet(SOFTIB) as subnet, tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/ucx_echo"
        source = pathlib.Path(__file__).with_name("ucx_echo.c")
        subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, source, "-lucp", "-lucs"],
                       check=True)
        for transport in TRANSPORTS.values():
            command = ["env", f"UCX_TLS={transport}", "UCX_NET_DEVICES=softib0:1",
                       "UCX_SOCKADDR_TLS_PRIORITY=rdmacm", program]
            server = subnet.start("a", *command, "server", str(PORT), stdout=subprocess.PIPE)
            equal(server.stdout.readline(), "listens\n")
            processes = json.loads(subnet.softib("show", "--cm", "--json"))["processes"]
            equal([(each["program"], [id_["state"] for id_ in each["ids"]]) for each in processes],
                  [("ucx_echo", ["Listen"])])
            output = subnet.run("b", *command, "client", "127.77.0.1", str(PORT)).stdout
            equal(output, "100 messages came back\n")
            equal(server.wait(timeout=60), 0)


run_tests([devices, reliable_connections, datagrams, atomics, events, endpoints_that_the_rdma_cm_connects],
          sys.argv[2:])
