#!/usr/bin/env python3
"""topologies.py SOFTIB FABRIC_MESH KEY_PROBE: subnets of many switches. Under each routing engine of OpenSM, and
under softib's own subnet manager, every pair of hosts talks by datagrams and by reliable connections, and
a multicast datagram reaches every member of its group once, also after a cable has failed."""
import contextlib
import json
import pathlib
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time

from opensm import OpenSm
from softib_subnet import PATIENCE, Subnet, equal, need, run_tests, wait_for

SOFTIB, MESH, KEY_PROBE = sys.argv[1:4]
TREE = "fat-tree:6"  # three levels, 54 hosts
TREE_HOSTS = 54
SMALL_TREE = "fat-tree:4"  # three levels, 16 hosts
TORUS = "torus:3x3x3"
MESH_PATIENCE = 3 * PATIENCE
PYTHON = "/usr/bin/python3"
JOIN = pathlib.Path(__file__).resolve().with_name("group_join.py")
MGID = "ff12:abcd::1"


def hca_of(host):
    return host.partition("[")[0]


def port_of(host):
    return int(host.partition("[")[2].rstrip("]") or 1)


class Mesh:
    """FABRIC_MESH on each host of a subnet, or on each port NAME[PORT] of HCAs with two."""

    def __init__(self, subnet, hosts):
        self.subnet = subnet
        self.hosts = hosts
        self.casts = 0
        self.programs = [
            subnet.start(hca_of(host), MESH, str(i), str(len(hosts)), str(port_of(host)), stdin=subprocess.PIPE,
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
        mlid = self.subnet.run(hca_of(self.hosts[0]), PYTHON, str(JOIN), MGID, *gids).stdout.split()[-1]
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


# A switch between two others, and HCAs with two ports: on two switches, on one, and one with a cable at its
# second port only.
TWO_PORTS = """
Switch 8 "spine"
[1] "left"[8]
[2] "right"[8]
[3] "left"[7]
[4] "right"[7]

Switch 8 "left"
[1] "host-1"[1]
[2] "host-2"[1]
[3] "host-2"[2]
[4] "host-4"[1]
[7] "spine"[3]
[8] "spine"[1]

Switch 8 "right"
[1] "host-1"[2]
[2] "host-3"[2]
[7] "spine"[4]
[8] "spine"[2]

Hca 2 "host-1"
[1] "left"[1]
[2] "right"[1]

Hca 2 "host-2"
[1] "left"[2]
[2] "left"[3]

Hca 2 "host-3"
[2] "right"[2]

Hca 1 "host-4"
[1] "left"[4]
"""
TWO_PORTS_NODES = ["host-1[1]", "host-1[2]", "host-2[1]", "host-2[2]", "host-3[2]", "host-4"]


@contextlib.contextmanager
def two_port_subnet(*options):
    with tempfile.NamedTemporaryFile("w", suffix=".net") as file:
        file.write(TWO_PORTS)
        file.flush()
        with Subnet(SOFTIB, *options, "--topology", file.name) as subnet:
            yield subnet


def check_two_ports(subnet, manager=None):
    """Pairs of ports, also those of one HCA, talk; programs find both ports, and each has its own counters."""
    nodes = subnet.nodes()
    equal(sorted(name for name in nodes if name.startswith("host-")), TWO_PORTS_NODES)
    equal(len({nodes[name]["lid"] for name in TWO_PORTS_NODES}), len(TWO_PORTS_NODES))
    equal({nodes[name]["node_guid"] for name in ("host-1[1]", "host-1[2]")}, {nodes["host-1[1]"]["node_guid"]})
    mesh = Mesh(subnet, TWO_PORTS_NODES)
    mesh.exchange()
    check_multicast(subnet, mesh, manager)
    mesh.end()
    info = subnet.run("host-1", "ibv_devinfo").stdout
    equal(re.findall(r"phys_port_cnt:\s+(\d+)", info), ["2"])
    lids = [nodes[f"host-1[{port}]"]["lid"] for port in (1, 2)]
    equal([int(lid) for lid in re.findall(r"port_lid:\s+(\d+)", info)], lids)
    equal(info.count("PORT_ACTIVE"), 2)
    equal([state for state in re.findall(r"state:\s+(PORT_\w+)", subnet.run("host-3", "ibv_devinfo").stdout)],
          ["PORT_DOWN", "PORT_ACTIVE"])
    status = subnet.run("host-1", "ibstat").stdout
    equal([int(lid) for lid in re.findall(r"Base lid: (\d+)", status)], lids)
    for port, lid in enumerate(lids, 1):
        by = ("-P", str(port))
        for to in lids:  # of whichever port an agent is asked
            found = subnet.run("host-1", "smpquery", *by, "nodeinfo", str(to)).stdout
            equal([int(number) for number in re.findall(r"^(?:NumPorts|LocalPort):\.+(\d+)$", found, re.MULTILINE)],
                  [2, lids.index(to) + 1])
        before = subnet.nodes()[f"host-1[{port}]"]["counters"]
        counted = subnet.run("host-4", "perfquery", "-x", str(lid), str(port)).stdout
        packets = int(re.search(r"^PortXmitPkts:\.+(\d+)$", counted, re.MULTILINE)[1])
        assert before["sent_packets"] <= packets <= before["sent_packets"] + 8, (before, counted)
    return lids


def check_two_ports_are_found(subnet):
    """ibnetdiscover, iblinkinfo and softib show agree."""
    found = subnet.run("host-4", "ibnetdiscover").stdout
    hca = re.search(r'^Ca\t2 "H-\w+"\s+# "host-1"\n((?:\[.*\n)+)', found, re.MULTILINE)
    assert hca, found
    equal(re.findall(r'^\[(\d)\].*# lid (\d+) .*"(\w+)" lid', hca[1], re.MULTILINE),
          [(str(port), str(subnet.nodes()[f"host-1[{port}]"]["lid"]), at) for port, at in ((1, "left"), (2, "right"))])
    links = subnet.run("host-4", "iblinkinfo").stdout
    equal(len(re.findall(r'"host-1 ?"', links)), 2)
    shown = subnet.softib("show", "--topology")
    block = re.search(r'^Ca\s+2 "host-1".*\n((?:\[.*\n)+)', shown, re.MULTILINE)
    assert block, shown
    equal(re.findall(r'^\[(\d)\].*"(\w+)"\[(\d+)\]', block[1], re.MULTILINE), [("1", "left", "1"), ("2", "right", "1")])


def test_two_port_hcas_under_opensm():
    with two_port_subnet("--sm", "none") as subnet:
        manager = OpenSm(subnet, "host-2", options="routing_engine updn\nsweep_interval 1\n")
        wait_for("all ports to be active", lambda: all(
            node["state"] == "active" for name, node in subnet.nodes().items() if name.startswith("host-")))
        check_two_ports(subnet, manager)
        check_two_ports_are_found(subnet)
        # One port without the other.
        subnet.softib("set", "port", "host-1[2]", "down")
        wait_for("one port to be left", lambda: len(re.findall(
            r'# "host-1" lid', subnet.run("host-4", "ibnetdiscover").stdout)) == 1)
        equal(subnet.nodes()["host-1[1]"]["state"], "active")
        equal(re.findall(r"state:\s+(PORT_\w+)", subnet.run("host-1", "ibv_devinfo").stdout),
              ["PORT_ACTIVE", "PORT_DOWN"])
        subnet.softib("set", "port", "host-1[2]", "up")
        wait_for("the port", lambda: subnet.nodes()["host-1[2]"]["state"] == "active")
        equal(manager.end(), 0)


def test_two_port_hcas_under_the_own_subnet_manager():
    with two_port_subnet() as subnet:
        check_two_ports(subnet)
        check_two_ports_are_found(subnet)
        refused = subprocess.run([SOFTIB, "set", "lid", "host-1", "77"], env=subnet.environment, text=True,
                                 stderr=subprocess.PIPE, check=False).stderr
        assert "name one, as in host-1[1]" in refused, refused
        subnet.softib("set", "lid", "host-1[2]", "77")
        equal(subnet.nodes()["host-1[2]"]["lid"], 77)


class KeyProbe:
    """KEY_PROBE on a port of an HCA."""

    def __init__(self, subnet, hca, port):
        self.process = subnet.start(hca, KEY_PROBE, str(port), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.lid, self.qpn = self.process.stdout.readline().split()

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().split()

    def send(self, to, pkey_index=0, qkey="0x11111111"):
        equal(self.ask("send", to.lid, to.qpn, pkey_index, qkey), ["sent"])

    def counters(self):
        """Packets with a wrong P_Key and Q_Key of port 1, then of port 2."""
        return [int(word) for word in self.ask("counters")]


def test_opensm_hears_of_packets_with_wrong_keys():
    """Each port counts its own."""
    with two_port_subnet("--sm", "none") as subnet:
        guid = subnet.nodes()["host-4"]["port_guid"]
        # Packets with a wrong P_Key have to pass the switches.
        manager = OpenSm(subnet, "host-2", partitions=f"Default=0x7fff: ALL=full;\nother=0x12: {guid}=full;\n",
                         options="part_enforce off\n")
        wait_for("the partition", lambda: "0x8012" in subnet.nodes()["host-4"]["pkeys"])
        wait_for("all ports to be active", lambda: all(
            node["state"] == "active" for name, node in subnet.nodes().items() if name.startswith("host-")))
        receiver, sender = KeyProbe(subnet, "host-1", 2), KeyProbe(subnet, "host-4", 1)

        def lines(number):
            return [line for line in manager.output().splitlines() if f"num:{number} " in line]

        sender.send(receiver)
        equal(receiver.counters(), [0, 0, 0, 0])
        for number, sent, counted in ((258, {"qkey": "0x22222222"}, [0, 0, 0, 1]),
                                      (257, {"pkey_index": 1}, [0, 0, 1, 1])):
            equal(lines(number), [])
            sender.send(receiver, **sent)
            wait_for("the packet", lambda expected=counted: receiver.counters() == expected)
            wait_for("OpenSM to hear of it", lambda: lines(number))
            assert "Producer:1 " in lines(number)[0] and f"LID:{receiver.lid} " in lines(number)[0], lines(number)
        equal(sender.counters(), [0, 0])
        found = subnet.run("host-4", "smpquery", "portinfo", receiver.lid, "2").stdout
        equal(re.findall(r"^([PQ]keyViolations):\.+(\d+)$", found, re.MULTILINE),
              [("PkeyViolations", "1"), ("QkeyViolations", "1")])
        heard = len(lines(257)), len(lines(258))
        sender.send(receiver)
        equal((len(lines(257)), len(lines(258))), heard)
        for probe in (sender, receiver):
            probe.process.stdin.close()
            equal(probe.process.wait(PATIENCE), 0)
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
              sys.argv[4:])
