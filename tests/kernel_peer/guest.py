"""Tests against the Linux kernel's own IPoIB, in a virtual machine.

The folder IPOIB_KERNEL_PEER has the script that boots it:

    run.sh -t SECONDS -m MODULES -n PORTS -s SA_OPTIONS FOLDER COMMAND...

runs a command as root in a guest and returns its exit status. The guest has

    soft InfiniBand ports rxe0, rxe1, ... with LIDs 1, 2, ...; each is one end of a veth pair, whose
    other end b0, b1, ... serves as its cable
    /sys/class/infiniband/rxe0/ib_event, which raises a port event by its number; ib_pkeys beside it
    sets the P_Key table, and /sys/module/rdma_rxe/parameters/sm_lid the SM LID
    an SA on rxe0, which logs to /run/sa.log (/run/sa_responder -d PORT starts another one)
    interfaces ib0, ib1, ... of ib_ipoib on these ports
    read access to the host's files, and write access to FOLDER

Each class of tests boots one guest (tests/vm/machine.py).
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
    """A namespace with an ipoibd on an RDMA device."""

    def __init__(self, guest, name, device):
        super().__init__(guest, name)
        self.device = device

    def start_all(self, *options, address=None, wait=True):
        self._start(self.command(program("ipoibd"), "--device", self.device, *options), address, wait)


class KernelHost(hosts.Host):
    """A namespace with an interface of the kernel's IPoIB as ib0."""

    def __init__(self, guest, name, interface):
        super().__init__(guest, name)
        subprocess.run(["ip", "link", "set", interface, "netns", self.namespace, "name", "ib0"],
                       check=True)
        self.run("ip", "link", "set", "ib0", "up")
        wait_until(self.has_carrier, f"{interface} has joined the broadcast group")

    def is_ready(self, interface="ib0"):
        return self.has_carrier(interface)


class KernelPeer(machine.Cases):
    """A host with ipoibd (`ours`) and one with the kernel's IPoIB (`theirs`), for a class of tests."""

    PORTS = 3
    SA_OPTIONS = "-v"
    # The kernel received a packet that is not for it.
    COMPLAINTS = "mcast DLID|a DGID that"

    @classmethod
    def setUpClass(cls):
        cls.subnet = machine.Guest("/run/sa.log")
        cls.ours = UserSpaceHost(cls.subnet, "ours", "rxe2")
        cls.theirs = KernelHost(cls.subnet, "theirs", "ib1")

    def assert_connected(self, ours="10.44.0.1", theirs="10.44.0.2"):
        wait_until(lambda: self.ours.reaches(theirs), "ours reaches theirs")
        wait_until(lambda: self.theirs.reaches(ours), "theirs reaches ours")

    def flush(self, *flushed):
        """Removes the IPv4 addresses of hosts."""
        for host in flushed:
            host.run("ip", "-4", "addr", "flush", "dev", "ib0")


def main():
    missing = None if "IPOIB_KERNEL_PEER" in os.environ else \
        "needs a folder that can boot a kernel with InfiniBand ports (scripts/test --kernel-peer)"
    machine.main("kernel_peer", missing, lambda cases: [
        f"{os.environ['IPOIB_KERNEL_PEER']}/run.sh", "-t", str(machine.SECONDS), "-m", "ib_ipoib",
        "-n", str(cases.PORTS), "-s", cases.SA_OPTIONS, str(machine.ROOT)])
