"""Carries out the steps of a plan: network namespaces, processes, interfaces.

Runs in the namespaces of the lab (keeper.py).
"""

import ctypes
import functools
import json
import os
import pathlib
import select
import signal
import subprocess
import time
import zlib

from . import plan
from .lab_file import DEFAULT_PKEY, OPENSM_HCA

PATIENCE = 60  # seconds for a condition that is normally true within one
END_PATIENCE = 10  # seconds until a process that does not end is killed
INTERVAL = 0.02  # seconds between looks
LAB_VARIABLE = "SOFTIB_LAB"  # in the environment of each process of a lab: its folder
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class Failed(Exception):
    """A step has failed; the message says why."""


class Interrupted(Exception):
    """The client that asked for the steps has gone, or was interrupted."""


def namespace_command(host, *command):
    """Returns the command that runs another one on a host."""
    return ["ip", "netns", "exec", host, *command]


class Process:
    """A program in a session of its own, with its output in a file. It ends with this process."""

    def __init__(self, command, log, environment, folder=None):
        self.log = pathlib.Path(log)
        with open(log, "ab") as out:
            self._popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment,
                                           cwd=folder, start_new_session=True,
                                           preexec_fn=lambda: _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL))

    @property
    def pid(self):
        return self._popen.pid

    def status(self):
        """Returns the exit status, negative for a signal; None while it runs."""
        return self._popen.poll()

    def signal(self, number):
        """Sends a signal to the process and those of its session that have not left its group."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def ends(self):
        """Whether it has ended within the patience; waits for that."""
        try:
            self._popen.wait(END_PATIENCE)
            return True
        except subprocess.TimeoutExpired:
            return False

    def end(self):
        """Ends it, at last by SIGKILL."""
        self.signal(signal.SIGTERM)
        if not self.ends():
            self.signal(signal.SIGKILL)
            self._popen.wait()
        self.signal(signal.SIGKILL)  # what else is in its group

    def last_lines(self, count=8):
        return "".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines(True)[-count:]).rstrip()


class Effects:
    """What a lab consists of, and how each step changes it."""

    def __init__(self, name, folder, bin_folder):
        """`folder` is for logs."""
        self.name = name
        self.folder = pathlib.Path(folder)
        self.bin = pathlib.Path(bin_folder)
        self.work_folder = None  # where services run
        self.environment = dict(os.environ, SOFTIB_SUBNET=name)
        self.client = None  # a socket; readable when the client has gone
        self.subnet = None
        self.opensm = None
        self.hcas = set()  # (host, HCA)
        self.sysctls = {}  # (host, name): the value before the lab's
        self.daemons = {}  # (host, interface): Process
        self.services = {}  # (host, service): Process

    # --- What all steps use -------------------------------------------------------------------

    def run(self, *command, check=True):
        done = subprocess.run(command, env=self.environment, check=False, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=PATIENCE)
        if check and done.returncode != 0:
            words = (done.stderr or done.stdout).strip()
            raise Failed(f"{' '.join(map(str, command))}: {words or f'exit status {done.returncode}'}")
        return done

    def run_on(self, host, *command, check=True):
        return self.run(*namespace_command(host, *command), check=check)

    def program(self, name):
        """Returns a program of this project: the one beside softib, else that in the PATH."""
        path = self.bin / name
        return path if path.exists() else name

    def softib(self, *arguments):
        return self.run(self.bin / "softib", *arguments)

    def check_client(self):
        """Raises Interrupted if the client waits no longer."""
        if self.client is not None and select.select([self.client], [], [], 0)[0]:
            raise Interrupted()

    def wait(self, what, condition, process=None):
        """Waits until condition() is true; fails when the process has ended."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.check_client()
            if process is not None and process.status() is not None:
                raise Failed(f"{what}: it has ended\n{process.last_lines()}")
            if time.monotonic() > deadline:
                raise Failed(f"{what}: not within {PATIENCE} s" + (f"\n{process.last_lines()}" if process else ""))
            time.sleep(INTERVAL)

    def start(self, log, *command, folder=None):
        return Process([str(word) for word in command], self.folder / f"{log}.log", self.environment, folder)

    def link(self, host, interface):
        """Returns an interface as `ip` describes it; None if it does not exist."""
        done = self.run_on(host, "ip", "-json", "addr", "show", "dev", interface, check=False)
        entries = json.loads(done.stdout) if done.returncode == 0 and done.stdout else []
        return next((entry for entry in entries if "operstate" in entry), None)

    def is_ready(self, host, interface):
        """Whether the interface has carrier and has joined its groups."""
        link = self.link(host, interface)
        if link is None or link["operstate"] != "UP":
            return False
        done = self.run_on(host, self.program("ibarp"), "--json", "info", "-i", interface, check=False)
        return done.returncode == 0 and all(
            all(group["membership"] not in ("absent", "joining") for group in each["groups"]) and
            all(port["state"] == "up" for port in each.get("ports", ()))
            for each in json.loads(done.stdout))

    # --- Steps --------------------------------------------------------------------------------

    @functools.singledispatchmethod
    def do(self, step):
        """Carries out a step of a plan. Raises Failed or Interrupted."""
        raise TypeError(step)

    @do.register
    def _(self, step: plan.StartSubnet):
        options = ["--mtu", str(step.subnet.mtu)]
        if step.subnet.sm == "own":
            for text in partition_options(step.subnet, dict(step.memberships)):
                options += ["--partition", text]
        else:
            options += ["--sm", "none"]
        self.subnet = self.start("subnet", self.bin / "softib", "subnet", *options)
        self.wait("the subnet", lambda: "ready" in self.subnet.log.read_text(encoding="utf-8", errors="replace"),
                  self.subnet)

    @do.register
    def _(self, step: plan.StopSubnet):
        for process in (self.opensm, self.subnet):
            if process is not None:
                process.end()
        self.opensm = self.subnet = None

    @do.register
    def _(self, step: plan.StartOpenSm):
        self.environment |= dict(OSM_TMP_DIR=str(self.folder), OSM_CACHE_DIR=str(self.folder))
        options, log = self.folder / "opensm.conf", self.folder / "opensm-events.log"
        options.write_text("force_log_flush TRUE\n", encoding="ascii")
        command = [self.bin / "softib", "run", "--hca", step.subnet.sm_host or OPENSM_HCA, "--", "opensm", "-F",
                   options, "-P", self.folder / "partitions.conf", "-f", log]
        if step.subnet.sm_host:
            command = namespace_command(step.subnet.sm_host, *command)
        self.opensm = self.start("opensm", *command)
        self.wait("OpenSM", lambda: log.exists() and "SUBNET UP" in log.read_text(encoding="utf-8", errors="replace"),
                  self.opensm)

    @do.register
    def _(self, step: plan.SetMemberships):
        if step.subnet.sm == "own":
            for (pkey, hca), membership in step.changes:
                self.softib("set", "partition", f"{pkey:#x}", hca, membership)
            return
        nodes = json.loads(self.softib("show", "--json").stdout)["nodes"]
        guids = {node["name"]: node["port_guid"] for node in nodes}
        text = opensm_partitions(step.subnet, dict(step.memberships), guids)
        (self.folder / "partitions.conf").write_text(text, encoding="ascii")
        if self.opensm is not None:
            self.opensm.signal(signal.SIGHUP)

    @do.register
    def _(self, step: plan.AddHost):
        self.run("ip", "netns", "add", step.host)
        self.run_on(step.host, "ip", "link", "set", "lo", "up")

    @do.register
    def _(self, step: plan.RemoveHost):
        self.run("ip", "netns", "delete", step.host)
        self._forget_sysctls(step.host)

    @do.register
    def _(self, step: plan.AddHca):
        self.softib("set", "hca", step.hca, "present")
        self.hcas.add((step.host, step.hca))

    @do.register
    def _(self, step: plan.RemoveHca):
        self.softib("set", "hca", step.hca, "absent")
        self.hcas.discard((step.host, step.hca))

    @do.register
    def _(self, step: plan.StartInterface):
        interface, ipoibd = step.interface, self.program("ipoibd")
        options = ["--pkey", f"{interface.pkey:#x}", "--name", interface.name,
                   *(["--ethernet"] if interface.ethernet else []), *interface.options]
        if interface.backup:
            command = [self.bin / "softib", "run", "--hca", f"{step.host},{interface.backup}", "--", ipoibd,
                       "--device", "softib0:1", "--backup", "softib1:1", *options]
        else:
            command = [ipoibd, f"--softib={self.name}/{step.host}", *options]
        self.daemons[step.host, interface.name] = self.start(f"{step.host}-{interface.name}",
                                                             *namespace_command(step.host, *command))

    @do.register
    def _(self, step: plan.AddBridge):
        # Once its MTU was changed, it does not follow those of its ports.
        self.run_on(step.host, "ip", "link", "add", step.bridge.name, "mtu", str(step.bridge.mtu + 1), "type", "bridge")
        self.run_on(step.host, "ip", "link", "set", step.bridge.name, "mtu", str(step.bridge.mtu))

    @do.register
    def _(self, step: plan.AddStationInterface):
        interface, (host, bridge) = step.interface, step.interface.bridge
        port, mtu = port_name(step.host, interface.name), str(interface.mtu)
        self.run_on(host, "ip", "link", "add", port, "mtu", mtu, "type", "veth", "peer", "name", interface.name,
                    "mtu", mtu, *(["address", interface.mac] if interface.mac else []), "netns", step.host)
        self.run_on(host, "ip", "link", "set", port, "master", bridge, "up")

    @do.register
    def _(self, step: plan.RemoveLink):
        # A veth may have gone with the host at its other end.
        self.run_on(step.host, "ip", "link", "delete", step.link, check=False)

    @do.register
    def _(self, step: plan.AddPort):
        self._await_link(step.host, step.port)
        self.run_on(step.host, "ip", "link", "set", step.port, "master", step.bridge)

    @do.register
    def _(self, step: plan.RemovePort):
        self.run_on(step.host, "ip", "link", "set", step.port, "nomaster")

    @do.register
    def _(self, step: plan.SetSysctl):
        if step.interface:
            self._await_link(step.host, step.interface)
        key = step.host, step.name
        if step.value is not None and key not in self.sysctls:
            self.sysctls[key] = self.run_on(step.host, "sysctl", "-n", step.name).stdout.strip()
        value = self.sysctls.pop(key) if step.value is None else step.value
        self.run_on(step.host, "sysctl", "-qw", f"{step.name}={value}")

    def _forget_sysctls(self, host):
        self.sysctls = {key: value for key, value in self.sysctls.items() if key[0] != host}

    @do.register
    def _(self, step: plan.StopInterface):
        self.daemons.pop((step.host, step.interface)).end()

    def _await_link(self, host, interface):
        """Waits until ipoibd has created its interface; others are there when they are added."""
        if (host, interface) not in self.daemons:
            return
        self.wait(f"ipoibd for {interface} of {host}", lambda: self.link(host, interface) is not None,
                  self.daemons[host, interface])

    @do.register
    def _(self, step: plan.AddAddress):
        self._await_link(step.host, step.interface)
        # Duplicates are found when the file is read.
        nodad = ["nodad"] if ":" in step.address else []
        self.run_on(step.host, "ip", "addr", "add", step.address, "dev", step.interface, *nodad)

    @do.register
    def _(self, step: plan.RemoveAddress):
        self.run_on(step.host, "ip", "addr", "del", step.address, "dev", step.interface)

    @do.register
    def _(self, step: plan.BringUp):
        self._await_link(step.host, step.interface)
        self.run_on(step.host, "ip", "link", "set", step.interface, "up")

    @do.register
    def _(self, step: plan.SetMtu):
        if (step.host, step.interface) in self.daemons:
            self._await_ready(step.host, step.interface)
        self.run_on(step.host, "ip", "link", "set", step.interface, "mtu", str(step.mtu))

    @do.register
    def _(self, step: plan.SetForwarding):
        value = int(step.on)
        self.run_on(step.host, "sysctl", "-qw", f"net.ipv4.ip_forward={value}",
                    f"net.ipv6.conf.all.forwarding={value}")

    @do.register
    def _(self, step: plan.AddRoute):
        self.run_on(step.host, "ip", *family_of(step.route), "route", "replace", *step.route.split())

    @do.register
    def _(self, step: plan.RemoveRoute):
        # It may have gone with its address or interface.
        self.run_on(step.host, "ip", *family_of(step.route), "route", "del", *step.route.split(), check=False)

    @do.register
    def _(self, step: plan.AwaitReady):
        self._await_ready(step.host, step.interface)

    def _await_ready(self, host, interface):
        self.wait(f"{interface} of {host} is ready", lambda: self.is_ready(host, interface),
                  self.daemons[host, interface])

    @do.register
    def _(self, step: plan.StartService):
        self.services[step.host, step.name] = self.start(
            f"{step.host}-service-{step.name}", *namespace_command(step.host, "sh", "-c", step.command),
            folder=self.work_folder)

    @do.register
    def _(self, step: plan.StopService):
        self.services.pop((step.host, step.name)).end()

    # --- The whole ----------------------------------------------------------------------------

    def remove_host(self, name):
        """Removes what there is of a host, also if it is half made."""
        for processes in (self.services, self.daemons):
            for key in [key for key in processes if key[0] == name]:
                processes.pop(key).end()
        self.run("ip", "netns", "delete", name, check=False)
        self._forget_sysctls(name)
        for host, hca in sorted(self.hcas):
            if host == name:
                self.run(self.bin / "softib", "set", "hca", hca, "absent", check=False)
                self.hcas.discard((host, hca))

    def end_all(self):
        """Ends all processes, all at once. The namespaces end with the keeper."""
        groups = ([*self.services.values(), *self.daemons.values()], [self.opensm], [self.subnet])
        for processes in groups:
            running = [each for each in processes if each is not None]
            for each in running:
                each.signal(signal.SIGTERM)
            for each in running:
                each.end()
        self.services, self.daemons, self.opensm, self.subnet = {}, {}, None, None


def port_name(station, interface):
    """Returns the name of a bridge's port to a station, which has at most 15 characters."""
    name = f"{station}-{interface}"
    return name if len(name) <= 15 else f"{name[:8]}-{zlib.crc32(name.encode()) & 0xffffff:06x}"


def family_of(route):
    return ["-6"] if ":" in route.split()[0] else []


def partition_options(subnet, memberships):
    """Returns the values of `softib subnet --partition`."""
    found = []
    for partition in subnet.partitions:
        parameters = "".join([f",mtu={partition.mtu}" if partition.mtu else "",
                              f",rate={partition.rate:g}" if partition.rate else ""])
        for membership in ("full", "limited"):
            hcas = [hca for (pkey, hca), each in memberships.items() if (pkey, each) == (partition.pkey, membership)]
            if partition.pkey == DEFAULT_PKEY and membership == "full":
                found.append(f"{partition.pkey:#x}=full{parameters}")
            elif hcas:
                found.append(f"{partition.pkey:#x}={membership}:{','.join(hcas)}{parameters}")
    return found


MTU_CODES = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
# The rates of links, in Gb/s, and their codes (IBA 15.2.5.16).
RATE_CODES = {2.5: 2, 5: 5, 10: 3, 14: 11, 20: 6, 25: 15, 28: 19, 30: 4, 40: 7, 50: 20, 56: 12, 60: 8, 80: 9, 100: 16,
              112: 13, 120: 10, 168: 14, 200: 17, 300: 18, 400: 21}


def opensm_partitions(subnet, memberships, guids):
    """Returns OpenSM's file of partitions; `guids` are those of the ports, by HCA."""
    lines = []
    for partition in subnet.partitions:
        flags = ["ipoib", *([f"mtu={MTU_CODES[partition.mtu]}"] if partition.mtu else []),
                 *([f"rate={RATE_CODES[partition.rate]}"] if partition.rate else [])]
        members = [f"{guids[hca]}={each}" for (pkey, hca), each in memberships.items() if pkey == partition.pkey
                   and (pkey != DEFAULT_PKEY or each == "limited")]
        everyone = ["ALL=full"] if partition.pkey == DEFAULT_PKEY else []
        name = "Default" if partition.pkey == DEFAULT_PKEY else partition.name
        lines.append(f"{name}={partition.pkey:#x},{','.join(flags)}:{','.join([*everyone, *members])};\n")
    return "".join(lines)
