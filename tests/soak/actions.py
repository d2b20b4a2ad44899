"""The hosts of scripts/soak on an emulated subnet, and what each fault does to them."""

import contextlib
import json
import os
import pathlib
import select
import signal
import subprocess
import sys

import checks
import faults
import hosts
from hosts import program, wait_until

INTERFACES = ("ib0", "ib0.8001")
PEER = pathlib.Path(__file__).resolve().parent / "peer.py"


def partitions(mtu, rate):
    """Returns the options of a subnet whose ports have the larger MTU."""
    options = ["--mtu", str(max(faults.MTUS))]
    for pkey in (faults.DEFAULT, faults.RED):
        options += ["--partition", f"{pkey}=full,mtu={mtu},rate={rate}"]
    return options


def parts(topology, count):
    """Returns the cables between switches, the switches, and `count` HCAs that are far from each other, of
    what `softib subnet --topology` takes."""
    whole = json.loads(subprocess.run(
        [program("softib"), "topology", "--format", "json", topology], check=True, capture_output=True,
        text=True, timeout=hosts.PATIENCE).stdout)
    switches = [switch["name"] for switch in whole["switches"]]
    hcas = [hca["name"] for hca in whole["hcas"]]
    assert len(hcas) >= count, f"the topology has {len(hcas)} HCAs, fewer than the {count} hosts"
    cables = [f'{cable["a"]["node"]}[{cable["a"]["port"]}] {cable["b"]["node"]}[{cable["b"]["port"]}]'
              for cable in whole["cables"] if {cable["a"]["node"], cable["b"]["node"]} <= set(switches)]
    return cables, switches, [hcas[i * (len(hcas) - 1) // (count - 1)] for i in range(count)]


class Subnet(hosts.Subnet):
    """With the messages of its processes in a log."""

    def start_subnet(self):
        with open(self.folder / "subnet.log", "ab") as log:
            super().start_subnet(stderr=log)

    def forget(self):
        """Forgets a process that has ended."""
        self.process.stdout.close()
        self.processes.remove(self.process)


class Peer:
    """The process peer.py of a host."""

    def __init__(self, host, number, count, seed):
        with open(host.subnet.folder / f"{host.name}.peer.log", "ab") as log:
            self.popen = subprocess.Popen(
                host.command(sys.executable, str(PEER), str(number), str(count), str(seed),
                             *INTERFACES),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                env=host.subnet.environment, start_new_session=True)

    def tell(self, command):
        self.popen.stdin.write(command + "\n")
        self.popen.stdin.flush()

    def status(self):
        self.tell("status")
        ready, _, _ = select.select([self.popen.stdout], [], [], hosts.PATIENCE)
        assert ready, "a peer does not respond"
        return json.loads(self.popen.stdout.readline())

    def begin_end(self):
        with contextlib.suppress(OSError):
            self.popen.stdin.close()

    def end(self):
        self.begin_end()
        try:
            self.popen.wait(hosts.PATIENCE)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        self.popen.stdout.close()


def expects(pid, number):
    """Whether a process blocks or handles a signal."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return False
    masks = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Sig"))
    return bool((int(masks["SigBlk"], 16) | int(masks["SigCgt"], 16)) >> (number - 1) & 1)


def remove_namespaces():
    """Removes those that an interrupted `ip netns add` may have left."""
    for path in pathlib.Path("/run/netns").glob(f"ipoibd-{os.getpid()}-*"):
        subprocess.run(["ip", "netns", "del", path.name], check=False)


class Setting:
    """`with Setting(...) as setting:` has hosts on which all interfaces are ready. It calls `check`
    while it waits, which may raise an exception."""

    def __init__(self, count, seed, check, topology=None):
        self.check = check
        self.cables, self.switches, names = (), (), [f"host{number}" for number in range(1, count + 1)]
        if topology:
            self.cables, self.switches, names = parts(topology, count)
        self.watch = checks.Watch()
        self.findings = []
        with contextlib.ExitStack() as stack:
            stack.callback(remove_namespaces)
            self.topology = ["--topology", topology] if topology else []
            self.subnet = Subnet(*partitions(2048, 10), *self.topology)
            stack.callback(self.subnet.close)
            stack.callback(self.continue_daemons)
            self.watch.add("subnet", self.subnet.process)
            self.hosts = {name: self.subnet.host(name) for name in names}
            self.peers = {}
            stack.callback(self.end_peers)
            for number, host in enumerate(self.hosts.values(), 1):
                self.start_daemon(host)
                self.peers[number] = Peer(host, number, count, seed)
                self.watch.add(f"{host.name}.peer", self.peers[number].popen)
            for host in self.hosts.values():
                for interface in INTERFACES:
                    wait_until(lambda h=host, i=interface: self.is_ready(h, i),
                               f"{interface} of {host.name} is ready")
            self.stack = stack.pop_all()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stack.close()

    def continue_daemons(self):
        """A stopped one does not end on SIGTERM."""
        for host in self.subnet.hosts:
            if host.daemon is not None and host.daemon.is_running():
                host.daemon.popen.send_signal(signal.SIGCONT)

    def end_peers(self):
        for peer in self.peers.values():
            peer.begin_end()
        for peer in self.peers.values():
            peer.end()

    def is_ready(self, host, interface):
        self.assert_running()
        return host.has_carrier(interface)

    def assert_running(self):
        self.check()
        ended = self.watch.ended()
        assert not ended, "; ".join(ended)

    def statuses(self):
        self.assert_running()
        return {number: peer.status() for number, peer in self.peers.items()}

    def begin_epoch(self, epoch):
        for peer in self.peers.values():
            peer.tell(f"epoch {epoch}")

    # --- Processes --------------------------------------------------------------------------------

    def start_daemon(self, host):
        host.start_all("--log", "link=debug,sa=debug", wait=False)
        self.watch.add(host.name, host.daemon.popen)

    def end_daemon(self, host, number):
        """Ends a daemon, which must still run, and whose exit status must be the usual one. One that
        was started just now gets the time to see to the signal."""
        if number == signal.SIGTERM:
            wait_until(lambda: expects(host.daemon.pid, number) or not host.daemon.is_running(),
                       f"{host.name} expects signal {int(number)}")
        self.findings += self.watch.forget(host.name)
        status = host.daemon.end(number)
        if status != (0 if number == signal.SIGTERM else -number):
            self.findings.append(f"{host.name} exited with {status} after signal {int(number)}")

    def kill_subnet(self):
        self.findings += self.watch.forget("subnet")
        self.subnet.kill_subnet()
        self.subnet.forget()

    def start_subnet(self):
        self.subnet.start_subnet()
        self.watch.add("subnet", self.subnet.process)

    def set(self, *change):
        done = self.subnet.run_softib("set", *map(str, change))
        if done.returncode != 0:
            self.findings.append(f"softib set {' '.join(map(str, change))}: {done.stderr.strip()}")

    # --- Faults -----------------------------------------------------------------------------------

    def begin(self, fault):
        getattr(self, BEGIN[fault.kind])(fault)

    def repair(self, fault):
        getattr(self, REPAIR[fault.kind])(fault)

    def daemon_killed(self, fault):
        self.end_daemon(self.hosts[fault.target], signal.SIGKILL)

    def daemon_ended(self, fault):
        self.end_daemon(self.hosts[fault.target], signal.SIGTERM)

    def daemon_starts(self, fault):
        self.start_daemon(self.hosts[fault.target])

    def daemon_stopped(self, fault):
        self.hosts[fault.target].daemon.popen.send_signal(signal.SIGSTOP)

    def daemon_continues(self, fault):
        self.hosts[fault.target].daemon.popen.send_signal(signal.SIGCONT)

    def flush(self, fault):
        for interface in INTERFACES:  # a daemon that has just started may have none yet
            self.hosts[fault.target].run(program("ibarp"), "flush", "-i", interface, check=False)

    def interface_down(self, fault):
        self.hosts[fault.target].run("ip", "link", "set", INTERFACES[0], "down", check=False)

    def interface_up(self, fault):
        self.hosts[fault.target].run("ip", "link", "set", INTERFACES[0], "up", check=False)

    def port(self, fault):
        self.set("port", fault.target, *fault.detail)

    def port_up(self, fault):
        self.set("port", fault.target, "up")

    def hca_failed(self, fault):
        """A daemon that was started just now gets the time to open the device: it does not start on
        one that has failed."""
        host = self.hosts[fault.target]
        wait_until(lambda: not host.daemon.is_running() or
                   host.run(program("ibarp"), "info", check=False).returncode == 0,
                   f"{host.name} serves an interface")
        self.set("hca", fault.target, "failed")

    def hca_present(self, fault):
        self.set("hca", fault.target, "present")

    def lid(self, fault):
        self.set("lid", fault.target, *fault.detail)

    def port_mtu(self, fault):
        self.set("mtu", fault.target, *fault.detail)

    def port_mtu_back(self, fault):
        self.set("mtu", fault.target, max(faults.MTUS))

    def pkey_moved(self, fault):
        pkey, index = fault.detail
        self.set("pkey", pkey, fault.target, index)

    def membership(self, fault):
        pkey, membership = fault.detail
        if membership == "none":
            for name in self.hosts:
                self.watch.allow(name, checks.KEPT_OF_A_NEW_INTERFACE)
        self.set("partition", pkey, fault.target, membership)

    def membership_full(self, fault):
        self.set("partition", fault.detail[0], fault.target, "full")

    def link(self, fault):
        self.set("link", fault.target, *fault.detail)

    def link_off(self, fault):
        self.set("link", fault.target, "off")

    def sm_restarts(self, fault):
        self.set("sm", "restart")

    def subnet_killed(self, fault):
        self.kill_subnet()

    def subnet_starts(self, fault):
        self.start_subnet()

    def subnet_stopped(self, fault):
        self.subnet.process.send_signal(signal.SIGSTOP)

    def subnet_continues(self, fault):
        self.subnet.process.send_signal(signal.SIGCONT)

    def other_parameters(self, fault):
        """The next subnet process has other options, as after a change of its configuration."""
        _, mtu, _, rate = fault.detail
        self.subnet.options = [*partitions(mtu, rate), *self.topology]
        self.start_subnet()

    def cable_down(self, fault):
        self.set("cable", *fault.target.split(), "down")

    def cable_up(self, fault):
        self.set("cable", *fault.target.split(), "up")

    def cable_flaps(self, fault):
        self.set("cable", *fault.target.split(), "flap")

    def switch_absent(self, fault):
        self.set("switch", fault.target, "absent")

    def switch_present(self, fault):
        self.set("switch", fault.target, "present")

    def switch_reset(self, fault):
        self.set("switch", fault.target, "reset")


BEGIN = {
    "daemon killed": "daemon_killed",
    "daemon ended": "daemon_ended",
    "daemon stopped": "daemon_stopped",
    "neighbours flushed": "flush",
    "interface down": "interface_down",
    "port": "port",
    "HCA failed": "hca_failed",
    "LID": "lid",
    "MTU of the port": "port_mtu",
    "P_Key moved": "pkey_moved",
    "membership": "membership",
    "link": "link",
    "SM restarts": "sm_restarts",
    "subnet process killed": "subnet_killed",
    "subnet process stopped": "subnet_stopped",
    "group parameters": "subnet_killed",
    "cable down": "cable_down",
    "cable flaps": "cable_flaps",
    "switch absent": "switch_absent",
    "switch reset": "switch_reset",
}
REPAIR = {
    "daemon killed": "daemon_starts",
    "daemon ended": "daemon_starts",
    "daemon stopped": "daemon_continues",
    "interface down": "interface_up",
    "port": "port_up",
    "HCA failed": "hca_present",
    "MTU of the port": "port_mtu_back",
    "membership": "membership_full",
    "link": "link_off",
    "subnet process killed": "subnet_starts",
    "subnet process stopped": "subnet_continues",
    "group parameters": "other_parameters",
    "cable down": "cable_up",
    "switch absent": "switch_present",
}
