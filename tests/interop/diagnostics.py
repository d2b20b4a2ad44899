#!/usr/bin/env python3
"""diagnostics.py SOFTIB: what the diagnostic programs of rdma-core and ibutils find of a fat tree under OpenSM is
what `softib show` says of it."""
import collections
import json
import pathlib
import re
import signal
import subprocess
import sys

from opensm import OpenSm
from softib_subnet import PATIENCE, Subnet, equal, free_tcp_port, is_listening, need, run_tests, wait_for

SOFTIB = sys.argv[1]
TREE = "fat-tree:4"  # three levels: 20 switches, 16 hosts, 48 cables
PYTHON = "/usr/bin/python3"
JOIN = pathlib.Path(__file__).resolve().with_name("group_join.py")
MGID = "ff12:abcd::1"
FIRST_PORT = 12  # where the column of port 0 is in the output of dump_mfts
MEMBERS = ("host-2", "host-5", "host-16")
WIDTHS, SPEEDS = {1: 1, 2: 4, 4: 8, 8: 12}, {1: 2.5, 2: 5.0, 4: 10.0}  # lanes and Gb/s of a lane, by IBA code
# A port by the GUID of its node. Descriptions are names here.
Port = collections.namedtuple("Port", "node number")


class Shown:
    """What `softib show --json` says now."""

    def __init__(self):
        whole = json.loads(subnet.softib("show", "--json"))
        self.switches = {switch["name"]: switch for switch in whole["switches"]}
        self.hosts = {node["name"]: node for node in whole["nodes"] if node["switch"]}
        self.groups = whole["groups"]
        self.lids = {name: node["lid"] for name, node in (self.switches | self.hosts).items()}
        self.guids = {int(switch["guid"], 16): name for name, switch in self.switches.items()}
        self.guids |= {int(node["node_guid"], 16): name for name, node in self.hosts.items()}
        self.guids |= {int(node["port_guid"], 16): name for name, node in self.hosts.items()}

    def links(self):
        """Returns port -> port at the other end of the cable, in both directions."""
        found = {}
        for name, switch in self.switches.items():
            for port in switch["ports"]:
                here = Port(name, port["port"])
                if "hca" in port:
                    other = Port(port["hca"], self.hosts[port["hca"]]["port"])
                    found[other] = here
                else:
                    other = Port(port["to"], port["to_port"])
                found[here] = other
        return found

    def port(self, port):
        return next(each for each in self.switches[port.node]["ports"] if each["port"] == port.number)


def run(*command):
    return subnet.run("host-2", *command).stdout


def fields(text):
    """Parses lines `Name:....value`."""
    return dict(re.findall(r"^\s*([\w ]+?):?\.{2,}(.*)$", text, re.MULTILINE))


def records(text):
    """Parses the dumps of saquery."""
    return [fields(part) for part in re.split(r"^\w+ dump:$", text, flags=re.MULTILINE)[1:]]


def ping(begin, end, count):
    """Starts programs that send each other datagrams, `end` for each that it gets."""
    port, quiet = str(free_tcp_port()), {"stdout": subprocess.DEVNULL}
    command = ("ibv_ud_pingpong", "-p", port, "-n", str(count))
    server = subnet.start(end, *command, **quiet)
    wait_for("the server", lambda: is_listening(int(port)))
    return server, subnet.start(begin, *command, "127.0.0.1", **quiet)


def forwarding():
    """Returns switch -> LID -> port, of dump_lfts."""
    shown, tables = Shown(), {}
    for line in run("dump_lfts").splitlines():
        if title := re.match(r"Unicast lids .* guid (0x\w+) ", line):
            table = tables.setdefault(shown.guids[int(title[1], 16)], {})
        elif entry := re.match(r"(0x\w+) (\d+) : ", line):
            table[int(entry[1], 16)] = int(entry[2])
    return tables


def test_ibnetdiscover():
    shown = Shown()
    found = run("ibnetdiscover")
    path = subnet.folder / "discovered"
    path.write_text(found)

    def of(text):
        whole = json.loads(text)
        names = {each["name"]: each["description"] for each in whole["switches"] + whole["hcas"]}
        return ({(names[each["name"]], each["guid"], each["ports"]) for each in whole["switches"] + whole["hcas"]},
                {(frozenset((names[each[end]["node"]], each[end]["port"]) for end in "ab"), str(each["rate"]))
                 for each in whole["cables"]})
    mine = of(subnet.softib("show", "--topology", "json"))
    equal(of(subnet.softib("topology", "--format", "json", str(path))), mine)
    equal((len(mine[0]), len(mine[1])), (20 + 16, 48))
    lids = dict(re.findall(r'^Switch.*# "(\S+)" .* lid (\d+) ', found, re.MULTILINE))
    equal({name: int(lid) for name, lid in lids.items()}, {name: shown.lids[name] for name in shown.switches})


def test_iblinkinfo():
    shown, found = Shown(), {}
    line = re.compile(r'0x\w+ +"\s*(\S+)" +(\d+) +(\d+)\[ *\] ==\( (\d+)X +([\d.]+) Gbps (\w+)/ *LinkUp\)==> +0x\w+ +(\d+)'
                      r' +(\d+)\[ *\] "(\S+)" \(.*\)$', re.MULTILINE)
    for name, lid, port, width, speed, state, other_lid, other_port, other in line.findall(run("iblinkinfo", "-l")):
        equal((int(lid), int(other_lid)), (shown.lids[name], shown.lids[other]))
        found[Port(name, int(port))] = Port(other, int(other_port))
        if name in shown.switches and other in shown.switches:
            said = shown.port(Port(name, int(port)))
            equal((int(width), float(speed), state.lower()),
                  (WIDTHS[said["link_width"]], SPEEDS[said["link_speed"]], said["state"]))
    equal(found, shown.links())


def test_forwarding_tables():
    """dump_lfts and ibroute say the same, and ibtracert goes where the tables lead, over cables that are shown."""
    shown, tables = Shown(), forwarding()
    equal(set(tables), set(shown.switches))
    for name in ("leaf-1", "core-3"):
        found = re.findall(r"^(0x\w+) (\d+) : ", run("ibroute", str(shown.lids[name])), re.MULTILINE)
        equal({int(lid, 16): int(port) for lid, port in found}, tables[name])
    links = shown.links()
    for begin, end in (("host-1", "host-2"), ("host-3", "host-16"), ("host-16", "host-3"), ("host-9", "host-5")):
        at, wanted = links[Port(begin, 1)], []
        while at.node in shown.switches:
            exit_port = Port(at.node, tables[at.node][shown.lids[end]])
            wanted.append((exit_port.number, *links[exit_port]))
            at = links[exit_port]
        equal(at.node, end)
        text = run("ibtracert", str(shown.lids[begin]), str(shown.lids[end]))
        hops = re.findall(r"^\[(\d+)\] -> \w+ port \{(0x\w+)\}\[(\d+)\]", text, re.MULTILINE)
        equal([(int(out), shown.guids[int(guid, 16)], int(into)) for out, guid, into in hops[1:]], wanted)


def test_multicast_tables():
    """The ports of hosts in dump_mfts are those of the receivers; the ports between switches are a tree."""
    shown = Shown()
    mlid = int(run(PYTHON, str(JOIN), MGID, *[shown.hosts[name]["gid"] for name in MEMBERS]).split()[-1])

    def receivers():
        return {name for group in Shown().groups if int(group["mlid"], 16) == mlid for name in group["receivers"]}
    wait_for("OpenSM to route the group", lambda: receivers() == set(MEMBERS))
    links, to_hosts, between = shown.links(), set(), set()
    for line in run("dump_mfts").splitlines():
        if title := re.match(r"Multicast mlids .* guid (0x\w+) ", line):
            at = shown.guids[int(title[1], 16)]
        elif line.startswith(hex(mlid)):
            for number in (i for i in range(1, 5) if line[FIRST_PORT + 2 * i:][:1] == "x"):
                other = links[Port(at, number)]
                (to_hosts if other.node in shown.hosts else between).add((Port(at, number), other))
    equal({other.node for _, other in to_hosts}, set(MEMBERS))
    equal({(other, port) for port, other in between}, between)
    inner = {port.node for port, _ in between}
    equal(len(between) / 2, len(inner) - 1)


def test_counters():
    """Packets between two hosts are counted on the cables of the way that ibtracert names, and no others; perfquery
    shows what `softib show` does."""
    before, ends, count = Shown(), ("host-3", "host-16"), 20
    for program in ping(*ends, count):
        equal(program.wait(PATIENCE), 0)
    after = Shown()
    expected = set()
    for begin, end in (ends, ends[::-1]):
        text = run("ibtracert", str(after.lids[begin]), str(after.lids[end]))
        ports = re.findall(r"\{(0x\w+)\}\[\d+\].*\n\[(\d+)\] -> switch", text)
        expected |= {Port(after.guids[int(guid, 16)], int(number)) for guid, number in ports}
    grown = {}
    for name, switch in after.switches.items():
        for port in switch["ports"]:
            if "to" in port and (more := port["sent_packets"] - before.port(Port(name, port["port"]))["sent_packets"]):
                grown[Port(name, port["port"])] = more
    equal((set(grown), set(grown.values())), (expected, {count}))
    for port in grown:
        found = fields(run("perfquery", str(after.lids[port.node]), str(port.number)))
        shown = Shown().port(port)
        equal((int(found["PortXmitPkts"]), 4 * int(found["PortXmitData"])), (shown["sent_packets"], shown["sent_bytes"]))


def test_saquery():
    shown = Shown()
    equal({each["NodeDescription"]: int(each["lid"]) for each in records(run("saquery", "NR"))}, shown.lids)
    names = {lid: name for name, lid in shown.lids.items()}
    equal({Port(names[int(each["FromLID"])], int(each["FromPort"])): Port(names[int(each["ToLID"])], int(each["ToPort"]))
           for each in records(run("saquery", "LR"))}, shown.links())


def test_smpquery():
    shown = Shown()
    for name in ("core-1", "leaf-3", "host-7"):
        lid, node = str(shown.lids[name]), (shown.switches | shown.hosts)[name]
        found = fields(run("smpquery", "nodeinfo", lid))
        equal(int(found["Guid"], 16), int(node.get("guid") or node["node_guid"], 16))
        equal(int(found["NumPorts"]), node.get("port_count") or 1)
        assert name in run("smpquery", "nodedesc", lid)
        found = fields(run("smpquery", "portinfo", lid, "1"))
        equal((found["LinkState"], found["LinkWidthActive"], found["LinkSpeedActive"]), ("Active", "4X", "10.0 Gbps"))
    top = int(fields(run("smpquery", "switchinfo", str(shown.lids["core-1"])))["LinearFdbTop"])
    equal(top, max(shown.lids.values()))


def test_ibdiagnet():
    """It finds the same nodes, links and tables."""
    folder = subnet.folder / "report"
    # Its time-outs are short, so on a busy machine it misses answers.
    def report():
        output = subnet.run("host-2", "ibdiagnet", "-o", str(folder), check=False).stdout
        errors = re.findall(r"^ {4}\S.*? +(\d+) +\d+ *$", output, re.MULTILINE)
        return output if errors and set(errors) == {"0"} else None
    output = wait_for("a report of ibdiagnet without errors", report)
    assert f"{20 + 16} nodes (20 Switches & 16 CA-s) discovered" in output, output
    shown = Shown()
    link = re.compile(r"\{ \S+ \S+ \S+ NodeGUID:(\w+) .*? PN:(\w+) \} \{ \S+ \S+ \S+ NodeGUID:(\w+) .*? PN:(\w+) \}")
    found = {}
    for guid, port, other, other_port in link.findall((folder / "ibdiagnet.lst").read_text()):
        ends = [Port(shown.guids[int(each, 16)], int(number, 16)) for each, number in ((guid, port), (other, other_port))]
        found[ends[0]], found[ends[1]] = ends[1], ends[0]
    equal(found, shown.links())


def errors_are_those_shown(bad, sender):
    """Answers may be lost at the other end of the cable, too, until OpenSM has routed around it."""
    errors = subnet.run("host-2", "ibqueryerrors", check=False).stdout
    shown = Shown()
    found = {(shown.guids[int(guid, 16)], int(port)): int(count) for guid, port, count in re.findall(
        r"GUID (0x\w+) port (\d+):.*\[PortXmitDiscards == (\d+)\]", errors)}
    lost = {(name, port["port"]): port["discards"] for name, switch in shown.switches.items()
            for port in switch["ports"] if port.get("discards", 0) != 0}
    assert lost[tuple(bad)] > 0, lost
    lost[sender, 1] = shown.hosts[sender]["counters"]["drop_port_not_active"]
    return found == lost


def test_lost_packets():
    """Packets to a cable that is down, while OpenSM does not know it yet, are discarded at its port and counted
    there and at the sender: ibqueryerrors and perfquery name these ports and the numbers that are shown."""
    assert re.search(r"96 ports checked, 0 ports have errors", run("ibqueryerrors")), "before"
    shown, tables = Shown(), forwarding()
    links = shown.links()
    begin, end = "host-5", "host-12"
    leaf = links[Port(begin, 1)].node
    bad = Port(leaf, tables[leaf][shown.lids[end]])
    manager.process.send_signal(signal.SIGSTOP)
    try:
        subnet.softib("set", "cable", f"{bad.node}[{bad.number}]", f"{links[bad].node}[{links[bad].number}]", "down")
        programs = ping(begin, end, 1)
        wait_for("a lost packet", lambda: Shown().port(bad)["discards"] > 0)
        for program in programs:
            program.kill()
    finally:
        manager.process.send_signal(signal.SIGCONT)
    wait_for("ibqueryerrors says what is shown", lambda: errors_are_those_shown(bad, begin))
    shown = Shown()
    said = shown.port(bad)
    lid, number = str(shown.lids[bad.node]), str(bad.number)
    equal(int(fields(run("perfquery", lid, number))["PortXmitDiscards"]), said["discards"])
    equal((said["state"], fields(run("smpquery", "portinfo", lid, number))["LinkState"]), ("down", "Down"))



if __name__ == "__main__":
    need("opensm", "ibnetdiscover", "iblinkinfo", "ibtracert", "ibroute", "dump_lfts", "dump_mfts", "ibqueryerrors",
         "perfquery", "saquery", "smpquery", "ibv_ud_pingpong", "ibdiagnet")
    with Subnet(SOFTIB, "--sm", "none", "--topology", TREE) as subnet:
        manager = OpenSm(subnet, "host-1")
        wait_for("all ports to be active", lambda: all(
            node["state"] == "active" for node in subnet.nodes().values()))
        run_tests([test for name, test in list(globals().items()) if name.startswith("test_")], sys.argv[2:])
