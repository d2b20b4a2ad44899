"""Tests in a virtual machine.

Each class of tests boots one guest. ctest runs a test program in three roles:

    boot CLASS          boots a guest, and runs the same program there
    guest CLASS         in the guest: runs the tests, and writes the result of each into a file
    result CLASS.TEST   reports the result of a test
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "netns"))
import hosts  # noqa: E402
from hosts import SKIPPED, Pings, Process, wait_until  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 1200  # per class, including the boot
DEVICE_MTU = 4500  # of the ports' network devices; allows a path MTU of 4096


def kernel_log():
    return subprocess.run(["dmesg"], check=True, capture_output=True, text=True).stdout.splitlines()


# --- In the guest ------------------------------------------------------------------------------


def ip(*arguments):
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def make_ports(count):
    """Creates the soft RDMA ports rxe0, rxe1, ...; their network devices p0, p1, ... are ends of veth
    pairs, whose other ends b0, b1, ... are on a bridge."""
    for setting in ("all", "default"):
        path = pathlib.Path(f"/proc/sys/net/ipv6/conf/{setting}/accept_dad")
        path.write_text("0", encoding="utf-8")
    ip("link", "add", "cables", "mtu", str(DEVICE_MTU), "type", "bridge", "mcast_snooping", "0")
    ip("link", "set", "cables", "up")
    for number in range(count):
        ip("link", "add", f"p{number}", "mtu", str(DEVICE_MTU), "address",
           f"02:00:00:00:00:{number + 1:02x}", "type", "veth", "peer", "name", f"b{number}",
           "mtu", str(DEVICE_MTU))
        ip("link", "set", f"b{number}", "master", "cables", "up")
        ip("link", "set", f"p{number}", "up")
        subprocess.run(["rdma", "link", "add", f"rxe{number}", "type", "rxe", "netdev",
                        f"p{number}"], check=True)


class Guest:
    """The interface of hosts.Subnet that hosts need."""

    def __init__(self):
        self.environment = dict(os.environ)
        self.folder = pathlib.Path("/tmp")

    def logs(self, test):
        out = []
        of_hosts, of_test = self.folder.glob("*.log"), (self.folder / test).glob("*.log")
        for path in [*sorted(of_hosts), *sorted(of_test)]:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            out += [f"--- {path.name}", *lines[-60:]]
        return "\n".join([*out, "--- the guest's kernel", *kernel_log()[-60:]])


class Cases(unittest.TestCase):
    """A class of tests that share a guest; setUpClass() sets `subnet` to a Guest."""

    # Further kernel messages that mean that something has gone wrong.
    COMPLAINTS = "$^"

    def setUp(self):
        self.folder = self.subnet.folder / self._testMethodName
        self.folder.mkdir()
        self.addCleanup(self.no_complaints_since, len(kernel_log()))

    def no_complaints_since(self, line):
        wrong = re.compile(f"WARNING:|BUG:|Call Trace|{self.COMPLAINTS}")
        complaints = [text for text in kernel_log()[line:] if wrong.search(text)]
        self.assertEqual(complaints, [], "messages of the guest's kernel")

    @staticmethod
    def configure(host, *addresses, interface="ib0"):
        """Gives a host addresses, and waits until they are usable."""
        for address in addresses:
            host.configure(interface, address)
        wait_until(lambda: not any(entry.get("tentative")
                                   for entry in host.link(interface)["addr_info"]),
                   "duplicate address detection has ended")

    def start_process(self, host, *command):
        """Starts a program on a host until the end of the test."""
        number = len(list(self.folder.glob("*.log")))
        log = self.folder / f"{number}.{host.name}.{os.path.basename(command[0])}.log"
        process = Process(host.command(*command), log, self.subnet.environment)
        self.addCleanup(process.end)
        return process

    def start_pings(self, host, address):
        """Starts pings and waits until they are answered."""
        pings = Pings(self.start_process(host, *Pings.COMMAND, address))
        pings.wait_for(3)
        return pings


class ResultFiles(unittest.TextTestResult):
    """Writes the result of a test as soon as it is known."""

    folder = None

    def write(self, test, outcome):
        (self.folder / test.id().rpartition(".")[2]).write_text(outcome, encoding="utf-8")

    def write_failure(self, test, trace):
        self.write(test, f"FAILED\n{trace}\n{self.logs_of(test)}\n")

    @staticmethod
    def logs_of(test):
        """Returns the logs of a test, or of a class whose set-up failed."""
        guest = getattr(test, "subnet", None)
        guest = guest if isinstance(guest, Guest) else Guest()
        return guest.logs(test.id().rpartition(".")[2])

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


def why_no_guest(*wanted):
    """Returns why no guest can be booted, or None. A guest that works for minutes in an emulated
    machine is booted there only if one of the variables `wanted` of the environment asks for it."""
    if why := os.environ.get("IPOIB_NO_VM"):
        return why.splitlines()[-1]
    if os.geteuid() != 0:
        return "needs root for the files of the guest"
    missing = [name for name in ("qemu-system-x86_64", "busybox", "cpio", "depmod")
               if shutil.which(name) is None]
    if missing:
        return f"needs {', '.join(missing)} (scripts/test --vm)"
    if wanted and not any(map(os.environ.get, wanted)) and not has_kvm():
        return "takes minutes in an emulated machine; scripts/test --vm runs it"
    return None


def has_kvm():
    """Whether the processor has the extensions for virtual machines."""
    return re.search(r"\b(vmx|svm)\b", pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"))


def boot(module, name, results, vm_options):
    """Boots a guest and runs the tests there. Fails unless each test has a result."""
    results.mkdir(parents=True, exist_ok=True)
    for old in results.iterdir():
        old.unlink()
    command = [ROOT / "scripts" / "vm", *vm_options, "--seconds", str(SECONDS), "--",
               "env", f"IPOIB_BIN={hosts.BIN}", "PYTHONDONTWRITEBYTECODE=1",
               sys.executable, module.__file__, "guest", name]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", cwd=ROOT)
    print(done.stdout)
    tests = unittest.defaultTestLoader.getTestCaseNames(getattr(module, name))
    without_result = [test for test in tests if not (results / test).exists()]
    if not without_result and done.returncode in (0, 1):
        return 0
    for path in results.iterdir():  # ctest runs no test of this class, so nothing else shows these
        text = path.read_text(encoding="utf-8")
        if text.startswith("FAILED"):
            print(f"--- {path.name}", text, sep="\n")
    print(f"FAILED: no result of {', '.join(without_result) or 'scripts/vm'}")
    return 1


def result(results, test):
    output = (results / test).read_text(encoding="utf-8")
    print(output)
    if output.startswith("skipped: "):
        return SKIPPED
    return 0 if output == "ok\n" else 1


def main(label, missing, *vm_options):
    """`missing` is the reason why the guest cannot be booted, or None; `vm_options` are for
    scripts/vm."""
    module = sys.modules["__main__"]
    role, name = sys.argv[1:]
    name, _, test = name.partition(".")
    results = pathlib.Path(hosts.BIN).resolve().parent / label / name
    if role == "guest":
        sys.exit(run_in_guest(module, name, results))
    if missing:
        print(f"skipped: {missing}")
        sys.exit(SKIPPED)
    sys.exit(boot(module, name, results, vm_options) if role == "boot" else result(results, test))
