#!/usr/bin/env python3
"""Runs rdma(8) of iproute2 unmodified on emulated HCAs; it asks by netlink (src/softib/view).

Usage: rdma_tool.py SOFTIB
"""
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile

from rdma_core_suite import PYTHON
from softib_subnet import PATIENCE, Subnet, equal, need, need_own_network, run_tests, skip, wait_for

need("rdma", "rping", "saquery", "setpriv")
if subprocess.run([PYTHON, "-c", "import pyverbs"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
    skip("python3-pyverbs is not installed")
need_own_network()  # for the RoCE port of lo
SOFTIB = os.path.abspath(sys.argv[1])
MANY_REGIONS = 20000  # their list is longer than the receive buffer of a socket


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
        refused = subnet.run("a", "rdma", "dev", "set", "softib0", "name", "other", check=False)
        assert refused.returncode != 0 and "Operation not supported" in refused.stdout, refused.stdout
        unknown = subnet.run("a", "rdma", "dev", "show", "softib9", check=False)
        assert unknown.returncode != 0 and "softib9" in unknown.stdout, unknown.stdout


def resources_are_those_of_all_processes():
    with Subnet(SOFTIB) as subnet:
        equal(rows(subnet, "a", "resource"),
              [{"ifindex": 0, "ifname": "softib0", "pd": 0, "cq": 0, "qp": 0, "cm_id": 0, "mr": 0, "ctx": 0, "srq": 0}])
        server = subnet.start("a", "rping", "-s", "-a", "0.0.0.0")
        address = subnet.nodes()["a"]["addresses"][0]
        wait_for("a listener", lambda: rows(subnet, "a", "resource", "show", "cm_id"))
        client = subnet.start("b", "rping", "-c", "-a", address)
        wait_for("a connection", lambda: [qp for qp in rows(subnet, "b", "resource", "show", "qp")
                                          if qp["state"] == "RTS"])

        def all_of(kind):
            found = rows(subnet, "a,b", "resource", "show", kind)
            assert all(each["comm"] == "rping" for each in found), found
            return {each["pid"]: each for each in found if each.get("state") != "LISTEN"}

        pairs = all_of("qp")
        equal(set(pairs), {server.pid, client.pid})
        for own, other in ((server.pid, client.pid), (client.pid, server.pid)):
            pair, peer = pairs[own], pairs[other]
            equal((pair["rqpn"], pair["type"], pair["state"], pair["port"]), (peer["lqpn"], "RC", "RTS", 1))
            users = {each["pdn"]: each["users"] for each in rows(subnet, "a,b", "resource", "show", "pd")
                     if each["pid"] == own}
            assert users[pair["pdn"]] >= 2, users  # the queue pair and its memory
            equal(all_of("mr")[own]["pdn"], pair["pdn"])
            equal(all_of("cq")[own]["users"], 2)
            equal(all_of("cm_id")[own]["lqpn"], pair["lqpn"])
            equal(all_of("ctx")[own]["pid"], own)
        client_id = all_of("cm_id")[client.pid]
        equal((client_id["state"], client_id["ps"], client_id["dst-addr"]), ("CONNECT", "TCP", f"{address}:7174"))
        summary = rows(subnet, "a,b", "resource")[0]
        equal({name: summary[name] for name in ("cq", "qp", "ctx", "cm_id", "srq")},
              {"cq": 1, "qp": 1, "ctx": 1, "cm_id": 2, "srq": 0})
        one = subnet.run("a", "rdma", "resource", "show", "qp", "link", "softib0/1", "lqpn",
                         str(pairs[server.pid]["lqpn"])).stdout
        assert f"pid {server.pid} comm rping" in one, one
        # A process that is stopped does not answer, and delays the others for a moment only.
        server.send_signal(signal.SIGSTOP)
        equal(set(all_of("qp")), {client.pid})
        server.send_signal(signal.SIGCONT)
        wait_for("the answer of the process", lambda: set(all_of("qp")) == {server.pid, client.pid})
        client.kill()
        client.wait()
        wait_for("the end of its objects", lambda: client.pid not in all_of("qp"))


MANY = """
import sys
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
import pyverbs.enums as e
pd = PD(Context(name="softib0"))
regions = [MR(pd, 4096, e.IBV_ACCESS_LOCAL_WRITE) for _ in range(int(sys.argv[1]))]
print("registered", flush=True)
sys.stdin.read()
"""


def more_resources_than_a_socket_has_room_for():
    with Subnet(SOFTIB) as subnet:
        owner = subnet.start("a", PYTHON, "-c", MANY, str(MANY_REGIONS), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        equal(owner.stdout.readline(), "registered\n")
        equal(sorted(each["mrn"] for each in rows(subnet, "a", "resource", "show", "mr")), list(range(MANY_REGIONS)))
        equal(rows(subnet, "a", "resource")[0]["mr"], MANY_REGIONS)
        owner.stdin.close()
        owner.stdout.close()
        owner.wait(PATIENCE)


def a_roce_port_has_an_interface():
    with tempfile.TemporaryDirectory() as folder:
        output = subprocess.run([SOFTIB, "run", "--roce", "lo", "--", "rdma", "-j", "link"], check=True, text=True,
                                env={**os.environ, "SOFTIB_DIR": folder}, stdout=subprocess.PIPE).stdout
        link = json.loads(output)[0]
        equal((link["ifname"], link["state"], link["netdev"]), ("softib0", "ACTIVE", "lo"))
        assert "lid" not in link, link


run_tests([devices_and_links, states_and_counters_are_those_of_now, no_capability_is_needed,
           what_is_unknown_is_refused, resources_are_those_of_all_processes,
           more_resources_than_a_socket_has_room_for, a_roce_port_has_an_interface], sys.argv[2:])
