#!/usr/bin/env python3
"""Tests softib roce and softib run --roce: the process of a port, and programs on two ports of one machine.

Usage: roce_test.py SOFTIB [TEST]...
"""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "interop"))
from softib_subnet import PATIENCE, equal, is_listening, need, need_own_network, roce_gids, run_tests, wait_for  # noqa: E402

need("ibv_devinfo", "ibv_rc_pingpong", "ibv_ud_pingpong")
need_own_network()
SOFTIB = os.path.abspath(sys.argv[1])
LEFT, RIGHT = "10.44.0.1", "10.44.0.2"
ROCE_PORT, SERVER = 4791, 18515
MTU = "4200"  # of the interfaces: 4,096 bytes of payload


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Machine:
    """The interfaces eth0 and eth1, and a folder for the ports on them. Packets from one to the other leave their
    ports, as UDP datagrams that the kernel brings back."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.environment = {**os.environ, "SOFTIB_DIR": self.folder.name}
        ip("link", "add", "eth0", "mtu", MTU, "type", "veth", "peer", "name", "eth1", "mtu", MTU)
        for name, address, number in (("eth0", LEFT, 1), ("eth1", RIGHT, 2)):
            ip("addr", "add", f"{address}/32", "dev", name)
            ip("addr", "add", f"fd44::{number}/128", "dev", name, "nodad")
            ip("link", "set", name, "up")
        return self

    def __exit__(self, *_):
        for port in self.ports():
            self.softib("stop", port)
        ip("link", "del", "eth0")
        self.folder.cleanup()

    def softib(self, *words, **more):
        return subprocess.run([SOFTIB, *words], env=self.environment, text=True, capture_output=True, timeout=PATIENCE,
                              check=False, **more)

    def start(self, *words, **more):
        return subprocess.Popen([SOFTIB, *words], env=self.environment, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **more)

    def on(self, interface, *command):
        """Runs a program, which has to succeed, on the port of an interface; returns its output."""
        done = self.softib("run", "--roce", interface, "--", *command)
        equal((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def ports(self):
        """Returns the names of the ports whose process runs. Others on this machine are listed, too."""
        listed = json.loads(self.softib("list", "--json").stdout)
        return sorted(entry["subnet"] for entry in listed if entry["folder"].startswith(self.folder.name))

    def port(self, interface):
        return next(name for name in self.ports() if name.startswith(f"roce-{interface}"))

    def counters(self, interface):
        shown = json.loads(self.softib("show", "--subnet", self.port(interface), "--json").stdout)
        return next(node["counters"] for node in shown["nodes"] if node["name"] == "roce")

    def play(self, program, *options):
        """Runs a server on eth0 and its client on eth1; returns the client's output."""
        server = self.start("run", "--roce", "eth0", "--", program, "-p", str(SERVER), *options)
        wait_for("the server listens", lambda: is_listening(SERVER) or server.poll() is not None)
        printed = self.on("eth1", program, "-p", str(SERVER), *options, LEFT)
        said = server.communicate(timeout=PATIENCE)
        equal(server.returncode, 0)
        equal(said[1], "")
        return printed


def program_sees_the_interface_as_an_ethernet_port():
    with Machine() as machine:
        shown = machine.on("eth0", "ibv_devinfo", "-v")
        for line in (r"link_layer:\s+Ethernet", r"state:\s+PORT_ACTIVE", r"active_mtu:\s+4096", r"port_lid:\s+0"):
            assert re.search(line, shown), shown
        equal(roce_gids(shown)[:2], [f"::ffff:{LEFT}", "fd44::1"])
        # A port of one address has no others.
        equal(roce_gids(machine.on(RIGHT, "ibv_devinfo", "-v")), [f"::ffff:{RIGHT}"])


def programs_on_two_ports_exchange_datagrams_and_messages():
    with Machine() as machine:
        for program, options in (("ibv_rc_pingpong", ("-g", "0", "-n", "200", "-s", "9000", "-c")),
                                 ("ibv_rc_pingpong", ("-g", "1", "-n", "20", "-c")),
                                 ("ibv_ud_pingpong", ("-g", "0", "-n", "20", "-s", "1000", "-c"))):
            assert "bytes in" in machine.play(program, *options), (program, options)
        for interface in "eth0", "eth1":
            counters = machine.counters(interface)
            assert counters["received_packets"] > 200 and counters["drop_icrc"] == 0, counters


def port_ends_with_its_last_program():
    with Machine() as machine:
        machine.on("eth0", "true")
        port = machine.port("eth0")
        machine.on("eth0", "true")
        equal(machine.ports(), [port])
        wait_for("the process of the port has ended", lambda: not machine.ports())


def port_in_the_foreground_stays_until_it_is_ended():
    with Machine() as machine:
        for end in signal.SIGTERM, signal.SIGINT:
            process = machine.start("roce", "eth0")
            assert "ready" in process.stdout.readline()
            machine.on("eth0", "true")
            process.send_signal(end)
            process.communicate(timeout=PATIENCE)
            equal(process.returncode, 0)
            equal(machine.ports(), [])


def port_that_is_tied_ends_with_its_input():
    with Machine() as machine:
        process = machine.start("roce", "--tied", "--log", "off", LEFT, stdin=subprocess.PIPE)
        assert "ready" in process.stdout.readline()
        said = process.communicate(timeout=PATIENCE)  # closes it
        equal((process.returncode, said[1]), (0, ""))


def port_is_on_the_interface_of_the_default_route():
    with Machine() as machine:
        for words in ("roce",), ("run", "--roce", "--", "true"):
            done = machine.softib(*words)
            equal((done.returncode, done.stdout), (1, ""))
            equal(done.stderr, "softib: there is no default route: name the network interface or address\n")
        ip("route", "add", "default", "dev", "eth1")
        done = machine.softib("run", "--roce", "--", "ibv_devinfo", "-v")
        equal(roce_gids(done.stdout)[0], f"::ffff:{RIGHT}")


def port_that_cannot_be_says_why():
    with Machine() as machine:
        for words, code, messages in (
                (["roce", "eth7"], 1, ["no network interface 'eth7'", "eth0", "eth1", "lo"]),
                (["roce", "192.0.2.9"], 1, ["has the address 192.0.2.9"]),
                (["run", "--roce", "eth7", "--", "true"], 1, ["no network interface 'eth7'"]),
                (["roce", "--log", "loud", "eth0"], 2, ["loud", "try softib roce --help"]),
                (["roce", "eth0", "eth1"], 2, ["too many positional options", "try softib roce --help"])):
            done = machine.softib(*words)
            equal((done.returncode, done.stdout), (code, ""))
            for each in messages:
                assert each in done.stderr, (words, done.stderr)
        with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as other:
            other.bind((LEFT, ROCE_PORT))
            for words in ["roce", LEFT], ["run", "--roce", LEFT, "--", "true"]:
                done = machine.softib(*words)
                equal(done.returncode, 1)
                assert re.match(r"softib: [^\n]*4791[^\n]*\n", done.stderr), done.stderr


def port_has_help():
    done = subprocess.run([SOFTIB, "roce", "--help"], text=True, capture_output=True, check=True)
    assert done.stdout.startswith("usage: softib roce [OPTION]... [ADDRESS|INTERFACE]\n"), done.stdout
    for option in "--until-unused", "--log LEVEL", "--tied", "--subnet NAME", "--dir DIR":
        assert option in done.stdout, done.stdout


if __name__ == "__main__":
    run_tests([program_sees_the_interface_as_an_ethernet_port, programs_on_two_ports_exchange_datagrams_and_messages,
               port_ends_with_its_last_program, port_in_the_foreground_stays_until_it_is_ended,
               port_that_is_tied_ends_with_its_input, port_is_on_the_interface_of_the_default_route,
               port_that_cannot_be_says_why, port_has_help], sys.argv[2:])
