#!/usr/bin/env python3
"""What programs find of their HCAs in /dev and /sys (src/softib/view).

Usage: view.py SOFTIB
"""
import os
import pathlib
import shlex
import sys

from softib_subnet import Subnet, equal, need, run_tests

SOFTIB = os.path.abspath(sys.argv[1])
PROBE = pathlib.Path(__file__).with_name("view_probe.py")
PORT = "/sys/class/infiniband/softib0/ports/1"


def calls_of_programs():
    with Subnet(SOFTIB) as subnet:
        equal(subnet.run("a", sys.executable, str(PROBE)).stdout, "")
        # Looking attaches nobody.
        equal(subnet.nodes()["a"]["processes"], [])


def tools():
    """ls(1), find(1), grep(1), cp(1) and cat(1) list and read it without complaints."""
    with Subnet(SOFTIB) as subnet:
        listing = subnet.run("a,b", "ls", "-lLR", "/sys/class/infiniband", "/dev/infiniband").stdout
        assert "cannot" not in listing and "231, 193" in listing, listing
        files = subnet.run("a", "sh", "-c", "for file in /sys/class/infiniband/softib0/*; do"
                                            " [ -d $file ] || cat $file; done").stdout
        assert "1: CA" in files and "Error" not in files, files
        found = subnet.run("a", "find", "/sys/class/infiniband", "-name", "link_layer", "-type", "f").stdout
        equal(found, f"{PORT}/link_layer\n")
        equal(subnet.run("a", "grep", "-rx", "4: ACTIVE", "/sys/class/infiniband").stdout, f"{PORT}/state:4: ACTIVE\n")
        copy = subnet.folder / "copy"
        subnet.run("a", "cp", "-r", "/sys/class/infiniband/softib0", str(copy))
        equal((copy / "ports/1/state").read_text(encoding="ascii"), "4: ACTIVE\n")


def states_and_counters_are_those_of_now():
    need("saquery")
    with Subnet(SOFTIB) as subnet:
        counts = f"cat {PORT}/counters/port_xmit_packets"
        output = subnet.run("a", "sh", "-c", f"{counts}; saquery >/dev/null; {counts}").stdout
        before, after = output.split()
        equal(before, "0")
        assert int(after) > 0
        change = f"cat {PORT}/state; {shlex.quote(SOFTIB)} set port a down; cat {PORT}/state"
        equal(subnet.run("a", "sh", "-c", change).stdout, "4: ACTIVE\n1: DOWN\n")


def failed_hcas_are_not_there():
    with Subnet(SOFTIB) as subnet:
        listed = "ls /sys/class/infiniband"
        output = subnet.run("a,b", "sh", "-c", f"{listed}; {shlex.quote(SOFTIB)} set hca b failed; {listed}").stdout
        equal(output.split(), ["softib0", "softib1", "softib0"])


run_tests([calls_of_programs, tools, states_and_counters_are_those_of_now,
           failed_hcas_are_not_there], sys.argv[2:])
