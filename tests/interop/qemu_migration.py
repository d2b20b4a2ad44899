#!/usr/bin/env python3
"""QEMU moves a virtual machine from one emulated HCA to another (rdma:), and all its memory is compared.

Usage: qemu_migration.py SOFTIB [NAME]...
"""
import json
import random
import socket
import subprocess
import sys

from softib_subnet import PATIENCE, Subnet, equal, is_locked, need, run_tests, wait_for

need("qemu-system-x86_64")
SOFTIB = sys.argv[1]
PORT = 4445
SERVICE = 0x01060000 | PORT  # port space TCP
MEMORY = 64 << 20
PATTERN_AT, PATTERN_SIZE = 16 << 20, 8 << 20
ADDRESS = f"rdma:127.77.0.1:{PORT}"


class Machine:
    """A virtual machine that does not run, so that its memory does not change."""

    def __init__(self, subnet, hca, *options):
        self.subnet, self.name, self.log = subnet, hca, subnet.folder / f"{hca}.out"
        self.socket = subnet.folder / f"{hca}.qmp"
        with open(self.log, "w", encoding="utf-8") as out:
            self.process = subnet.start(
                hca, "qemu-system-x86_64", "-accel", "tcg", "-m", str(MEMORY >> 20), "-S", "-display", "none",
                "-nodefaults", "-no-user-config", "-qmp", f"unix:{self.socket},server=on,wait=off", *options,
                stdout=out, stderr=subprocess.STDOUT)
        wait_for(f"the machine: {self.log.read_text()}",
                 lambda: self.socket.exists() or self.process.poll() is not None)
        self.connection = socket.socket(socket.AF_UNIX)
        wait_for("its control socket", lambda: self.connection.connect_ex(str(self.socket)) == 0)
        self.stream = self.connection.makefile("rw")
        self.stream.readline()  # the greeting
        self.do("qmp_capabilities")

    def do(self, command, **arguments):
        self.stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.stream.flush()
        while True:
            reply = json.loads(self.stream.readline())
            if "event" not in reply:
                assert "return" in reply, f"{command}: {reply}\n{self.log.read_text()}"
                return reply["return"]

    def migration(self):
        return self.do("query-migrate").get("status")

    def memory(self):
        file = self.subnet.folder / f"{self.name}.memory"
        self.do("pmemsave", val=0, size=MEMORY, filename=str(file))
        return file.read_bytes()

    def quit(self):
        self.do("quit")
        equal(self.process.wait(PATIENCE), 0)
        self.connection.close()


def start_pair(subnet):
    """The machine that moves, and the one that waits for it."""
    target = Machine(subnet, "a", "-incoming", ADDRESS)
    services = subnet.folder / "default/node/1/services"
    wait_for("the port", lambda: services.exists() and is_locked(services, SERVICE))
    pattern = subnet.folder / "pattern"
    pattern.write_bytes(random.Random(1).randbytes(PATTERN_SIZE))
    source = Machine(subnet, "b", "-device", f"loader,file={pattern},addr={PATTERN_AT},force-raw=on")
    return source, target, pattern.read_bytes()


def memory_arrives():
    with Subnet(SOFTIB) as subnet:
        source, target, pattern = start_pair(subnet)
        source.do("migrate", uri=ADDRESS)
        wait_for("the end", lambda: source.migration() in ("completed", "failed"))
        equal((source.migration(), target.migration()), ("completed", "completed"))
        found = target.memory()
        assert found == source.memory(), "the memory differs"
        equal(found[PATTERN_AT:PATTERN_AT + PATTERN_SIZE] == pattern, True)
        for machine in (source, target):
            machine.quit()


def a_killed_target_is_noticed():
    with Subnet(SOFTIB) as subnet:
        source, target, _ = start_pair(subnet)
        source.do("migrate-set-parameters", **{"max-bandwidth": 1 << 20})
        source.do("migrate", uri=ADDRESS)
        wait_for("some data", lambda: source.do("query-migrate").get("ram", {}).get("transferred", 0) > 1 << 20)
        target.process.kill()
        wait_for("the failure", lambda: source.migration() == "failed")
        equal(source.do("query-status")["status"], "prelaunch")
        source.quit()


run_tests([memory_arrives, a_killed_target_is_noticed], sys.argv[2:])
