#!/usr/bin/env python3
"""topologies.py SOFTIB FABRIC_MESH: subnets of many switches. Under each routing engine of OpenSM, and
under softib's own subnet manager, every pair of hosts talks by datagrams and by reliable connections, and
a multicast datagram reaches every member of its group once, also after a cable has failed."""
import json
import pathlib
import re
import selectors
import signal
import subprocess
import sys
import time

from opensm import OpenSm
from softib_subnet import PATIENCE, Subnet, equal, need, run_tests, wait_for

SOFTIB, MESH = sys.argv[1:3]
TREE = "fat-tree:6"  # three levels, 54 hosts
TREE_HOSTS = 54
SMALL_TREE = "fat-tree:4"  # three levels, 16 hosts
TORUS = "torus:3x3x3"
MESH_PATIENCE = 3 * PATIENCE
PYTHON = "/usr/bin/python3"
JOIN = pathlib.Path(__file__).resolve().with_name("group_join.py")
MGID = "ff12:abcd::1"


class Mesh:
    """FABRIC_MESH on each host of a subnet."""

    def __init__(self, subnet, hosts):
        self.subnet = subnet
        self.hosts = hosts
        self.casts = 0
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

    def join(self, members):
        """Lets these hosts join a group. The queue pairs of all are attached to it, so whatever arrives is
        seen."""
        known = self.subnet.nodes()
        gids = [known[host]["gid"] for host in members]
        mlid = self.subnet.run(self.hosts[0], PYTHON, str(JOIN), MGID, *gids).stdout.split()[-1]
        self.write(f"group {MGID} {mlid}\n")
        equal(set(self.read_lines()), {"attached"})

    def cast(self):
        """Every host sends a datagram to the group. Returns (to, from) -> how many arrived; one that a host
        would get of itself is left out."""
        self.casts += 1
        self.write(f"cast {self.casts}\n")
        lines = self.read_lines()
        assert all(re.fullmatch(r"[\d ]+", line) for line in lines), lines
        return {(to, sender): int(count) for to, line in zip(self.hosts, lines)
                for sender, count in zip(self.hosts, line.split()) if to != sender}

    def end(self):
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


def check_all_pairs(subnet, manager=None):
    hosts = [name for name in subnet.nodes() if name.startswith("host-")]
    mesh = Mesh(subnet, hosts)
    mesh.exchange()
    check_multicast(subnet, mesh, manager)
    mesh.end()
    return hosts


def change_cable(subnet, manager, cable, state):
    """Waits until OpenSM, if it manages the subnet, has written its tables."""
    routed = "tables configured on all switches"
    before = manager.output().count(routed) if manager else 0
    subnet.softib("set", "cable", *cable, state)
    if manager:
        wait_for("OpenSM to route again", lambda: manager.output().count(routed) > before)


def check_multicast(subnet, mesh, manager):
    """Every third host is a member. No datagram arrives twice or elsewhere, at no time. Those of members are not
    lost, nor are they when a cable has failed and there is another way; those of others may be lost, if the
    first switch has no member (IBA 10.5.2.1)."""
    members = mesh.hosts[::3]
    mesh.join(members)
    wanted = {(to, sender): int(to in members) for to in mesh.hosts for sender in mesh.hosts if to != sender}

    def is_complete():
        found = mesh.cast()
        wrong = [f"{count} datagrams of {sender} at {to}" for (to, sender), count in found.items()
                 if count > wanted[to, sender]]
        assert not wrong, wrong
        return all(count == found[pair] for pair, count in wanted.items() if pair[1] in members)
    wait_for("the group", is_complete)  # OpenSM writes the tables some time after it has answered
    cable = busiest_cable(subnet)
    change_cable(subnet, manager, cable, "down")
    wait_for(f"the group without {cable}", is_complete)
    change_cable(subnet, manager, cable, "up")
    wait_for(f"the group with {cable}", is_complete)


def busiest_cable(subnet):
    """Returns the ends of the cable between switches that has carried most."""
    switches = json.loads(subnet.softib("show", "--json"))["switches"]
    most = max(((port["sent_packets"], switch["name"], port) for switch in switches for port in switch["ports"]
                if port.get("state") == "active" and "to" in port), key=lambda entry: entry[0])
    return f'{most[1]}[{most[2]["port"]}]', f'{most[2]["to"]}[{most[2]["to_port"]}]'


def under_opensm(topology, engine, options="", lmc=0):
    with Subnet(SOFTIB, "--sm", "none", "--topology", topology) as subnet:
        manager = OpenSm(subnet, "host-1", options=f"routing_engine {engine}\n{options}")
        wait_for("all ports to be active", lambda: all(
            node["state"] == "active" for node in subnet.nodes().values()))
        assert "falling back" not in manager.output(), manager.output()
        equal({node["lmc"] for node in subnet.nodes().values() if node["name"].startswith("host-")}, {lmc})
        hosts = check_all_pairs(subnet, manager)
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


def with_lmc(topology, lmc):
    """Pairs use all LIDs of their ports in turn."""
    under_opensm(topology, "minhop", f"lmc {lmc}\n", lmc)


def test_two_lids_of_each_port():
    with_lmc(SMALL_TREE, 1)


def test_four_lids_of_each_port():
    with_lmc(TREE, 2)


def test_eight_lids_of_each_port():
    with_lmc(SMALL_TREE, 3)


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
        check_all_pairs(subnet, manager)
        equal(manager.end(), 0)


def test_another_opensm_takes_over():
    """Ports keep their LIDs."""
    options = "routing_engine updn\nsminfo_polling_timeout 500\npolling_retry_number 2\n"
    with Subnet(SOFTIB, "--sm", "none", "--topology", TREE) as subnet:
        first = OpenSm(subnet, "host-1", options=options + "sm_priority 9\n")
        second = OpenSm(subnet, "host-54", options=options + "sm_priority 3\n", until="Entering STANDBY state")

        def lids():
            return {name: node["lid"] for name, node in subnet.nodes().items()}
        before = lids()
        first.end(signal.SIGKILL)
        second.wait_for_line("Entering MASTER state")
        wait_for("all ports to have another SM", lambda: {
            node["sm_lid"] for node in subnet.nodes().values()} == {before["host-54"]})
        equal(lids(), before)
        check_all_pairs(subnet, second)
        equal(second.end(), 0)


def test_opensm_hears_of_errors_of_a_link():
    """Those that OpenSM's thresholds allow are not reported."""
    with Subnet(SOFTIB, "--sm", "none", "--topology", "line:2") as subnet:
        manager = OpenSm(subnet, "host-1", options="local_phy_errors_threshold 8\noverrun_errors_threshold 8\n")

        def lines(number):
            return [line for line in manager.output().splitlines() if f"num:{number} " in line]

        def count(name):
            lid = str(next(each["lid"] for each in json.loads(subnet.softib("show", "--json"))["switches"]
                           if each["name"] == "switch-1"))
            found = subnet.run("host-1", "perfquery", lid, number_of_port).stdout
            return int(re.search(rf"^{name}:\.+(\d+)$", found, re.MULTILINE)[1])
        cable = next(port for each in json.loads(subnet.softib("show", "--json"))["switches"]
                     if each["name"] == "switch-1" for port in each["ports"] if port.get("to") == "switch-2")
        number_of_port = str(cable["port"])
        ends = ("switch-1", "switch-2")
        subnet.softib("set", "cable", *ends, "overruns", "8")
        subnet.softib("set", "cable", *ends, "stall")
        wait_for("OpenSM to hear of both ends", lambda: len(lines(131)) >= 2)
        equal(count("LinkErrorRecoveryCounter"), 1)
        equal((lines(130), count("ExcessiveBufferOverrunErrors")), ([], 0))
        subnet.softib("set", "cable", *ends, "overruns", "9")
        wait_for("OpenSM to hear of both ends", lambda: len(lines(130)) >= 2)
        equal((lines(129), count("LocalLinkIntegrityErrors")), ([], 0))
        lid = str(subnet.nodes()["host-2"]["lid"])
        subnet.softib("set", "cable", *ends, "loss", "100")
        wait_for("OpenSM to hear of lost packets", lambda: subnet.run(
            "host-1", "ibping", "-f", "-c", "20", "-t", "20", lid, check=False) and lines(129))
        assert count("LinkDownedCounter") == 0, "the link is up"
        equal(manager.end(), 0)


def test_discovery_agrees_with_softib_show():
    with Subnet(SOFTIB, "--topology", TREE) as subnet:
        found = subnet.run("host-1", "ibnetdiscover").stdout
        switches = re.findall(r'^Switch.*# "(\S+)"', found, re.MULTILINE)
        equal(len(switches), 45)
        equal(len(re.findall(r"^Ca", found, re.MULTILINE)), TREE_HOSTS + 1)  # and that of the SM


if __name__ == "__main__":
    need("opensm", "saquery", "ibnetdiscover", "ibping", "perfquery")
    run_tests([test for name, test in list(globals().items()) if name.startswith("test_")],
              sys.argv[3:])
