"""Hosts on an emulated subnet, for tests of whole processes.

A host is that of a lab (python/softib_lab/host.py) with an ipoibd in it. All names contain the process
id, and everything is taken down when a test ends. The programs are in the folder IPOIB_BIN.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "interop"), str(TESTS.parent / "python")]
import softib_subnet  # noqa: E402
from softib_lab import host as lab  # noqa: E402
from softib_subnet import PATIENCE, SKIPPED, need  # noqa: E402, F401

# Processes inherit that a signal is ignored, as below nohup; those of the tests end on SIGHUP.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

BIN = os.environ.get("IPOIB_BIN", "build/bin")


def program(name):
    return os.path.join(BIN, name)


def wait_until(condition, what, patience=PATIENCE):
    """Waits until condition() is true, and returns its value."""
    return softib_subnet.wait_for(what, condition, patience)


class Process(lab.Process):
    def end(self, number=signal.SIGTERM, patience=PATIENCE):
        """Sends a signal and returns the exit status."""
        assert super().end(number, patience), f"does not exit: {' '.join(self.command)}"
        return self.status()


def replies(output):
    """Returns the sequence numbers of the replies in the output of a ping."""
    return [int(number) for number in re.findall(r"icmp_seq=(\d+) (?:ttl|hlim)", output)]


def lost(output):
    """Returns how many pings were lost before the last reply."""
    numbers = replies(output)
    return max(numbers) - len(set(numbers))


class Pings:
    """A ping every 0.1 s. Lost pings are counted instead of measuring time, because a busy machine
    slows down both."""

    INTERVAL = 0.1  # seconds
    COMMAND = ("ping", "-n", "-i", str(INTERVAL))

    def __init__(self, process):
        """`process` is the running ping."""
        self.process = process

    def replies(self):
        return replies(self.process.output())

    def wait_for(self, more):
        """Waits for so many more replies."""
        before = len(self.replies())
        wait_until(lambda: len(self.replies()) >= before + more, "pings are answered", 120)

    def end(self):
        """Ends the ping and returns how many pings were lost."""
        self.process.end(signal.SIGINT)
        return lost(self.process.output())


def processes_with(environment):
    """Returns the command lines of all processes with this string in their environment."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if environment.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def has_sanitizer(pid):
    maps = pathlib.Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")
    return re.search(r"[at]san[-.]", maps) is not None


def resident_kib(pid):
    """Returns the resident memory; None with a sanitizer, which uses most of it, and of a process that
    has ended."""
    if has_sanitizer(pid):
        print("running with a sanitizer: memory is not checked", file=sys.stderr)
        return None
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    found = re.search(r"^VmRSS:\s*(\d+)", status, re.M)
    return int(found[1]) if found else None


class Subnet(softib_subnet.Subnet):
    """A subnet and hosts on it, from construction to close()."""

    def __init__(self, *options):
        super().__init__(program("softib"), *options)
        self.hosts = []
        self.__enter__()

    def run_softib(self, *arguments):
        return subprocess.run([program("softib"), *arguments], env=self.environment, check=False,
                              capture_output=True, text=True, timeout=PATIENCE)

    def host(self, name):
        host = Host(self, name)
        self.hosts.append(host)
        return host

    def close(self):
        """Ends everything, and then fails if an end was not as it should be."""
        with contextlib.ExitStack() as ends:
            ends.callback(self._end)
            for host in reversed(self.hosts):
                ends.callback(host.close)

    def _end(self):
        try:
            if self.process.poll() is not None and self.run_softib("show").returncode == 0:
                # A program has started the subnet again.
                done = self.run_softib("stop")
                assert done.returncode == 0, done.stderr
        finally:
            self.__exit__()

    def logs(self):
        out = []
        for path in sorted(self.folder.glob("*.log")):
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            out += [f"--- {path.name}", *lines[-40:]]
        return "\n".join(out)


class Host(lab.Host):
    """A network namespace, and the ipoibd in it on its own HCA."""

    failure = AssertionError

    def __init__(self, subnet, name):
        self.subnet = subnet
        self.name = name
        self.daemon = None
        self.capture = None  # a capture file of its HCA
        self.log = subnet.folder / f"{name}.log"
        super().__init__(f"ipoibd-{os.getpid()}-{name}", subnet.environment, program("ibarp"))

    def run(self, *command, check=True, patience=10 * PATIENCE):
        return super().run(*command, check=check, patience=patience)

    def start(self, *options, address=None, wait=True):
        """Starts ipoibd on the host's HCA and waits until ib0 exists; with an address, until ib0 is
        ready with that address. The default options are --port 1 --pkey 0xffff; `options` may
        replace the partition."""
        if "--pkey" not in options:
            options = ("--pkey", "0xffff", *options)
        self.start_all(*options, address=address, wait=wait)

    def start_all(self, *options, address=None, wait=True):
        """Like start(), with all partitions of the port."""
        capture = ["--capture", str(self.capture)] if self.capture else []
        self._start(self.command(program("softib"), "run", "--hca", self.name, *capture, "--",
                                 program("ipoibd"), "--port", "1", *options), address, wait)

    def start_alone_on(self, hca):
        """Starts ipoibd on another host's HCA, in the default partition."""
        self._start(self.command(program("softib"), "run", "--hca", hca, "--", program("ipoibd"),
                                 "--pkey", "0xffff"), None, True)

    def start_alone(self, *options, address=None, command=(program("ipoibd"),)):
        """Like start(), with exactly these options and without `softib run`."""
        self._start(self.command(*command, *options), address, True)

    def _start(self, command, address, wait):
        self.daemon = Process(command, self.log, self.subnet.environment)
        if not wait:
            return
        wait_until(lambda: self.link() is not None or not self.daemon.is_running(), "ib0 exists")
        assert self.daemon.is_running(), self.daemon.output()
        if address is not None:
            self.configure("ib0", address)

    def is_ready(self, interface="ib0"):
        """Checks for carrier, joined groups, and an announced address (so the daemon knows it)."""
        return self.has_joined(interface) and self.counters(interface).get("announcements_sent", 0) > 0

    def ibarp(self, command, interface="ib0"):
        """Returns the JSON output of an ibarp command for an interface."""
        return json.loads(self.run(program("ibarp"), command, "-i", interface, "--json").stdout)[0]

    def counters(self, interface="ib0"):
        """Returns all counters of an interface by name."""
        stats = self.ibarp("stats", interface)
        return {**stats["counters"], **stats["drops"]}

    def logged(self, *words):
        """Returns whether a line of the daemon's log contains all the words."""
        return any(all(word in line for word in words)
                   for line in self.daemon.output().splitlines())

    def wait_for_log(self, *words):
        """Waits until a line of the daemon's log contains all the words."""
        wait_until(lambda: self.logged(*words), f"the log of {self.name} says {words}")

    def configure(self, interface, address):
        """Gives an interface an address, and waits until it is ready."""
        wait_until(lambda: self.link(interface) is not None, f"{interface} of {self.name} exists")
        self.run("ip", "addr", "add", address, "dev", interface)
        wait_until(lambda: self.is_ready(interface), f"{interface} of {self.name} is ready")

    def bridge(self, *ports, mtu=lab.BRIDGE_MTU):
        """Makes interfaces the ports of a bridge br0."""
        self.add_bridge(mtu=mtu)
        for port in ports:
            self.run("ip", "link", "set", port, "master", "br0", "up")
        self.run("ip", "link", "set", "br0", "up")

    def addresses(self, family="inet", interface="ib0"):
        return [entry["local"] for entry in self.link(interface)["addr_info"]
                if entry["family"] == family]

    def ping(self, address, *options):
        return self.run("ping", *options, address, check=False)

    def lost_of(self, count, address, *options):
        """Pings until `count` replies have come; returns how many pings were lost before the last one.
        With -w, ping waits until that deadline for its last reply, not just twice the RTT."""
        ping = self.ping(address, "-n", "-c", str(count), "-w", str(PATIENCE), *options)
        assert len(replies(ping.stdout)) >= count, ping.stdout
        return lost(ping.stdout)

    def reaches(self, address, *options):
        return self.ping(address, "-c", "1", "-W", "1", *options).returncode == 0

    def kill(self):
        self.daemon.end(signal.SIGKILL)

    def close(self):
        try:
            if self.daemon is not None:
                self.daemon.end()
        finally:
            self.remove(check=False)
        assert self.daemon is None or not self.logged("sandbox has refused"), self.daemon.output()


def received(ping):
    """Returns how many replies a finished ping has received."""
    return int(re.search(r"(\d+) received", ping.stdout).group(1))


class Pair(unittest.TestCase):
    """A test with two hosts: left is 10.44.0.1, right is 10.44.0.2."""

    def set_up(self, *subnet_options):
        self.subnet = Subnet(*subnet_options)
        self.addCleanup(self.subnet.close)
        self.addCleanup(self.show_logs)
        self.left = self.subnet.host("left")
        self.right = self.subnet.host("right")

    def start(self, *options):
        self.left.start(*options, address="10.44.0.1/24")
        self.right.start(*options, address="10.44.0.2/24")

    def add_host(self, name, address):
        host = self.subnet.host(name)
        host.start(address=address)
        return host

    def start_with_router(self):
        """Starts left as 10.44.0.1 and right as 10.45.0.2; returns a router between them, on the
        same link. The hosts have no routes yet."""
        self.left.start(address="10.44.0.1/24")
        self.right.start(address="10.45.0.2/24")
        router = self.add_host("router", "10.44.0.254/24")
        router.run("ip", "addr", "add", "10.45.0.254/24", "dev", "ib0")
        router.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1",
                   "net.ipv4.conf.all.send_redirects=0", "net.ipv4.conf.ib0.send_redirects=0")
        return router

    def has_failed(self):
        outcome = self._outcome.result
        return any(test is self for test, _ in outcome.failures + outcome.errors)

    def show_logs(self):
        if self.has_failed():
            print(self.subnet.logs(), file=sys.stderr)
            for host in self.subnet.hosts:
                stats = host.run(program("ibarp"), "stats", check=False)
                print(f"--- {host.name}\n{stats.stdout}{stats.stderr}", file=sys.stderr)
            print(self.subnet.run_softib("show").stdout, file=sys.stderr)

    def assert_connected(self):
        wait_until(lambda: self.left.reaches("10.44.0.2"), "left reaches right")
        wait_until(lambda: self.right.reaches("10.44.0.1"), "right reaches left")

    def softib_set(self, *change):
        done = self.subnet.run_softib("set", *change)
        self.assertEqual(done.returncode, 0, done.stderr)


def needs(*tools):
    missing = [tool for tool in tools if shutil.which(tool) is None]
    return unittest.skipIf(missing, f"not installed: {' '.join(missing)}")


def needs_users():
    """For programs that run as another user than root, or parts of them."""
    return unittest.skipUnless(softib_subnet.has_other_users(),
                               "needs root: a program changes its user, and this namespace has only one")


def main():
    """Runs the tests of the calling program."""
    softib_subnet.need_root()
    unittest.main(verbosity=2)
