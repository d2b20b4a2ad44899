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
import time
import zlib

from . import host, plan
from .host import PATIENCE, Failed, namespace_command
from .lab_file import DEFAULT_PKEY, OPENSM_HCA

END_PATIENCE = 10  # seconds until a process that does not end is killed
INTERVAL = 0.02  # seconds between looks
MEMBERSHIP_BIT = 0x8000  # of a P_Key
LAB_VARIABLE = "SOFTIB_LAB"  # in the environment of each process of a lab: its folder
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class Interrupted(Exception):
    """The client that asked for the steps has gone, or was interrupted."""


class Process(host.Process):
    """A program with all that it starts, as far as that does not leave its process group. It ends with
    this process."""

    def __init__(self, command, log, environment, folder=None):
        super().__init__(command, log, environment, folder=folder,
                         preexec=lambda: _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL))

    def send_signal(self, number):
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def end(self, number=signal.SIGTERM, patience=END_PATIENCE):
        has_ended = super().end(number, patience)
        self.send_signal(signal.SIGKILL)  # what else is in its group
        return has_ended

    def last_lines(self, count=8):
        return "".join(self.output().splitlines(True)[-count:]).rstrip()


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
        self.hosts = {}  # name: host.Host
        self.hcas = set()  # (host, HCA)
        self.sysctls = {}  # (host, name): the value before the lab's
        self.daemons = {}  # (host, interface): Process
        self.services = {}  # (host, service): Process

    # --- What all steps use -------------------------------------------------------------------

    def program(self, name):
        """Returns a program of this project: the one beside softib, else that in the PATH."""
        path = self.bin / name
        return path if path.exists() else name

    def softib(self, *arguments, check=True):
        return host.run([self.bin / "softib", *arguments], self.environment, check=check)

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
        return Process(command, self.folder / f"{log}.log", self.environment, folder)

    def is_ready(self, name, interface):
        """Whether the interface has carrier and has joined its groups, and its backup port could serve it."""
        the_host = self.hosts[name]
        return the_host.has_joined(interface) and all(
            port["state"] == "up" for port in (the_host.info(interface) or {}).get("ports", ()))

    # --- Steps --------------------------------------------------------------------------------

    @functools.singledispatchmethod
    def do(self, step):
        """Carries out a step of a plan. Raises Failed or Interrupted."""
        raise TypeError(step)

    @do.register
    def _(self, step: plan.StartSubnet):
        options = ["--mtu", str(step.subnet.mtu)]
        if step.subnet.topology:
            options += ["--topology", step.subnet.topology]
        if step.subnet.sm == "own":
            for text in partition_options(step.subnet, dict(step.memberships)):
                options += ["--partition", text]
        else:
            options += ["--sm", "none"]
        self.subnet = self.start("subnet", self.bin / "softib", "subnet", *options, folder=self.work_folder)
        self.wait("the subnet", lambda: "ready" in self.subnet.output(), self.subnet)

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
        guids = {}
        for node in nodes:
            guids.setdefault(node["name"], []).append(node["port_guid"])
        text = opensm_partitions(step.subnet, dict(step.memberships), guids)
        (self.folder / "partitions.conf").write_text(text, encoding="ascii")
        if self.opensm is not None:
            self.opensm.send_signal(signal.SIGHUP)

    @do.register
    def _(self, step: plan.AddHost):
        self.hosts[step.host] = host.Host(step.host, self.environment, self.program("ibarp"))

    @do.register
    def _(self, step: plan.RemoveHost):
        self.hosts.pop(step.host).remove()
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
                   *(["--ethernet"] if interface.ethernet else []),
                   *(f"--vlan={vlan}={pkey | MEMBERSHIP_BIT:#x}" for vlan, _, pkey in interface.vlans),
                   *interface.options]
        if interface.backup:
            command = [self.bin / "softib", "run", "--hca", f"{step.host},{interface.backup}", "--", ipoibd,
                       "--device", "softib0:1", "--backup", "softib1:1", *options]
        else:
            command = [ipoibd, f"--softib={self.name}/{step.host}", *options]
        self.daemons[step.host, interface.name] = self.start(f"{step.host}-{interface.name}",
                                                             *namespace_command(step.host, *command))

    @do.register
    def _(self, step: plan.AddBridge):
        self.hosts[step.host].add_bridge(step.bridge.name, step.bridge.mtu)

    @do.register
    def _(self, step: plan.AddStationInterface):
        interface, (bridged_by, bridge) = step.interface, step.interface.bridge
        self.hosts[bridged_by].add_port(port_name(step.host, interface.name), self.hosts[step.host],
                                        *(["address", interface.mac] if interface.mac else []), bridge=bridge,
                                        interface=interface.name, mtu=interface.mtu)

    @do.register
    def _(self, step: plan.RemoveLink):
        # A veth may have gone with the host at its other end.
        self.hosts[step.host].run("ip", "link", "delete", step.link, check=False)

    @do.register
    def _(self, step: plan.AddPort):
        self._await_link(step.host, step.port)
        self.hosts[step.host].run("ip", "link", "set", step.port, "master", step.bridge)

    @do.register
    def _(self, step: plan.RemovePort):
        self.hosts[step.host].run("ip", "link", "set", step.port, "nomaster")

    @do.register
    def _(self, step: plan.SetSysctl):
        if step.interface:
            self._await_link(step.host, step.interface)
        key = step.host, step.name
        if step.value is not None and key not in self.sysctls:
            self.sysctls[key] = self.hosts[step.host].run("sysctl", "-n", step.name).stdout.strip()
        value = self.sysctls.pop(key) if step.value is None else step.value
        self.hosts[step.host].run("sysctl", "-qw", f"{step.name}={value}")

    def _forget_sysctls(self, name):
        self.sysctls = {key: value for key, value in self.sysctls.items() if key[0] != name}

    @do.register
    def _(self, step: plan.StopInterface):
        self.daemons.pop((step.host, step.interface)).end()

    def _await_link(self, name, interface):
        """Waits until ipoibd has created its interface; others are there when they are added."""
        if (name, interface) not in self.daemons:
            return
        self.wait(f"ipoibd for {interface} of {name}", lambda: self.hosts[name].link(interface) is not None,
                  self.daemons[name, interface])

    @do.register
    def _(self, step: plan.AddAddress):
        self._await_link(step.host, step.interface)
        # Duplicates are found when the file is read.
        nodad = ["nodad"] if ":" in step.address else []
        self.hosts[step.host].run("ip", "addr", "add", step.address, "dev", step.interface, *nodad)

    @do.register
    def _(self, step: plan.RemoveAddress):
        self.hosts[step.host].run("ip", "addr", "del", step.address, "dev", step.interface)

    @do.register
    def _(self, step: plan.BringUp):
        self._await_link(step.host, step.interface)
        self.hosts[step.host].run("ip", "link", "set", step.interface, "up")

    @do.register
    def _(self, step: plan.SetMtu):
        if (step.host, step.interface) in self.daemons:
            self._await_ready(step.host, step.interface)
        self.hosts[step.host].run("ip", "link", "set", step.interface, "mtu", str(step.mtu))

    @do.register
    def _(self, step: plan.SetForwarding):
        value = int(step.on)
        self.hosts[step.host].run("sysctl", "-qw", f"net.ipv4.ip_forward={value}",
                    f"net.ipv6.conf.all.forwarding={value}")

    @do.register
    def _(self, step: plan.AddRoute):
        self.hosts[step.host].run("ip", *family_of(step.route), "route", "replace", *step.route.split())

    @do.register
    def _(self, step: plan.RemoveRoute):
        # It may have gone with its address or interface.
        self.hosts[step.host].run("ip", *family_of(step.route), "route", "del", *step.route.split(), check=False)

    @do.register
    def _(self, step: plan.AwaitReady):
        self._await_ready(step.host, step.interface)

    def _await_ready(self, name, interface):
        self.wait(f"{interface} of {name} is ready", lambda: self.is_ready(name, interface),
                  self.daemons[name, interface])

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
        self.hosts.pop(name, None)
        # What is in a namespace goes later than its name, and the other end of a veth with it.
        found = host.run(["ip", "-json", "-n", name, "link", "show", "type", "veth"], self.environment, check=False)
        for link in json.loads(found.stdout or "[]"):
            host.run(["ip", "-n", name, "link", "delete", link["ifname"]], self.environment, check=False)
        host.run(["ip", "netns", "delete", name], self.environment, check=False)
        self._forget_sysctls(name)
        for owner, hca in sorted(self.hcas):
            if owner == name:
                self.softib("set", "hca", hca, "absent", check=False)
                self.hcas.discard((owner, hca))

    def end_all(self):
        """Ends all processes, all at once. The namespaces end with the keeper."""
        groups = ([*self.services.values(), *self.daemons.values()], [self.opensm], [self.subnet])
        for processes in groups:
            running = [each for each in processes if each is not None]
            for each in running:
                each.send_signal(signal.SIGTERM)
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
    """Returns OpenSM's file of partitions; `guids` are lists of those of the ports, by HCA."""
    lines = []
    for partition in subnet.partitions:
        flags = ["ipoib", *([f"mtu={MTU_CODES[partition.mtu]}"] if partition.mtu else []),
                 *([f"rate={RATE_CODES[partition.rate]}"] if partition.rate else [])]
        members = [f"{guid}={each}" for (pkey, hca), each in memberships.items() if pkey == partition.pkey
                   and (pkey != DEFAULT_PKEY or each == "limited") for guid in guids[hca]]
        everyone = ["ALL=full"] if partition.pkey == DEFAULT_PKEY else []
        name = "Default" if partition.pkey == DEFAULT_PKEY else partition.name
        lines.append(f"{name}={partition.pkey:#x},{','.join(flags)}:{','.join([*everyone, *members])};\n")
    return "".join(lines)
