"""A subnet of softib with a folder of its own, for tests that run programs on it.

Tests skip with 77 and a reason when what they need is not there, and wait for conditions.
"""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
PATIENCE = 60  # seconds, for each condition


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def need(*tools):
    for tool in tools:
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed")


def wait_for(what, condition, patience=PATIENCE):
    deadline = time.monotonic() + patience
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience} s in vain for {what}")
        time.sleep(0.02)
    return result


class Subnet:
    """`with Subnet(softib) as subnet:` runs a subnet process; at the end all that was started is
    ended."""

    def __init__(self, softib, *options):
        self.program = os.path.abspath(softib)
        self.options = options
        self.processes = []
        self.process = None

    def __enter__(self):
        self.root = tempfile.TemporaryDirectory(prefix="softib-")
        self.folder = pathlib.Path(self.root.name)
        self.environment = dict(os.environ, SOFTIB_DIR=self.root.name)
        self.environment.pop("SOFTIB_SUBNET", None)
        self.start_subnet()
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.kill()
            process.wait()
        self.root.cleanup()

    def _start(self, command, **more):
        process = subprocess.Popen(command, env=self.environment, text=True, **more)
        self.processes.append(process)
        return process

    def start_subnet(self):
        """Returns when the subnet is ready."""
        self.process = self._start([self.program, "subnet", *self.options], stdout=subprocess.PIPE)
        line = self.process.stdout.readline()
        assert line.startswith("ready"), f"the subnet did not start: {line!r}"

    def kill_subnet(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def softib(self, *arguments):
        """What a subcommand says."""
        return subprocess.run([self.program, *arguments], env=self.environment, check=True,
                              text=True, stdout=subprocess.PIPE, timeout=PATIENCE).stdout

    def command(self, hca, *command, options=()):
        return [self.program, "run", "--hca", hca, *options, "--", *command]

    def run(self, hca, *command, options=(), check=True):
        """Runs a program to its end; its output, both streams in one, is in `.stdout`."""
        done = subprocess.run(self.command(hca, *command, options=options), env=self.environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=PATIENCE)
        if check and done.returncode != 0:
            raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}")
        return done

    def start(self, hca, *command, options=(), **more):
        """Starts a program, which is killed at the end."""
        return self._start(self.command(hca, *command, options=options), **more)


def free_tcp_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def is_listening(tcp_port):
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as rows:
            if any(f":{tcp_port:04X} " in row and " 0A " in row for row in rows):
                return True
    return False


def play(subnet, program, *options):
    """Runs a program of two sides, which first meet over TCP, on the HCAs "a" and "b"; returns what
    each has said."""
    tcp_port = free_tcp_port()
    command = [program, "-p", str(tcp_port), *options]
    server = subnet.start("a", *command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    wait_for("the server", lambda: is_listening(tcp_port) or server.poll() is not None)
    client = subnet.run("b", *command, "127.0.0.1")
    said, _ = server.communicate(timeout=PATIENCE)
    if server.returncode != 0:
        raise AssertionError(f"{command} ended with {server.returncode}:\n{said}")
    return said, client.stdout


def run_tests(tests):
    """Runs functions that raise AssertionError when they fail; ends the program."""
    failed = 0
    for test in tests:
        try:
            test()
            print(f"ok      {test.__name__}")
        except AssertionError as error:
            failed += 1
            print(f"FAILED  {test.__name__}: {error}")
    sys.exit(1 if failed else 0)
