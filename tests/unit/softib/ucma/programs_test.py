#!/usr/bin/env python3
"""Tests connections by the RDMA CM with the small programs of librdmacm.

Usage: programs_test.py SOFTIB [TEST]...
"""
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "interop"))
from connected_programs import groups, play  # noqa: E402
from softib_subnet import PATIENCE, Subnet, equal, need, need_root, run_tests, wait_for  # noqa: E402

need("rping", "udaddy", "ucmatose", "mckey", "rdma_server", "rdma_client")
need_root()
SOFTIB = os.path.abspath(sys.argv[1])
V4, V6 = "127.77.0.1", "fd77::1"  # of HCA "a", which is the first one of its subnet
OTHER_V4 = "127.77.0.2"


def rping_carries_data_over_ipv4_and_ipv6():
    with Subnet(SOFTIB) as subnet:
        for to, options in (V4, ["-S", "17"]), (V6, ["-S", "65535"]), (V4, ["-q"]):
            for output in play(subnet, ["rping", "-s", "-v", "-C", "3", *options, "-a", to],
                               ["rping", "-c", "-v", "-C", "3", *options, "-a", to]):
                equal(re.findall(r"ping data: rdma-ping-(\d+): ", output), ["0", "1", "2"])


def connections_of_each_kind_end_well():
    with Subnet(SOFTIB) as subnet:
        for server, client, word in (
                (["ucmatose", "-c", "3"], ["ucmatose", "-c", "3", "-s", V4], "data transfers complete"),
                (["ucmatose", "-m"], ["ucmatose", "-m", "-s", V4], "data transfers complete"),
                (["udaddy", "-c", "3"], ["udaddy", "-c", "3", "-s", V4], "data transfers complete"),
                (["rdma_server"], ["rdma_client", "-s", V4], "end 0")):
            for output in play(subnet, server, client):
                assert word in output, (client, output)


def members_of_a_group_get_what_is_sent_to_it():
    with Subnet(SOFTIB) as subnet:
        for group, own, other in ("239.1.2.3", V4, OTHER_V4), ("ff15::77", V6, "fd77::2"):
            before, log = groups(subnet), subnet.folder / "member.out"
            with open(log, "w", encoding="utf-8") as out:
                member = subnet.start("a", "mckey", "-m", group, "-b", own, stdout=out, stderr=subprocess.STDOUT)
            wait_for("it has joined", lambda n=before, of=member: groups(subnet) > n or of.poll() is not None)
            printed = subnet.run("b", "mckey", "-s", "-m", group, "-b", other).stdout
            equal(member.wait(timeout=PATIENCE), 0)
            for output in log.read_text(encoding="utf-8"), printed:
                assert "data transfers complete" in output, output


def nobody_listens():
    with Subnet(SOFTIB) as subnet:
        subnet.run("a", "true")
        for program in ["rping", "-c", "-a", V4], ["ucmatose", "-s", V4], ["udaddy", "-s", V4]:
            done = subnet.run("b", *program, check=False)
            assert done.returncode != 0, done
            assert re.search("REJECTED|UNREACHABLE", done.stdout), done


if __name__ == "__main__":
    run_tests([rping_carries_data_over_ipv4_and_ipv6, connections_of_each_kind_end_well,
               members_of_a_group_get_what_is_sent_to_it, nobody_listens], sys.argv[2:])
