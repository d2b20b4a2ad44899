#!/usr/bin/env python3
"""Compares softib topology with ibsim and ibnetdiscover.

Usage: topology_on_ibsim.py SOFTIB

ibsim reads a net file, ibnetdiscover prints what it simulates, and softib reads that: this is what softib
itself makes of the file. The files are those that softib writes, and one with what softib does not write.
ibsim uses abstract sockets with fixed names, so each runs in network and process namespaces of its own.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from softib_subnet import PATIENCE, need, need_own_network, skip, wait_for

SOFTIB = os.path.abspath(sys.argv[1])

# GUIDs that count up, defaults of rates, options of ports, remarks, an alias, several cables, two-port HCAs.
BY_HAND = """\
# A comment
vendid=0x2c9
switchguids=0x2c902004000f0
width=2
speed=4
Switch 8 "core 1" # "core;one" enhanced port 0 lid 4 lmc 0
[1] "leaf"[1] w=8
[2] "leaf"[2]
@[5] "spare" s=3
# not the end of the record
[3] "node A"[1]

Switch 4 "leaf"
[1] "core 1"[1] w=12
[2] "core 1"[2]
[3] "node A"[2] # "node A" lid 9 4xDDR
[4] "node-b" s=6

speed=7
switchguids+0x20
Switch 36 "third"
[36] "@spare"

caguids=0x2c90200001240
Ca 2 "node A" # "node A HCA-1"
[1](2c90200001241) "core 1"[3]
[2] "leaf"[3] # lid 9 lmc 0 "leaf" lid 0 4xQDR

Hca 1 "node-b"
[1] "leaf"[4] s=2

Rt 2 "gate" # "router"
"""


def topology(source, form="json"):
    done = subprocess.run([SOFTIB, "topology", "--format", form, source], capture_output=True, text=True,
                          timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def discover(path):
    """Returns what ibnetdiscover prints of the subnet that ibsim makes of a file."""
    preload = next(pathlib.Path("/usr/lib").glob("**/umad2sim/libumad2sim.so"), None)
    if preload is None:
        skip("libumad2sim.so is not installed")
    log = path.parent / "ibsim.log"
    # The simulator ends at the end of its standard input.
    with open(log, "wb") as output, \
            subprocess.Popen(["ibsim", "-s", path], stdin=subprocess.PIPE, stdout=output,
                             stderr=output) as simulator:
        def is_ready():
            assert simulator.poll() is None, log.read_text(encoding="ascii")
            return "@sim:ctl" in pathlib.Path("/proc/net/unix").read_text(encoding="ascii")
        wait_for("ibsim's control socket", is_ready)
        done = subprocess.run(["ibnetdiscover"], env=dict(os.environ, LD_PRELOAD=str(preload)), check=True,
                              capture_output=True, text=True, timeout=PATIENCE)
        simulator.kill()
    return done.stdout


def comparable(text, with_guids):
    """A topology without what ibnetdiscover does not print, nor in which order nodes are, and with
    descriptions in place of names."""
    whole = json.loads(text)
    names = {each["name"]: each["description"] for each in whole["switches"] + whole["hcas"]}
    assert len(set(names.values())) == len(names), names

    def node(each):
        guids = {"guid": each["guid"], "port_guids": each.get("port_guids")} if with_guids else {}
        return {"description": each["description"], "ports": each["ports"], **guids}

    def cable(each):
        ends = sorted((names[each[end]["node"]], each[end]["port"]) for end in "ab")
        return [*ends, each["rate"]]

    return {"switches": sorted(map(node, whole["switches"]), key=str),
            "hcas": sorted(map(node, whole["hcas"]), key=str),
            "cables": sorted(map(cable, whole["cables"]))}


def main():
    need("ibsim", "ibnetdiscover")
    need_own_network("--pid", "--fork", "--kill-child")
    with tempfile.TemporaryDirectory(prefix="topology-on-ibsim-") as folder:
        path = pathlib.Path(folder)
        # Without GUIDs in the file, those of ibsim are its own.
        for shape in ("fat-tree:6", "torus:3x4,2", "dragonfly:3,1,1", "line:3", "star:20"):
            (path / "written.net").write_text(topology(shape, "net"), encoding="ascii")
            (path / "discovered").write_text(discover(path / "written.net"), encoding="ascii")
            found = comparable(topology(path / "discovered"), False)
            wanted = comparable(topology(shape), False)
            assert found == wanted, (shape, found, wanted)
            # Both formats of softib, with ibsim's GUIDs.
            for form in ("net", "ibnetdiscover"):
                (path / form).write_text(topology(path / "discovered", form), encoding="ascii")
                (path / "again").write_text(discover(path / form), encoding="ascii")
                again = comparable(topology(path / "again"), True)
                assert again == comparable(topology(path / "discovered"), True), (shape, form, again)

        (path / "by_hand.net").write_text(BY_HAND, encoding="ascii")
        (path / "discovered").write_text(discover(path / "by_hand.net"), encoding="ascii")
        wanted = comparable(topology(path / "by_hand.net"), True)
        found = comparable(topology(path / "discovered"), True)
        assert found == wanted, (found, wanted)
        assert len(wanted["cables"]) == 6, wanted


main()
