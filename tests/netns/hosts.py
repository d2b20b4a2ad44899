"""Hosts on an emulated subnet, for tests of whole processes.

A host is a network namespace with an ipoibd in it. All names carry the process id, and everything is
taken down again however a test ends. The programs are in the folder IPOIB_BIN.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "interop"))
import softib_subnet  # noqa: E402
from softib_subnet import PATIENCE, SKIPPED, need  # noqa: E402, F401

BIN = os.environ.get("IPOIB_BIN", "build/bin")


def program(name):
    return os.path.join(BIN, name)


def wait_until(condition, what, patience=PATIENCE):
    """Waits until condition() is true, and returns its value."""
    return softib_subnet.wait_for(what, condition, patience)


class Process:
    """A program in the background, its output in a file."""

    def __init__(self, command, log, environment, preexec=None):
        self.log = log
        self.command = command
        with open(log, "ab") as out:
            self.popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out,
                                          stderr=subprocess.STDOUT, env=environment,
                                          start_new_session=True, preexec_fn=preexec)

    @property
    def pid(self):
        return self.popen.pid

    def is_running(self):
        return self.popen.poll() is None

    def end(self, number=signal.SIGTERM):
        """Sends a signal and returns the exit status."""
        if self.is_running():
            self.popen.send_signal(number)
        try:
            return self.popen.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
            raise AssertionError(f"does not end: {' '.join(self.command)}") from None

    def output(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()


def answered(shown):
    """The numbers of the pings that were answered, by what a ping has shown."""
    return [int(number) for number in re.findall(r"icmp_seq=(\d+) (?:ttl|hlim)", shown)]


def lost(shown):
    """How many pings were lost before the last one that was answered."""
    numbers = answered(shown)
    return max(numbers) - len(set(numbers))


class Pings:
    """A ping every 0.1 s. What is lost is counted, not taken from a clock: on a busy machine both
    slow down together."""

    INTERVAL = 0.1  # seconds
    COMMAND = ("ping", "-n", "-i", str(INTERVAL))

    def __init__(self, process):
        """Of the running program."""
        self.process = process

    def answers(self):
        return answered(self.process.output())

    def wait_for(self, more):
        """Until so many more answers have come."""
        before = len(self.answers())
        wait_until(lambda: len(self.answers()) >= before + more, "pings are answered", 120)

    def end(self):
        """How many were lost."""
        self.process.end(signal.SIGINT)
        return lost(self.process.output())


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
        for host in self.hosts:
            host.close()
        self.__exit__()

    def logs(self):
        out = []
        for path in sorted(self.folder.glob("*.log")):
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            out += [f"--- {path.name}", *lines[-40:]]
        return "\n".join(out)


class Host:
    """A network namespace, and the ipoibd in it on an HCA of its own."""

    def __init__(self, subnet, name):
        self.subnet = subnet
        self.name = name
        self.namespace = f"ipoibd-{os.getpid()}-{name}"
        self.daemon = None
        self.capture = None  # a file for the packets of its HCA
        self.log = subnet.folder / f"{name}.log"
        subprocess.run(["ip", "netns", "add", self.namespace], check=True)
        self.run("ip", "link", "set", "lo", "up")

    def command(self, *command):
        return ["ip", "netns", "exec", self.namespace, *command]

    def run(self, *command, check=True):
        return subprocess.run(self.command(*command), env=self.subnet.environment, check=check,
                              capture_output=True, text=True, timeout=10 * PATIENCE)

    def start(self, *options, address=None, wait=True):
        """Starts ipoibd on the host's HCA and waits until ib0 exists; with an address, until it is
        ready to be used with that. `options` come after --port 1 --pkey 0xffff, and may replace the
        partition.
        """
        if "--pkey" not in options:
            options = ("--pkey", "0xffff", *options)
        self.start_all(*options, address=address, wait=wait)

    def start_all(self, *options, address=None, wait=True):
        """The same with all partitions of the port."""
        capture = ["--capture", str(self.capture)] if self.capture else []
        self._start(self.command(program("softib"), "run", "--hca", self.name, *capture, "--",
                                 program("ipoibd"), "--port", "1", *options), address, wait)

    def start_alone(self, *options, address=None):
        """The same, without `softib run`."""
        self._start(self.command(program("ipoibd"), *options), address, True)

    def _start(self, command, address, wait):
        self.daemon = Process(command, self.log, self.subnet.environment)
        if not wait:
            return
        wait_until(lambda: self.link() is not None or not self.daemon.is_running(), "ib0 exists")
        assert self.daemon.is_running(), self.daemon.output()
        if address is not None:
            self.configure("ib0", address)

    def link(self, interface="ib0"):
        """The interface as `ip` describes it; None without one, or if it goes while `ip` asks: for
        its link first, for its addresses then."""
        result = self.run("ip", "-json", "addr", "show", "dev", interface, check=False)
        entries = json.loads(result.stdout) if result.returncode == 0 else []
        return next((entry for entry in entries if "operstate" in entry), None)

    def has_carrier(self, interface="ib0"):
        """As the kernel's queue sees it, which until then drops what is sent: a moment later than
        the flag LOWER_UP."""
        link = self.link(interface)
        return link is not None and link["operstate"] == "UP"

    def is_ready(self, interface="ib0"):
        """Kernel and daemon agree: carrier, all of its groups joined, and an address that has been
        announced, so the daemon knows it."""
        if not self.has_carrier(interface):
            return False
        info, stats = self.ibarp("info", interface), self.ibarp("stats", interface)
        return (all(group["membership"] not in ("absent", "joining") for group in info["groups"])
                and stats["counters"].get("announcements_sent", 0) > 0)

    def ibarp(self, command, interface="ib0"):
        """What a command says about an interface."""
        return json.loads(self.run(program("ibarp"), command, "-i", interface, "--json").stdout)[0]

    def configure(self, interface, address):
        """Gives an interface an address, and waits until it is ready to be used with that."""
        wait_until(lambda: self.link(interface) is not None, f"{interface} of {self.name} exists")
        self.run("ip", "addr", "add", address, "dev", interface)
        wait_until(lambda: self.is_ready(interface), f"{interface} of {self.name} is ready")

    def addresses(self, family="inet"):
        return [entry["local"] for entry in self.link()["addr_info"] if entry["family"] == family]

    def ping(self, address, *options):
        return self.run("ping", *options, address, check=False)

    def lost_of(self, count, address, *options):
        """Pings until so many are answered; how many were lost before the last of them. Told for how
        long in all, ping waits for its last answer as long as that, and not twice as long as it had
        to for others."""
        ping = self.ping(address, "-n", "-c", str(count), "-w", str(PATIENCE), *options)
        assert len(answered(ping.stdout)) >= count, ping.stdout
        return lost(ping.stdout)

    def reaches(self, address):
        return self.ping(address, "-c", "1", "-W", "1").returncode == 0

    def kill(self):
        self.daemon.end(signal.SIGKILL)

    def close(self):
        if self.daemon is not None:
            self.daemon.end()
        subprocess.run(["ip", "netns", "del", self.namespace], check=False)


def received(ping):
    """How many answers a finished ping has counted."""
    return int(re.search(r"(\d+) received", ping.stdout).group(1))


class Pair(unittest.TestCase):
    """Two hosts, 10.44.0.1 on the left and 10.44.0.2 on the right, and what tests ask of them."""

    def set_up(self, *subnet_options):
        self.subnet = Subnet(*subnet_options)
        self.addCleanup(self.subnet.close)
        self.addCleanup(self.show_logs)
        self.left = self.subnet.host("left")
        self.right = self.subnet.host("right")

    def start(self, *options):
        self.left.start(*options, address="10.44.0.1/24")
        self.right.start(*options, address="10.44.0.2/24")

    def show_logs(self):
        outcome = self._outcome.result
        if any(test is self for test, _ in outcome.failures + outcome.errors):
            print(self.subnet.logs(), file=sys.stderr)
            for host in (self.left, self.right):
                stats = host.run(program("ibarp"), "stats", check=False)
                print(f"--- {host.name}\n{stats.stdout}{stats.stderr}", file=sys.stderr)
            print(self.subnet.run_softib("show").stdout, file=sys.stderr)

    def assert_connected(self):
        wait_until(lambda: self.left.reaches("10.44.0.2"), "left reaches right")
        wait_until(lambda: self.right.reaches("10.44.0.1"), "right reaches left")

    def softib_set(self, *change):
        done = self.subnet.run_softib("set", *change)
        self.assertEqual(done.returncode, 0, done.stderr)


def main():
    """Runs the cases of the program that calls, or skips them without root."""
    if os.geteuid() != 0:
        print("skipped: needs root for network namespaces and TUN devices")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
