"""Hosts as network namespaces, and programs in the background: of labs, and of the project's own tests.

Needs root, and nothing but Python's standard library.
"""

import json
import os
import pathlib
import signal
import subprocess

PATIENCE = 60  # seconds for a command or a condition that normally takes less than one
BRIDGE_MTU = 1500  # bytes


class Failed(Exception):
    """A command has failed; the message says why."""


class Process:
    """A program in the background, in a session of its own, with its output in a file."""

    def __init__(self, command, log, environment, preexec=None, folder=None):
        """Appends to the file `log`. `preexec` is called in the new process before the program."""
        self.command = [str(word) for word in command]
        self.log = pathlib.Path(log)
        with open(log, "ab") as out:
            self.popen = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                          env=environment, cwd=folder, start_new_session=True, preexec_fn=preexec)

    @property
    def pid(self):
        return self.popen.pid

    def status(self):
        """Returns the exit status, negative for a signal; None while it runs."""
        return self.popen.poll()

    def is_running(self):
        return self.status() is None

    def send_signal(self, number):
        """Sends a signal, if it has not ended."""
        if self.is_running():
            self.popen.send_signal(number)

    def ends(self, patience):
        """Whether it has ended within so many seconds; waits for that."""
        try:
            self.popen.wait(patience)
            return True
        except subprocess.TimeoutExpired:
            return False

    def end(self, number=signal.SIGTERM, patience=PATIENCE):
        """Sends a signal, and after the patience SIGKILL; returns whether it has ended before."""
        self.send_signal(number)
        has_ended = self.ends(patience)
        if not has_ended:
            self.popen.kill()
            self.popen.wait()
        return has_ended

    def output(self):
        return self.log.read_text(encoding="utf-8", errors="replace")


def run(command, environment, patience=PATIENCE, check=True, failure=Failed):
    """Runs a command to its end, and returns it with its output as text. Raises `failure` unless its exit
    status is 0."""
    done = subprocess.run([str(word) for word in command], env=environment, check=False, capture_output=True,
                          text=True, stdin=subprocess.DEVNULL, timeout=patience)
    if check and done.returncode != 0:
        words = (done.stderr or done.stdout).strip()
        raise failure(f"{' '.join(done.args)}: {words or f'exit status {done.returncode}'}")
    return done


class Host:
    """A network namespace, from construction to remove()."""

    failure = Failed  # what run() raises

    def __init__(self, namespace, environment, ibarp):
        """`ibarp` is the program of this name."""
        self.namespace = namespace
        self.environment = environment
        self._ibarp = str(ibarp)
        run(["ip", "netns", "add", namespace], os.environ, failure=self.failure)
        self.run("ip", "link", "set", "lo", "up")

    def command(self, *command):
        """Returns the command that runs another one on the host."""
        return namespace_command(self.namespace, *command)

    def run(self, *command, check=True, patience=PATIENCE):
        return run(self.command(*command), self.environment, patience, check, self.failure)

    def link(self, interface="ib0"):
        """Returns an interface as `ip` describes it; None if it does not exist, or disappears between the
        link request and the address request of `ip`."""
        done = self.run("ip", "-json", "addr", "show", "dev", interface, check=False)
        entries = json.loads(done.stdout) if done.returncode == 0 and done.stdout else []
        return next((entry for entry in entries if "operstate" in entry), None)

    def has_carrier(self, interface="ib0"):
        """Checks operstate: the kernel drops packets until it is UP, slightly later than LOWER_UP."""
        link = self.link(interface)
        return link is not None and link["operstate"] == "UP"

    def info(self, interface="ib0"):
        """Returns what `ibarp info` prints as JSON; None if it fails."""
        done = self.run(self._ibarp, "--json", "info", "-i", interface, check=False)
        return json.loads(done.stdout)[0] if done.returncode == 0 else None

    def has_joined(self, interface="ib0"):
        """Whether the interface has carrier and has joined its groups."""
        info = self.info(interface) if self.has_carrier(interface) else None
        return info is not None and all(group["membership"] not in ("absent", "joining") for group in info["groups"])

    def add_bridge(self, bridge="br0", mtu=BRIDGE_MTU):
        # Once its MTU was changed, it does not follow those of its ports.
        self.run("ip", "link", "add", bridge, "mtu", str(mtu + 1), "type", "bridge")
        self.run("ip", "link", "set", bridge, "mtu", str(mtu))

    def add_port(self, port, station, *options, bridge="br0", interface="eth0", mtu=BRIDGE_MTU):
        """Adds a port to a bridge: a veth whose other end is an interface of a station."""
        self.run("ip", "link", "add", port, "mtu", str(mtu), "type", "veth", "peer", "name", interface,
                 "mtu", str(mtu), *options, "netns", station.namespace)
        self.run("ip", "link", "set", port, "master", bridge, "up")

    def remove(self, check=True):
        run(["ip", "netns", "delete", self.namespace], os.environ, check=check, failure=self.failure)


def namespace_command(namespace, *command):
    """Returns the command that runs another one in a named network namespace."""
    return ["ip", "netns", "exec", namespace, *command]
