"""Tests whose peer is the Linux kernel's own IPoIB, in a virtual machine.

A folder that IPOIB_KERNEL_PEER names can boot it. Its

    run.sh -t SECONDS -m MODULES -n PORTS -s SA_OPTIONS FOLDER COMMAND...

runs a command as root in a guest, which has

    soft InfiniBand ports rxe0, rxe1, ... with LIDs 1, 2, ...; each is one end of a veth, whose
    other end b0, b1, ... is its cable
    events of a port fired by a number in /sys/class/infiniband/rxe0/ib_event, its P_Keys set in
    ib_pkeys beside that, the LID of the subnet manager in /sys/module/rdma_rxe/parameters/sm_lid
    a subnet administrator at rxe0, with its log in /run/sa.log; /run/sa_responder -d PORT is one
    interfaces ib0, ib1, ... of ib_ipoib on these ports
    the host's files to read, FOLDER to write as well

and passes on the command's exit status.

A class of tests is a boot (tests/vm/machine.py).
"""

import os
import pathlib
import subprocess
import sys

for folder in ("netns", "vm"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / folder))
import hosts  # noqa: E402
import machine  # noqa: E402
from hosts import SKIPPED, Pings, Process, need, program, wait_until  # noqa: E402, F401


class UserSpaceHost(hosts.Host):
    """A namespace with an ipoibd in it, on the port of an RDMA device."""

    def __init__(self, guest, name, device):
        super().__init__(guest, name)
        self.device = device

    def start_all(self, *options, address=None, wait=True):
        self._start(self.command(program("ipoibd"), "--device", self.device, *options), address, wait)


class KernelHost(hosts.Host):
    """A namespace with the kernel's IPoIB interface of a port in it, as ib0."""

    def __init__(self, guest, name, interface):
        super().__init__(guest, name)
        subprocess.run(["ip", "link", "set", interface, "netns", self.namespace, "name", "ib0"],
                       check=True)
        self.run("ip", "link", "set", "ib0", "up")
        wait_until(self.has_carrier, f"{interface} has joined the broadcast group")

    def is_ready(self, interface="ib0"):
        return self.has_carrier(interface)


class KernelPeer(machine.Cases):
    """One of ours and one of the kernel's, for all tests of a class."""

    PORTS = 3
    SA_OPTIONS = "-v"
    # A packet that was not meant for where it was sent to.
    COMPLAINTS = "mcast DLID|a DGID that"

    @classmethod
    def setUpClass(cls):
        cls.subnet = machine.Guest("/run/sa.log")
        cls.ours = UserSpaceHost(cls.subnet, "ours", "rxe2")
        cls.theirs = KernelHost(cls.subnet, "theirs", "ib1")

    def assert_connected(self, ours="10.44.0.1", theirs="10.44.0.2"):
        wait_until(lambda: self.ours.reaches(theirs), "ours reaches theirs")
        wait_until(lambda: self.theirs.reaches(ours), "theirs reaches ours")

    def flush(self, *of):
        """Takes the IPv4 addresses of hosts away."""
        for host in of:
            host.run("ip", "-4", "addr", "flush", "dev", "ib0")


def main():
    missing = None if "IPOIB_KERNEL_PEER" in os.environ else \
        "takes a folder that can boot a kernel with InfiniBand ports (scripts/test --kernel-peer)"
    machine.main("kernel_peer", missing, lambda cases: [
        f"{os.environ['IPOIB_KERNEL_PEER']}/run.sh", "-t", str(machine.SECONDS), "-m", "ib_ipoib",
        "-n", str(cases.PORTS), "-s", cases.SA_OPTIONS, str(machine.ROOT)])
