#!/usr/bin/env python3
"""Runs rdma(8) of iproute2 unmodified on emulated HCAs; it asks by netlink (src/softib/view).

Usage: rdma_tool.py SOFTIB
"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

from softib_subnet import Subnet, equal, need, need_own_network, run_tests

need("rdma", "saquery", "setpriv")
need_own_network()  # for the RoCE port of lo
SOFTIB = os.path.abspath(sys.argv[1])


def rows(subnet, hcas, *command):
    """What rdma prints as JSON on these HCAs."""
    return json.loads(subnet.run(hcas, "rdma", "-j", *command).stdout)


def devices_and_links():
    with Subnet(SOFTIB) as subnet:
        devices = rows(subnet, "a,b", "dev")
        equal([(each["ifindex"], each["ifname"], each["node_type"]) for each in devices],
              [(0, "softib0", "ca"), (1, "softib1", "ca")])
        listed = subnet.run("a,b", "ibv_devices").stdout
        for each in devices:
            guid = each["node_guid"].replace(":", "")
            assert re.search(rf"{each['ifname']}\s+{guid}", listed), listed
        nodes = subnet.nodes()
        for link, name in zip(rows(subnet, "a,b", "link"), ("a", "b"), strict=True):
            equal((link["port"], link["state"], link["physical_state"]), (1, "ACTIVE", "LINK_UP"))
            equal((link["lid"], link["sm_lid"]), (nodes[name]["lid"], 1))
        equal([link["ifname"] for link in rows(subnet, "a,b", "link", "show", "softib1/1")], ["softib1"])
        equal(subnet.run("a", "rdma", "system").stdout.split(), ["netns", "shared", "copy-on-fork", "on"])
        equal(subnet.nodes()["a"]["processes"], [])  # to ask attaches nobody


def states_and_counters_are_those_of_now():
    with Subnet(SOFTIB) as subnet:
        change = f"rdma link; {shlex.quote(SOFTIB)} set port a down; rdma link"
        output = subnet.run("a", "sh", "-c", change).stdout
        equal(re.findall(r"state (\w+) physical", output), ["ACTIVE", "DOWN"])
        subnet.softib("set", "port", "a", "up")
        subnet.run("a", "saquery")
        counters = subnet.nodes()["a"]["counters"]
        assert counters["sent_packets"] > 0, counters
        shown = rows(subnet, "a", "statistic")[0]
        equal({name: shown[name] for name in counters}, counters)


def no_capability_is_needed():
    with Subnet(SOFTIB) as subnet:
        equal(len(json.loads(subnet.run("a", "setpriv", "--bounding-set=-all", "--inh-caps=-all", "rdma", "-j",
                                        "link").stdout)), 1)


def what_is_unknown_is_refused():
    with Subnet(SOFTIB) as subnet:
        refused = subnet.run("a", "rdma", "resource", check=False)
        assert refused.returncode != 0 and "Operation not supported" in refused.stdout, refused.stdout
        unknown = subnet.run("a", "rdma", "dev", "show", "softib9", check=False)
        assert unknown.returncode != 0 and "softib9" in unknown.stdout, unknown.stdout


def a_roce_port_has_an_interface():
    with tempfile.TemporaryDirectory() as folder:
        output = subprocess.run([SOFTIB, "run", "--roce", "lo", "--", "rdma", "-j", "link"], check=True, text=True,
                                env={**os.environ, "SOFTIB_DIR": folder}, stdout=subprocess.PIPE).stdout
        link = json.loads(output)[0]
        equal((link["ifname"], link["state"], link["netdev"]), ("softib0", "ACTIVE", "lo"))
        assert "lid" not in link, link


run_tests([devices_and_links, states_and_counters_are_those_of_now, no_capability_is_needed,
           what_is_unknown_is_refused, a_roce_port_has_an_interface], sys.argv[2:])
