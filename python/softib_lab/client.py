"""Finds the keeper of a lab, starts one, talks to it, and enters the namespaces of the lab."""

import contextlib
import json
import os
import pathlib
import select
import shutil
import socket
import struct
import subprocess
import sys

from .effects import LAB_VARIABLE
from .host import namespace_command
from .keeper import SOCKET, kill_processes

FOLDER = ".labs"  # in the folder of the subnets, where no subnet can have this name
# The settings by which hosts forbid user namespaces, and the value that allows them.
_SETTINGS = (("kernel.unprivileged_userns_clone", "1"), ("kernel.apparmor_restrict_unprivileged_userns", "0"))


class LabError(Exception):
    """What the user is told."""


class Keeper:
    """The keeper of a lab, which may run or not."""

    def __init__(self, name, bin_folder):
        self.name = name
        self.bin = str(bin_folder)
        self.folder = pathlib.Path(os.environ["SOFTIB_DIR"]) / FOLDER / name
        self.process = None  # the keeper, if this process has started it
        self.environment = dict(os.environ, SOFTIB_SUBNET=name)
        self.environment[LAB_VARIABLE] = str(self.folder)

    @contextlib.contextmanager
    def connection(self):
        """A connection to the running keeper; None if none runs."""
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(self.folder / SOCKET))
            except (FileNotFoundError, ConnectionRefusedError):
                yield None
            else:
                _, uid = _peer_of(connection)
                if uid != os.geteuid():
                    raise LabError(f"the lab '{self.name}' is that of user {uid}")
                yield connection

    def pid(self):
        """Returns the process id of the keeper. Raises LabError if none runs."""
        with self.connection() as connection:
            if connection is None:
                raise LabError(f"the lab '{self.name}' is not up: softib lab up starts it")
            return _peer_of(connection)[0]

    def request(self, on_step=None, **request):
        """Sends a request, and returns "done" of the response. At Ctrl-C tells the keeper, and waits until
        it has undone what it began."""
        with self.connection() as connection:
            if connection is None:
                raise LabError(f"the lab '{self.name}' is not up: softib lab up starts it")
            connection.sendall(json.dumps(request).encode() + b"\n")
            lines = connection.makefile("r", encoding="utf-8")
            interrupted = False
            while True:
                try:
                    line = lines.readline()
                except KeyboardInterrupt:
                    interrupted = True
                    connection.shutdown(socket.SHUT_WR)
                    continue
                if not line:
                    if interrupted:
                        raise KeyboardInterrupt
                    raise LabError(f"the process of the lab '{self.name}' has ended")
                response = json.loads(line)
                if "error" in response:
                    if interrupted:
                        raise KeyboardInterrupt
                    raise LabError(response["error"])
                if "done" in response:
                    return response["done"]
                if on_step is not None and not interrupted:
                    on_step(response)

    def start(self):
        """Starts a keeper, after what a killed one has left was removed."""
        self.remove()
        self.folder.mkdir(parents=True, mode=0o700)
        namespaces = ["--user", "--map-root-user"] if os.geteuid() != 0 else []
        package = pathlib.Path(__file__).resolve().parent
        command = ["unshare", *namespaces, "--net", "--mount", "--", sys.executable, "-B", str(package), "keep",
                   self.name, str(self.folder), self.bin]
        with open(self.folder / "keeper.log", "wb") as log:
            self.process = subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL,
                                            stdout=subprocess.PIPE, stderr=log, start_new_session=True)
        if self.process.stdout.readline() != b"ready\n":
            self.process.wait()
            log = self.folder / "keeper.log"
            words = log.read_text(encoding="utf-8", errors="replace").strip() if log.exists() else ""
            self.remove()
            raise LabError(_explanation() or f"cannot make the namespaces of the lab: {words}")

    def await_end(self):
        """Waits until the keeper that this process has started has ended, as it does when its first lab
        fails."""
        self.process.wait()
        self.remove()

    def down(self):
        """Takes the lab down. Returns whether there was one, or what a killed one has left."""
        with self.connection() as connection:
            if connection is not None:
                process = os.pidfd_open(_peer_of(connection)[0])
                try:
                    connection.sendall(b'{"do": "down"}\n')
                    select.select([process], [], [])  # until it has ended
                finally:
                    os.close(process)
        was_left = self.remove()
        return connection is not None or was_left

    def remove(self):
        """Removes what a keeper has left that was killed."""
        is_left = self.folder.exists()
        if is_left and self.folder.lstat().st_uid != os.geteuid():
            raise LabError(f"{self.folder} is another user's")
        if is_left:
            kill_processes(self.folder)
            subprocess.run([f"{self.bin}/softib", "stop", self.name], env=self.environment, check=False,
                           capture_output=True)
            shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.folder.parent.rmdir()
        return is_left

    def command(self, pid, host, *command, folder=None):
        """Returns the command that runs another one on a host, in a folder or the current one; `pid` is
        the keeper's."""
        user = ["--user", "--preserve-credentials"] if os.geteuid() != 0 else []
        return ["nsenter", "--target", str(pid), *user, "--mount", "--net", "--", "env", "-C", folder or os.getcwd(),
                *namespace_command(host, *command)]


def _peer_of(connection):
    """Returns process and user at the other end."""
    pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid


def _explanation():
    """Returns which setting of this host forbids user namespaces; empty if none is known to."""
    def value_of(name):
        try:
            return pathlib.Path("/proc/sys", *name.split(".")).read_text(encoding="ascii").strip()
        except OSError:
            return ""
    if os.geteuid() != 0:
        for name, value in _SETTINGS:
            if value_of(name) not in ("", value):
                return f"{name} does not let ordinary users have namespaces; sysctl -w {name}={value} lets them"
        if value_of("user.max_user_namespaces") == "0":
            return "user.max_user_namespaces is 0, so this host allows no user namespaces"
    return ""
