"""Servers and clients that are connected by the RDMA CM, on a subnet of softib."""
import json
import re
import subprocess

from softib_subnet import CLOCK_IS_UNKNOWN, PATIENCE, services, wait_for

ATTEMPTS = 20  # at what may fail for a fault of the program
# What programs of librdmacm print that fail by themselves: rping may close its channel before its thread waits on it, or
# while it does; perftest's client may want the second of its connections before its server listens again; riostream's
# server sets the number of mappings after it has begun to listen.
CLOSED_TOO_EARLY = r"rdma_get_cm_event: (Bad file descriptor|Input/output error)"
CAME_TOO_EARLY = r"RDMA_CM_EVENT_(REJECTED; error: 8|UNREACHABLE; error: 1)\.|riomap: Cannot allocate memory"
FAULTS = f"{CLOSED_TOO_EARLY}|{CAME_TOO_EARLY}|{re.escape(CLOCK_IS_UNKNOWN)}"


def listeners(subnet):
    """How many IDs of all HCAs listen."""
    return len(services(subnet.softib("show", "--cm", "--json")))


def groups(subnet):
    """How many multicast groups there are."""
    return len(json.loads(subnet.softib("show", "--json"))["groups"])


class Server:
    """A program on HCA "a" that has begun to listen."""

    def __init__(self, subnet, *command, options=()):
        self.log = subnet.folder / f"server{len(subnet.processes)}.out"
        before = listeners(subnet)
        with open(self.log, "w", encoding="utf-8") as out:
            self.process = subnet.start("a", *command, options=options, stdout=out, stderr=subprocess.STDOUT)
        wait_for(f"listener {command}", lambda: listeners(subnet) > before or self.process.poll() is not None)
        assert self.process.poll() is None, self.text()

    def text(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    def end(self):
        """Waits for its end and returns its output."""
        status = self.process.wait(timeout=PATIENCE)
        assert status == 0, f"the server ended with {status}:\n{self.text()}"
        return self.text()


def play(subnet, server, client, of_server=(), of_client=()):
    """Runs both, again if one has failed by itself, and returns their output. `of_server` and `of_client` are options of
    `softib run`."""
    for _ in range(ATTEMPTS):
        started = Server(subnet, *server, options=of_server)
        done = subnet.run("b", *client, options=of_client, check=False)
        if done.returncode != 0 and not re.search(CLOSED_TOO_EARLY, done.stdout):
            started.process.kill()  # nobody else comes
        codes = started.process.wait(timeout=PATIENCE), done.returncode
        if codes == (0, 0):
            return started.text(), done.stdout
        assert re.search(FAULTS, started.text() + done.stdout), f"{client} ended with {codes}:\n{started.text()}\n{done.stdout}"
    raise AssertionError(f"{client} never succeeds")
