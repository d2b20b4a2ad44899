"""The process that holds a lab: its namespaces and processes exist as long as it does.

It runs in a network and mount namespace of its own, of an ordinary user also in a user namespace, and
has a /run of its own. So network namespaces have their names without anybody else's seeing them, and
nothing remains when the last process has ended. Clients send a request, a line of JSON, to its socket;
the response is lines of JSON, the last of which has "done" or "error".
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

from . import plan
from .effects import END_PATIENCE, LAB_VARIABLE, Effects, Failed, Interrupted
from .lab_file import Bridge, LabFileError, parse

SOCKET = "keeper"
_OWN = ("netns", "ipoibd")  # of /run: not seen in the lab, with all names that begin so


def own_run():
    """Gives this mount namespace a /run with the folders of the former one, except those that are the
    lab's own."""
    old = os.open("/run", os.O_PATH | os.O_DIRECTORY)
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "run", "/run"], check=True)
        for entry in os.scandir(f"/proc/self/fd/{old}"):
            new = pathlib.Path("/run") / entry.name
            if entry.name.startswith(_OWN):
                continue
            if entry.is_symlink():
                new.symlink_to(os.readlink(entry.path))
            elif entry.is_dir():
                new.mkdir(exist_ok=True)  # mount makes its own
                # The canonical name would be that in the new /run.
                subprocess.run(["mount", "--no-canonicalize", "--rbind", f"/proc/self/fd/{old}/{entry.name}", new],
                               check=True, pass_fds=[old])
    finally:
        os.close(old)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def processes_of(folder):
    """Returns the processes of the lab in a folder, other than the caller."""
    variable = f"{LAB_VARIABLE}={folder}".encode()
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(process.name) != os.getpid() and variable in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found


def kill_processes(folder):
    """Kills what is left of a lab, until nothing is. Returns whether there was something."""
    count = 0
    while pids := processes_of(folder):
        count += len(pids)
        for pid in pids:
            with contextlib.suppress(OSError):
                fd = os.pidfd_open(pid)
                try:
                    if pid in processes_of(folder):  # still the same process
                        signal.pidfd_send_signal(fd, signal.SIGKILL)
                finally:
                    os.close(fd)
    return count > 0


class Ended(Exception):
    """A signal ends the keeper."""


class Keeper:
    def __init__(self, name, folder, bin_folder):
        self.name = name
        self.folder = pathlib.Path(folder)
        self.bin = bin_folder
        self.lab = None
        self.file = ""
        self.effects = None
        self.timetable = []  # of the faults, in the order of the file: [time, or None if over; what became of it]

    def serve(self):
        """Serves clients until the lab is taken down, or a signal comes."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        own_run()
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(self.folder / SOCKET))
                listener.listen()
                print("ready", flush=True)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                while self._serve_one(listener):
                    pass
        except Ended:
            pass
        finally:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            if self.effects is not None:
                self.effects.end_all()
            kill_processes(self.folder)
            shutil.rmtree(self.folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                self.folder.parent.rmdir()

    @staticmethod
    def _on_signal(*_):
        raise Ended

    def _serve_one(self, listener):
        """Serves a client; returns whether the lab goes on. Without a lab, it waits only for the client
        that has started this process."""
        listener.settimeout(END_PATIENCE if self.lab is None else self._next_fault())
        try:
            client, _ = listener.accept()
        except socket.timeout:
            self._make_faults()
            return self.lab is not None
        with client:
            client.settimeout(END_PATIENCE)  # of a client that says nothing or does not read

            def send(**value):
                client.sendall(json.dumps(value).encode() + b"\n")
            tried = False  # to make a lab
            try:
                line = b""
                while not line.endswith(b"\n"):
                    if not (more := client.recv(65536)):
                        return True
                    line += more
                request = json.loads(line)
                if request["do"] == "up":
                    tried = True
                    self._up(request, client, send)
                elif request["do"] == "show":
                    send(done=self._shown())
                elif request["do"] == "down":
                    return False
            except OSError:  # it has gone
                pass
            return self.lab is not None or not tried

    def _up(self, request, client, send):
        """Makes the lab that of the file. When the first time fails, there is no lab; later, hosts that
        were about to change are removed."""
        try:
            lab = parse(request["text"], request["file"], self.name)
        except LabFileError as error:
            return send(error=str(error))
        if self.effects is None:
            self.effects = Effects(self.name, self.folder, self.bin)
        self.effects.work_folder = os.path.dirname(request["file"])
        steps = plan.plan(self.lab, lab)
        self.effects.client = client
        try:
            for number, step in enumerate(steps):
                self.effects.check_client()
                send(step=number + 1, of=len(steps), text=str(step))
                self.effects.do(step)
        except (Failed, Interrupted, OSError, subprocess.SubprocessError, KeyError) as error:
            was_up = self.lab is not None
            removed = self._forget(steps)
            words = "interrupted" if isinstance(error, Interrupted) else str(error) or repr(error)
            if self.lab is None and was_up:
                words += "\nthe lab is down"
            elif removed:
                words += f"\nremoved: {', '.join(removed)}; the next up makes them again"
            return send(error=words)
        finally:
            self.effects.client = None
        if self.lab is None or self.lab.subnet != lab.subnet or self.lab.faults != lab.faults:
            self.timetable = [[time.monotonic() + fault.at, "due"] for fault in lab.faults]
        self.lab, self.file = lab, request["file"]
        return send(done=len(steps))

    def _forget(self, steps):
        """Takes down what failed steps may have changed, and returns the hosts that were removed."""
        is_whole = self.lab is None or any(isinstance(step, (plan.StartSubnet, plan.StopSubnet)) for step in steps)
        if is_whole:
            self.lab = None
            return []
        removed = sorted(plan.hosts_of(steps))
        for name in removed:
            self.effects.remove_host(name)
        self.lab = plan.without_hosts(self.lab, removed)
        return removed

    def _next_fault(self):
        """Returns the seconds until the next fault; None if there is none."""
        due = [when for when, _ in self.timetable if when is not None]
        return max(0.001, min(due) - time.monotonic()) if due else None

    def _make_faults(self):
        """Makes the faults whose time has come, in the order of their times."""
        now = time.monotonic()
        for row, fault in sorted(zip(self.timetable, self.lab.faults if self.lab else ()),
                                 key=lambda each: each[1].at):
            if row[0] is not None and row[0] <= now:
                try:
                    self.effects.softib("set", *fault.change.split())
                    row[:] = None, "done"
                except Failed as error:
                    row[:] = None, str(error)

    def _shown(self):
        hosts = []
        for host in self.lab.hosts if self.lab else ():
            interfaces = []
            for interface in host.interfaces:
                link = self.effects.hosts[host.name].link(interface.name) or {}
                daemon = self.effects.daemons[host.name, interface.name]
                state = link.get("operstate", "absent").lower() if daemon.status() is None else "ended"
                interfaces.append({
                    "name": interface.name, "partition": interface.partition, "pkey": f"{interface.pkey:#06x}",
                    "membership": interface.membership, "ethernet": interface.ethernet, "state": state,
                    "mtu": link.get("mtu"), "pid": daemon.pid, "addresses": _addresses_of(link)})
            others = []
            for each in (*host.bridges, *host.station_interfaces):
                link = self.effects.hosts[host.name].link(each.name) or {}
                others.append({
                    "name": each.name, "bridge": getattr(each, "partition", None),
                    "ports": list(each.ports) if isinstance(each, Bridge) else None,
                    "state": link.get("operstate", "absent").lower(), "mtu": link.get("mtu"),
                    "addresses": _addresses_of(link)})
            services = [{"name": name, "command": command, "pid": self.effects.services[host.name, name].pid,
                         "exit_status": self.effects.services[host.name, name].status()}
                        for name, command in host.services]
            hosts.append({"name": host.name, "interfaces": interfaces, "ethernet": others, "services": services})
        return {"name": self.name, "file": self.file, "folder": str(self.folder), "pid": os.getpid(),
                "sm": self.lab.subnet.sm if self.lab else "own", "hosts": hosts,
                "faults": [{"at": fault.at, "set": fault.change, "state": state} for fault, (_, state)
                           in zip(self.lab.faults if self.lab else (), self.timetable)]}


def _addresses_of(link):
    """Returns the addresses of an interface with their prefix lengths, without link-local ones."""
    return [f"{each['local']}/{each['prefixlen']}" for each in link.get("addr_info", ())
            if each.get("scope") != "link"]
