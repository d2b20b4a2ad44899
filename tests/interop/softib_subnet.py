"""A softib subnet with its own folder, for tests that run programs on it.

A test that cannot run prints a reason and exits with status 77. Tests wait for conditions.
"""
import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
PATIENCE = 60  # seconds per condition
F_OFD_GETLK = 36
CLOCK_IS_UNKNOWN = "Correlation coefficient r^2"  # which perftest computes from times that it takes
SUPPRESSIONS = pathlib.Path(__file__).resolve().with_name("programs.tsan")

# Programs of the system, which an ordinary user's PATH lacks.
os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/local/sbin:/usr/sbin:/sbin"


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def need_root():
    """Continues the calling program in namespaces in which an ordinary user is root
    (scripts/namespaces); skips it if he may not have them."""
    if os.geteuid() != 0:
        script = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "namespaces"
        os.execv(script, [str(script), "--status", str(SKIPPED), sys.executable, *sys.argv])


def need_own_network(*more):
    """Continues the calling program in a network namespace of its own, with loopback. So programs with
    fixed port numbers do not meet those of the machine, such as another run of the same test.
    `more`: options of unshare(1) for other namespaces."""
    need("ip", "unshare")
    need_root()
    if os.environ.get("SOFTIB_TEST_NETWORK") != "own":
        os.environ["SOFTIB_TEST_NETWORK"] = "own"
        os.execvp("unshare", ["unshare", "--net", *more, sys.executable, *sys.argv])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def need(*tools):
    for tool in tools:
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed")


def services(shown):
    """Returns the service ID of each ID that listens, from the output of `softib show --cm --json`."""
    return [int(one["service_id"], 16) for process in json.loads(shown)["processes"] for one in process["ids"]
            if one["state"] == "Listen"]


def roce_gids(devinfo):
    """Returns the GIDs of RoCE v2 in what `ibv_devinfo -v` prints."""
    return re.findall(r"GID\[ *\d+\]:\s+(\S+), RoCE v2", devinfo)


def has_other_users():
    """Whether a program can change its user. It cannot in a user namespace that has only one."""
    first, _, count = pathlib.Path("/proc/self/uid_map").read_text(encoding="ascii").split()[:3]
    return (first, count) != ("0", "1")


def rsocket_preload():
    """The beginning of a command: what runs in it has RDMA sockets in place of TCP, by librspreload."""
    library = next(pathlib.Path("/usr/lib").glob("*/rsocket/librspreload.so"), None)
    if library is None:
        skip("no librspreload")
    return ["sh", "-c", f'LD_PRELOAD="$LD_PRELOAD:{library}" exec "$@"', "sh"]


def wait_for(what, condition, patience=PATIENCE):
    """Waits until condition() is true, and returns its value."""
    deadline = time.monotonic() + patience
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"timeout after {patience} s: {what}")
        time.sleep(0.02)
    return result


def is_locked(path, offset):
    """Whether another process has locked this byte of a file."""
    with open(path, "rb+") as file:
        ask = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, offset, 1, 0)
        return struct.unpack("hhqqi4x", fcntl.fcntl(file, F_OFD_GETLK, ask))[0] != fcntl.F_UNLCK


class Subnet:
    """`with Subnet(softib) as subnet:` runs a subnet process; all started processes are killed at the
    end of the block."""

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
        # Quoted: the folder may have a blank in its name.
        self.environment["TSAN_OPTIONS"] = f"suppressions='{SUPPRESSIONS}'"
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

    def start_subnet(self, **more):
        """Starts the subnet process and waits until it is ready."""
        self.process = self._start([self.program, "subnet", *self.options], stdout=subprocess.PIPE,
                                   **more)
        line = self.process.stdout.readline()
        assert line.startswith("ready"), f"the subnet did not start: {line!r}"

    def kill_subnet(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def softib(self, *arguments):
        """Returns the output of a softib subcommand."""
        return subprocess.run([self.program, *arguments], env=self.environment, check=True,
                              text=True, stdout=subprocess.PIPE, timeout=PATIENCE).stdout

    def nodes(self):
        """Returns name -> node, as `softib show` prints them: NAME, or of an HCA with two ports NAME[PORT]."""
        return {node["name"] + (f'[{node["port"]}]' if node["ports"] > 1 else ""): node
                for node in json.loads(self.softib("show", "--json"))["nodes"]}

    def command(self, hca, *command, options=()):
        return [self.program, "run", "--hca", hca, *options, "--", *command]

    def run(self, hca, *command, options=(), check=True, patience=PATIENCE):
        """Runs a program to its end; `.stdout` has both output streams."""
        done = subprocess.run(self.command(hca, *command, options=options), env=self.environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=patience)
        if check and done.returncode != 0:
            raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}")
        return done

    def start(self, hca, *command, options=(), **more):
        """Starts a program."""
        return self._start(self.command(hca, *command, options=options), **more)


TWO_PORTS = """
Switch 4 "switch"
[1] "a"[1]
[2] "a"[2]
[3] "b"[1]
[4] "b"[2]

Hca 2 "a"
[1] "switch"[1]
[2] "switch"[2]

Hca 2 "b"
[1] "switch"[3]
[2] "switch"[4]
"""


@contextlib.contextmanager
def two_port_subnet(softib):
    """A subnet with the HCAs "a" and "b" of two ports each."""
    with tempfile.NamedTemporaryFile("w", suffix=".net") as file:
        file.write(TWO_PORTS)
        file.flush()
        with Subnet(softib, "--topology", file.name) as subnet:
            yield subnet


def add_addresses(subnet, addresses):
    """Gives HCAs addresses of a network interface, which it creates; needs a network of its own."""
    def ip(*command):
        subprocess.run(["ip", *command], check=True)

    ip("link", "add", "near", "type", "veth", "peer", "name", "far")
    for hca, address in addresses.items():
        ip("address", "add", f"{address}/24", "dev", "near")
        subnet.run(hca, "true", options=("--address", address))
    for interface in ("near", "far"):
        ip("link", "set", interface, "up")


def free_tcp_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def is_listening(tcp_port):
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as rows:
            if any(f":{tcp_port:04X} " in row and " 0A " in row for row in rows):
                return True
    return False


def play(subnet, program, *options, under=()):
    """Runs the server of a program on HCA "a" and its client on "b", which first connect over TCP,
    both under another program if there is one; returns the output of both. Programs of perftest that
    cannot measure the processor's clock on a busy machine are run again."""
    for _ in range(5):
        status, server, client = play_once(subnet, program, *options, under=under)
        if CLOCK_IS_UNKNOWN not in server + client:
            break
    if status != 0:
        raise AssertionError(f"{program} {options} ended with {status}:\n{server}\n{client}")
    return server, client


def play_once(subnet, program, *options, under):
    """Returns the exit status of the server or else that of the client, and the output of both."""
    tcp_port = free_tcp_port()
    command = [*under, program, "-p", str(tcp_port), *options]
    with tempfile.TemporaryFile("w+") as log:  # a pipe that nobody reads meanwhile would fill up
        server = subnet.start("a", *command, stdout=log, stderr=subprocess.STDOUT)
        wait_for("the server", lambda: is_listening(tcp_port) or server.poll() is not None)
        client = subnet.run("b", *command, "127.0.0.1", check=False)
        server.wait(timeout=PATIENCE)
        log.seek(0)
        return server.returncode or client.returncode, log.read(), client.stdout


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def run_tests(tests, names=()):
    """Runs functions that raise AssertionError on failure, all or those of these names; exits."""
    failed = 0
    for test in tests:
        if names and test.__name__ not in names:
            continue
        try:
            test()
            print(f"ok      {test.__name__}")
        except AssertionError as error:
            failed += 1
            print(f"FAILED  {test.__name__}: {error}")
    sys.exit(1 if failed else 0)
