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

A class of tests is a boot. ctest runs a test program of this folder in three roles:

    boot CLASS          boots a guest, and runs the same program there
    guest CLASS         in the guest: runs the tests, and writes what became of each into a file
    result CLASS.TEST   says what became of a test
"""

import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "netns"))
import hosts  # noqa: E402
from hosts import SKIPPED, Pings, Process, need, program, wait_until  # noqa: E402, F401

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS_IN_GUEST = 800
# What the guest's kernel says when something has gone wrong in it, or when a packet was not meant
# for where it was sent to.
COMPLAINTS = re.compile(r"WARNING:|BUG:|Call Trace|mcast DLID|a DGID that")


class Guest:
    """What hosts want to know about the subnet that they are on."""

    def __init__(self):
        self.environment = dict(os.environ)
        self.folder = pathlib.Path("/tmp")

    def logs(self, test):
        out = []
        of_hosts, of_test = self.folder.glob("*.log"), (self.folder / test).glob("*.log")
        for path in [*sorted(of_hosts), *sorted(of_test), pathlib.Path("/run/sa.log")]:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            out += [f"--- {path.name}", *lines[-60:]]
        return "\n".join([*out, "--- the guest's kernel", *kernel_log()[-60:]])


class UserSpaceHost(hosts.Host):
    """A namespace with an ipoibd in it, on the port of an RDMA device."""

    def __init__(self, guest, name, device):
        super().__init__(guest, name)
        self.device = device

    def start_all(self, *options, address=None, wait=True):
        self._start([program("ipoibd"), "--device", self.device, *options], address, wait)


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


def kernel_log():
    return subprocess.run(["dmesg"], check=True, capture_output=True, text=True).stdout.splitlines()


class KernelPeer(unittest.TestCase):
    """One of ours and one of the kernel's, for all tests of a class."""

    PORTS = 3
    SA_OPTIONS = "-v"

    @classmethod
    def setUpClass(cls):
        cls.subnet = Guest()
        cls.ours = UserSpaceHost(cls.subnet, "ours", "rxe2")
        cls.theirs = KernelHost(cls.subnet, "theirs", "ib1")

    def setUp(self):
        self.folder = self.subnet.folder / self._testMethodName
        self.folder.mkdir()
        self.addCleanup(self.no_complaints_since, len(kernel_log()))

    def no_complaints_since(self, line):
        complaints = [text for text in kernel_log()[line:] if COMPLAINTS.search(text)]
        self.assertEqual(complaints, [], "of the guest's kernel")

    @staticmethod
    def configure(host, *addresses, interface="ib0"):
        """Gives a host addresses, and waits until they are to be used."""
        for address in addresses:
            host.configure(interface, address)
        wait_until(lambda: not any(entry.get("tentative")
                                   for entry in host.link(interface)["addr_info"]),
                   "duplicate address detection has ended")

    def assert_connected(self, ours="10.44.0.1", theirs="10.44.0.2"):
        wait_until(lambda: self.ours.reaches(theirs), "ours reaches theirs")
        wait_until(lambda: self.theirs.reaches(ours), "theirs reaches ours")

    def flush(self, *of):
        """Takes the IPv4 addresses of hosts away."""
        for host in of:
            host.run("ip", "-4", "addr", "flush", "dev", "ib0")

    def start_process(self, host, *command):
        """Starts a program on a host until the end of the test."""
        number = len(list(self.folder.glob("*.log")))
        log = self.folder / f"{number}.{host.name}.{os.path.basename(command[0])}.log"
        process = Process(host.command(*command), log, self.subnet.environment)
        self.addCleanup(process.end)
        return process

    def start_pings(self, host, address):
        """Returns when they are answered."""
        pings = Pings(self.start_process(host, *Pings.COMMAND, address))
        pings.wait_for(3)
        return pings


# --- In the guest ------------------------------------------------------------------------------


class ResultFiles(unittest.TextTestResult):
    """Writes what became of a test as soon as it is known."""

    folder = None

    def write(self, test, outcome):
        (self.folder / test.id().rpartition(".")[2]).write_text(outcome, encoding="utf-8")

    def write_failure(self, test, trace):
        self.write(test, f"FAILED\n{trace}\n{Guest().logs(test.id().rpartition('.')[2])}\n")

    def addSuccess(self, test):  # noqa: N802
        super().addSuccess(test)
        self.write(test, "ok\n")

    def addSkip(self, test, reason):  # noqa: N802
        super().addSkip(test, reason)
        self.write(test, f"skipped: {reason}\n")

    def addFailure(self, test, err):  # noqa: N802
        super().addFailure(test, err)
        self.write_failure(test, self.failures[-1][1])

    def addError(self, test, err):  # noqa: N802
        super().addError(test, err)
        self.write_failure(test, self.errors[-1][1])


def run_in_guest(module, name, results):
    ResultFiles.folder = results
    tests = unittest.defaultTestLoader.loadTestsFromName(name, module)
    done = unittest.TextTestRunner(verbosity=2, resultclass=ResultFiles).run(tests)
    return 0 if done.wasSuccessful() else 1


# --- On the host -------------------------------------------------------------------------------


def boot(module, name, results):
    """Fails when the guest did, unless that is to be seen in a test."""
    cases = getattr(module, name)
    results.mkdir(parents=True, exist_ok=True)
    for old in results.iterdir():
        old.unlink()
    command = [f"{os.environ['IPOIB_KERNEL_PEER']}/run.sh", "-t", str(SECONDS_IN_GUEST), "-m",
               "ib_ipoib", "-n", str(cases.PORTS), "-s", cases.SA_OPTIONS, str(ROOT),
               "env", f"IPOIB_BIN={hosts.BIN}", "PYTHONDONTWRITEBYTECODE=1",
               sys.executable, module.__file__, "guest", name]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace")
    print(done.stdout)
    (results / "console").write_text(done.stdout, encoding="utf-8")
    tests = unittest.defaultTestLoader.getTestCaseNames(cases)
    return 0 if done.returncode in (0, 1) or any(not (results / test).exists() for test in tests) \
        else 1


def result(results, test):
    try:
        said = (results / test).read_text(encoding="utf-8")
    except FileNotFoundError:
        console = (results / "console").read_text(encoding="utf-8").splitlines()
        said = "\n".join(["FAILED: the guest did not get so far", *console[-100:]])
    print(said)
    if said.startswith("skipped: "):
        return SKIPPED
    return 0 if said == "ok\n" else 1


def main():
    module = sys.modules["__main__"]
    role, name = sys.argv[1:]
    name, _, test = name.partition(".")
    results = pathlib.Path(hosts.BIN).resolve().parent / "kernel_peer" / name
    if role == "guest":
        sys.exit(run_in_guest(module, name, results))
    if "IPOIB_KERNEL_PEER" not in os.environ:
        print("skipped: takes a folder that can boot a kernel with InfiniBand ports "
              "(scripts/test --kernel-peer)")
        sys.exit(SKIPPED)
    sys.exit(boot(module, name, results) if role == "boot" else result(results, test))
