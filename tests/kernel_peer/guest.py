"""Tests against the Linux kernel's own IPoIB, in a virtual machine.

Each class of tests boots one guest (tests/vm/machine.py) with scripts/vm --infiniband. It has

    soft InfiniBand ports rxe0, rxe1, ... with LIDs 1, 2, ... (linux/README.md says what they can do);
    b0, b1, ... serve as their cables
    an SA on rxe0 (sa_responder)
    interfaces ib0, ib1, ... of ib_ipoib on these ports
"""

import os
import pathlib
import subprocess
import sys

for folder in ("netns", "vm"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / folder))
import hosts  # noqa: E402
import machine  # noqa: E402
from hosts import SKIPPED, Host, Pings, Process, need, program, wait_until  # noqa: E402, F401


def start_sa(number, *options):
    """Starts an SA on port rxe<number>."""
    responder = pathlib.Path(hosts.BIN).parent / "tests" / "sa_responder"
    sa = Process([str(responder), "--device", f"rxe{number}", *options], f"/tmp/sa{number}.log", None)
    wait_until(lambda: "SA ready" in sa.output(), "the SA is ready")
    return sa


def start_subnet(ports, *sa_options):
    """Creates the ports of the guest, and returns the SA on the first."""
    machine.make_ports(ports)
    return start_sa(0, *sa_options)


# Classes that take minutes in an emulated machine, and whose subjects others touch, too.
ONLY_WITH_VM = ("ConnectedMode", "Events", "LargeMtu", "Loss", "Multicast", "Neighbours", "Partitions")


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
    SA_OPTIONS = ()
    # The kernel received a packet that is not for it.
    COMPLAINTS = "mcast DLID|DGID is not that"

    @classmethod
    def setUpClass(cls):
        cls.subnet = machine.Guest()
        cls.sa = start_subnet(cls.PORTS, *cls.SA_OPTIONS)
        cls.prepare_ports()
        cls.ours = UserSpaceHost(cls.subnet, "ours", "rxe2")
        cls.theirs = KernelHost(cls.subnet, "theirs", "ib1")

    @classmethod
    def prepare_ports(cls):
        """Changes ports before hosts use them."""

    def assert_connected(self, ours="10.44.0.1", theirs="10.44.0.2"):
        wait_until(lambda: self.ours.reaches(theirs), "ours reaches theirs")
        wait_until(lambda: self.theirs.reaches(ours), "theirs reaches ours")

    def flush(self, *flushed):
        """Removes the IPv4 addresses of hosts."""
        for host in flushed:
            host.run("ip", "-4", "addr", "flush", "dev", "ib0")


def main():
    wanted = ("IPOIB_VM",) if sys.argv[2].partition(".")[0] in ONLY_WITH_VM else ()
    missing = machine.why_no_guest(*wanted) if "IPOIB_KERNEL_PEER" in os.environ else \
        "needs the option --kernel-peer (scripts/test)"
    machine.main("kernel_peer", missing, "--infiniband", "--module", "ib_ipoib", "--module",
                 "sch_netem")
