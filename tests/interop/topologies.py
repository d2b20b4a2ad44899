#!/usr/bin/env python3
"""topologies.py SOFTIB FABRIC_MESH: subnets of many switches. Under each routing engine of OpenSM, and
under softib's own subnet manager, every pair of hosts talks by datagrams and by reliable connections."""
import re
import selectors
import subprocess
import sys
import time

from opensm import OpenSm
from softib_subnet import PATIENCE, Subnet, equal, need, run_tests, wait_for

SOFTIB, MESH = sys.argv[1:3]
TREE = "fat-tree:6"  # three levels, 54 hosts
TREE_HOSTS = 54
TORUS = "torus:3x3x3"
MESH_PATIENCE = 3 * PATIENCE


class Mesh:
    """FABRIC_MESH on each host of a subnet."""

    def __init__(self, subnet, hosts):
        self.subnet = subnet
        self.programs = [
            subnet.start(host, MESH, str(i), str(len(hosts)), stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, bufsize=1)
            for i, host in enumerate(hosts)]

    def exchange(self):
        """Lets every pair talk."""
        addresses = [line.split() for line in self.read_lines()]
        for i, program in enumerate(self.programs):
            program.stdin.write("".join(f"{other[0]} {other[1]} {other[2 + i]}\n"
                                        for other in addresses))
            program.stdin.flush()
        equal(set(self.read_lines()), {"ready"})
        self.write("go\n")
        equal(set(self.read_lines()), {"ok"})
        self.write("end\n")
        for program in self.programs:
            equal(program.wait(PATIENCE), 0)

    def write(self, text):
        for program in self.programs:
            program.stdin.write(text)
            program.stdin.flush()

    def read_lines(self):
        """Returns a line of each program, of those that fail all that they have to say."""
        deadline = time.monotonic() + MESH_PATIENCE
        lines = []
        for i, program in enumerate(self.programs):
            with selectors.DefaultSelector() as selector:
                selector.register(program.stdout, selectors.EVENT_READ)
                if not selector.select(max(0, deadline - time.monotonic())):
                    program.stdin.close()
                    lines.append(f"{i}: " + program.stdout.read())
                    continue
            lines.append(program.stdout.readline().rstrip("\n"))
        return lines


def check_all_pairs(subnet):
    hosts = [name for name in subnet.nodes() if name.startswith("host-")]
    Mesh(subnet, hosts).exchange()
    return hosts


def under_opensm(topology, engine, options=""):
    with Subnet(SOFTIB, "--sm", "none", "--topology", topology) as subnet:
        manager = OpenSm(subnet, "host-1", options=f"routing_engine {engine}\n{options}")
        wait_for("all ports to be active", lambda: all(
            node["state"] == "active" for node in subnet.nodes().values()))
        assert "falling back" not in manager.output(), manager.output()
        hosts = check_all_pairs(subnet)
        equal(manager.end(), 0)
    return hosts


def test_minhop():
    equal(len(under_opensm(TREE, "minhop")), TREE_HOSTS)


def test_updn():
    under_opensm(TREE, "updn")


def test_dnup():
    under_opensm(TREE, "dnup")


def test_ftree():
    under_opensm(TREE, "ftree")


def test_lash():
    under_opensm(TREE, "lash")


def test_sssp():
    under_opensm(TREE, "sssp")


def test_dfsssp():
    under_opensm(TREE, "dfsssp")


def test_dor_on_a_torus():
    equal(len(under_opensm(TORUS, "dor")), 27)


def test_torus_2qos_uses_lanes():
    under_opensm(TORUS, "torus-2QoS", "qos TRUE\n")


def test_several_lids_of_each_port():
    under_opensm(TREE, "minhop", "lmc 2\n")


def test_own_subnet_manager():
    with Subnet(SOFTIB, "--topology", TREE) as subnet:
        equal(len(check_all_pairs(subnet)), TREE_HOSTS)


def test_own_subnet_manager_routes_around_faults():
    with Subnet(SOFTIB, "--topology", TREE) as subnet:
        subnet.softib("set", "cable", "leaf-1", "spine-1", "down")
        subnet.softib("set", "switch", "core-1", "absent")
        check_all_pairs(subnet)


def test_opensm_routes_around_faults():
    with Subnet(SOFTIB, "--sm", "none", "--topology", TREE) as subnet:
        manager = OpenSm(subnet, "host-1", options="routing_engine updn\nsweep_interval 1\n")
        subnet.softib("set", "cable", "leaf-2", "spine-2", "down")
        subnet.softib("set", "switch", "core-2", "absent")
        listed = "ibnetdiscover"
        wait_for("OpenSM to have swept again",
                 lambda: "core-2" not in subnet.run("host-2", "saquery", "NR").stdout)
        assert '"core-2"' not in subnet.run("host-2", listed).stdout
        check_all_pairs(subnet)
        equal(manager.end(), 0)


def test_discovery_agrees_with_softib_show():
    with Subnet(SOFTIB, "--topology", TREE) as subnet:
        found = subnet.run("host-1", "ibnetdiscover").stdout
        switches = re.findall(r'^Switch.*# "(\S+)"', found, re.MULTILINE)
        equal(len(switches), 45)
        equal(len(re.findall(r"^Ca", found, re.MULTILINE)), TREE_HOSTS + 1)  # and that of the SM


if __name__ == "__main__":
    need("opensm", "saquery", "ibnetdiscover")
    run_tests([test for name, test in list(globals().items()) if name.startswith("test_")],
              sys.argv[3:])
