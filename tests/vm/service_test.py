#!/usr/bin/env python3
"""The package ipoibd and its units, in a virtual machine whose first process is systemd, on soft RoCE
ports.

The package has the programs of the build folder and what debhelper makes of debian/.
"""

import json
import os
import pathlib
import re
import sys
import unittest

import machine
import service
from service import CONFIGURATION, configure, recipe, run, wait_until

import dhcp
import streams
from hosts import Pings, program
from machine import ip

PACKAGES = service.Packages("packages")
VERSIONS = ("0.2.0-1", "0.2.1-1")
DROP_INS = pathlib.Path("/run/systemd/system")
# The first one is bound to the port's device for management datagrams, the other to the RDMA device.
LEFT, RIGHT = "ipoibd@rxe0:1.service", "ipoibd-roce@rxe1:1.service"
ACM = "ipoibd-acm.service"
LEFT_ADDRESS, RIGHT_ADDRESS = "10.44.0.1", "10.44.0.2"
# Serve the interfaces while those are restarted.
HANDOVERS = ("ipoibd-handover@rxe0:1.service", "ipoibd-handover@rxe1:1.service")


def show(unit, name):
    return run("systemctl", "show", "--value", "--property", name, unit).stdout.strip()


def is_active(unit):
    return show(unit, "ActiveState") == "active"


def journal(unit):
    return run("journalctl", "--unit", unit, "--output", "cat").stdout


def process_of(unit):
    return int(show(unit, "MainPID"))


def status_of(unit):
    """The fields of /proc/PID/status of the unit's main process."""
    text = pathlib.Path(f"/proc/{process_of(unit)}/status").read_text(encoding="utf-8")
    return dict(line.split(":\t", 1) for line in text.splitlines())


class Side:
    """What a stream needs of a host. `prefix` runs a command in its network namespace."""

    def __init__(self, guest, name, *prefix):
        self.subnet = guest
        self.name = name
        self.prefix = prefix

    def command(self, *command):
        return [*self.prefix, *command]


class Guest(machine.Guest):
    def logs(self, test):
        return "\n".join([super().logs(test), "--- the journal",
                          run("journalctl", "--boot", "--lines", "150").stdout])


class Service(machine.Cases):
    """A daemon in the initial network namespace, and one with its interface in another."""

    @classmethod
    def setUpClass(cls):
        cls.subnet = Guest()
        PACKAGES.install(VERSIONS[0])
        # A watchdog that does not take half a minute.
        for template in ("ipoibd@", "ipoibd-roce@"):
            folder = DROP_INS / f"{template}.service.d"
            folder.mkdir(parents=True)
            (folder / "test.conf").write_text("[Service]\nWatchdogSec=5\n", encoding="utf-8")
        run("systemctl", "daemon-reload")
        configure("rxe0:1.conf", "name = ib0")
        configure("rxe1:1.conf", "name = ib1", "netns = right")
        ip("netns", "add", "right")
        run("systemctl", "enable", LEFT, RIGHT)
        machine.make_ports(2)

    def setUp(self):
        super().setUp()
        for unit in (LEFT, RIGHT):
            wait_until(lambda it=unit: is_active(it), f"{unit} is active")
        ip("addr", "replace", f"{LEFT_ADDRESS}/24", "dev", "ib0")
        ip("link", "set", "ib0", "up")
        ip("-n", "right", "addr", "replace", f"{RIGHT_ADDRESS}/24", "dev", "ib1")
        ip("-n", "right", "link", "set", "ib1", "up")

    def assert_connected(self):
        wait_until(lambda: run("ping", "-c1", "-W1", "-I", "ib0", RIGHT_ADDRESS,
                               check=False).returncode == 0, "right responds")

    def fast_pings(self):
        """A ping every 10 ms from left to right."""
        process = self.start_process(Side(self.subnet, "left"), "ping", "-n", "-i", "0.01", RIGHT_ADDRESS)
        pings = Pings(process)
        pings.wait_for(20)
        return pings

    def assert_few_are_lost(self, pings):
        """Of a ping every 10 ms over the restart of a daemon."""
        pings.wait_for(50)
        lost = pings.end()
        print("lost pings:", lost)
        self.assertLessEqual(lost, 3)

    def wait_for_one_daemon_each(self, units=(LEFT, RIGHT)):
        """No other one is left."""
        def all_daemons():
            return sorted(int(pid) for pid in run("pidof", "ipoibd", check=False).stdout.split())
        wait_until(lambda: all_daemons() == sorted(map(process_of, units)), "the others have ended")
        for unit in HANDOVERS:
            wait_until(lambda it=unit: show(it, "ActiveState") == "inactive", f"{unit} has ended")

    def test_restart_loses_few_pings(self):
        self.assert_connected()
        for unit in (LEFT, RIGHT):
            before = process_of(unit)
            pings = self.fast_pings()
            run("systemctl", "restart", unit)
            self.assertTrue(is_active(unit))
            self.assertNotEqual(process_of(unit), before)
            self.assert_few_are_lost(pings)
        self.wait_for_one_daemon_each()

    def test_start_that_fails_leaves_no_daemon(self):
        """After the other unit has served the interfaces for it."""
        self.assert_connected()
        drop_in = DROP_INS / f"{LEFT}.d/failing.conf"
        drop_in.parent.mkdir(exist_ok=True)

        def repair():
            drop_in.unlink(missing_ok=True)
            run("systemctl", "daemon-reload")
            run("systemctl", "start", LEFT)
        self.addCleanup(repair)
        drop_in.write_text("[Service]\nExecStartPre=/bin/false\nRestart=no\n", encoding="utf-8")
        run("systemctl", "daemon-reload")
        self.assertNotEqual(run("systemctl", "restart", LEFT, check=False).returncode, 0)
        self.assertIn("has taken over", journal(HANDOVERS[0]))
        self.wait_for_one_daemon_each([RIGHT])
        self.assertIn(LEFT_ADDRESS, ip("addr", "show", "dev", "ib0"))
        repair()
        self.assert_connected()

    def test_stop_ends_a_restart(self):
        self.addCleanup(run, "systemctl", "start", LEFT)
        before = journal(HANDOVERS[0])
        run("systemctl", "restart", "--no-block", LEFT)
        wait_until(lambda: "taking over" in journal(HANDOVERS[0])[len(before):], "the restart is under way")
        run("systemctl", "stop", LEFT)
        self.wait_for_one_daemon_each([RIGHT])
        self.assertEqual(show(LEFT, "ActiveState"), "inactive")

    def test_follows_the_device(self):
        self.assertIn("sys-subsystem-rdma-devices-rxe0:1-umad.device", show(LEFT, "BindsTo"))
        self.assertIn("sys-subsystem-rdma-devices-rxe1:1.device", show(RIGHT, "BindsTo"))
        # The kernel does not let go of an rxe device that is in use; udev says that it has gone.
        for unit, device in ((LEFT, "infiniband_mad/umad0"), (RIGHT, "infiniband/rxe1")):
            run("udevadm", "trigger", "--action=remove", f"/sys/class/{device}")
            wait_until(lambda it=unit: show(it, "ActiveState") == "inactive", "it ends with the device")
            run("udevadm", "trigger", "--action=add", f"/sys/class/{device}")
            wait_until(lambda it=unit: is_active(it), "it starts with the device")

    def test_interfaces_reach_each_other(self):
        self.assert_connected()
        for unit in (LEFT, RIGHT):
            wait_until(lambda it=unit: re.fullmatch("ib[01] is up", show(it, "StatusText")),
                       "the status says so")

    def test_runs_with_few_rights(self):
        user = run("id", "--user", "ipoibd").stdout.strip()
        for unit in (LEFT, RIGHT):
            status = status_of(unit)
            self.assertEqual(status["Uid"].split(), [user] * 4)
            # CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN
            self.assertEqual(int(status["CapPrm"], 16), 1 << 12 | 1 << 13 | 1 << 21)
            self.assertEqual((int(status["CapBnd"], 16), int(status["CapAmb"], 16)), (0, 0))
            self.assertNotRegex(journal(unit), "refused|not permitted|denied")
        umad = pathlib.Path("/dev/infiniband/umad0")
        self.assertEqual((umad.stat().st_mode & 0o777, umad.group()), (0o660, "ipoibd"))

    def test_starts_again_after_a_failure(self):
        self.assert_connected()
        before = process_of(LEFT)
        run("systemctl", "kill", "--kill-who=main", "--signal=KILL", LEFT)
        wait_until(lambda: is_active(LEFT) and process_of(LEFT) != before, "another one is active")
        self.assertIn(LEFT_ADDRESS, ip("addr", "show", "dev", "ib0"))
        self.assert_connected()

    def test_starts_again_when_it_does_not_respond(self):
        before = process_of(LEFT)
        run("systemctl", "kill", "--kill-who=main", "--signal=STOP", LEFT)
        wait_until(lambda: is_active(LEFT) and process_of(LEFT) not in (0, before),
                   "another one is active")
        self.assertIn("watchdog", journal(LEFT).lower())
        self.assertIn(LEFT_ADDRESS, ip("addr", "show", "dev", "ib0"))

    def test_stays_ended_after_a_wrong_option(self):
        self.addCleanup(run, "systemctl", "start", LEFT)
        self.addCleanup(configure, "rxe0:1.conf", "name = ib0")
        configure("rxe0:1.conf", "name = ib0", "colour = red")
        self.assertNotEqual(run("systemctl", "restart", LEFT, check=False).returncode, 0)
        self.assertEqual((show(LEFT, "ActiveState"), show(LEFT, "ExecMainStatus")), ("failed", "2"))
        self.assertIn("rxe0:1.conf:2: no option 'colour'", journal(LEFT))

    def test_reload(self):
        self.addCleanup(configure, "rxe0:1.conf", "name = ib0")
        before = process_of(LEFT)
        configure("rxe0:1.conf", "name = ib0", "log = link=debug", "mtu = 1500")
        run("systemctl", "reload", LEFT)
        wait_until(lambda: "mtu: 4092 -> 1500: takes effect when ipoibd is started again" in
                   journal(LEFT), "the journal says what needs a restart")
        self.assertIn("debug", run(program("ibarp"), "log").stdout)
        configure("rxe0:1.conf", "name = ib0", "colour = red")
        self.assertNotEqual(run("systemctl", "reload", LEFT, check=False).returncode, 0)
        wait_until(lambda: is_active(LEFT), "it goes on")
        self.assertEqual(process_of(LEFT), before)

    def test_stop_leaves_the_other_one_alone(self):
        before = process_of(LEFT)
        run("systemctl", "stop", RIGHT)
        self.assertEqual(show(RIGHT, "Result"), "success")
        self.assertIn(RIGHT_ADDRESS, ip("-n", "right", "addr", "show", "dev", "ib1"))
        run(program("ibarp"), "info")
        run("systemctl", "start", RIGHT)
        self.assertEqual(process_of(LEFT), before)

    def test_networkd(self):
        """The document's recipe."""
        file = pathlib.Path("/run/systemd/network/ib0.network")
        file.parent.mkdir(exist_ok=True)
        self.addCleanup(file.unlink)
        self.addCleanup(run, "systemctl", "stop", "systemd-networkd.socket", "systemd-networkd.service")
        text = recipe("service.md", "/etc/systemd/network/ib0.network")
        self.assertIn(LEFT_ADDRESS, text)
        file.write_text(text, encoding="utf-8")
        link_local = re.findall(r"inet6 (fe80::\S+)", ip("-6", "addr", "show", "dev", "ib0"))
        ip("addr", "flush", "dev", "ib0", "scope", "global")
        run("systemctl", "start", "systemd-networkd.service")
        wait_until(lambda: LEFT_ADDRESS in ip("addr", "show", "dev", "ib0"), "it has its address")
        self.assert_connected()
        run("systemctl", "restart", LEFT)
        wait_until(lambda: is_active(LEFT), "it is active again")
        wait_until(lambda: LEFT_ADDRESS in ip("addr", "show", "dev", "ib0"), "it has its address")
        self.assert_connected()
        self.assertEqual(re.findall(r"inet6 (fe80::\S+)", ip("-6", "addr", "show", "dev", "ib0")),
                         link_local)

    def test_upgrade_and_removal(self):
        """A stream survives the upgrade, which loses few pings though both ends are restarted, and removal
        leaves nothing behind."""
        self.assert_connected()
        stream = streams.Endless(Side(self.subnet, "left"),
                                 Side(self.subnet, "right", "ip", "netns", "exec", "right"),
                                 RIGHT_ADDRESS)
        self.addCleanup(stream.close)
        wait_until(stream.received, "data arrives")
        before = {unit: process_of(unit) for unit in (LEFT, RIGHT)}
        pings = self.fast_pings()
        PACKAGES.install(VERSIONS[1])
        for unit, process in before.items():
            wait_until(lambda it=unit: is_active(it), "the upgraded one is active")
            self.assertNotEqual(process_of(unit), process)
        self.assert_few_are_lost(pings)
        self.wait_for_one_daemon_each()
        self.assertIn(LEFT_ADDRESS, ip("addr", "show", "dev", "ib0"))
        received = stream.received()
        wait_until(lambda: stream.received() > received, "more data arrives")
        stream.end()
        self.addCleanup(self.install_again)
        files = [path for path in run("dpkg", "--listfiles", "ipoibd").stdout.split()
                 if "ipoibd" in path and path != str(CONFIGURATION)]
        self.assertIn("/usr/sbin/ipoibd", files)
        run("dpkg", "--remove", "--no-triggers", "ipoibd")
        self.assertFalse(is_active(LEFT) or is_active(RIGHT))
        self.assertNotIn("ib0", ip("-brief", "link"))
        self.assertNotIn("ib1", ip("-n", "right", "-brief", "link"))
        run("dpkg", "--purge", "--no-triggers", "ipoibd")
        self.assertEqual([path for path in files if pathlib.Path(path).exists()], [])
        left = run("find", "/etc/systemd", "/run", "/var/lib/dpkg/info", "/var/lib/systemd",
                   "-name", "*ipoibd*").stdout.split()
        self.assertEqual([path for path in left if not path.startswith(str(DROP_INS))], [])
        self.assertEqual(sorted(path.name for path in CONFIGURATION.iterdir()),
                         ["rxe0:1.conf", "rxe1:1.conf"], "the operator's")

    def install_again(self):
        PACKAGES.install(VERSIONS[0])
        run("systemctl", "enable", "--now", LEFT, RIGHT)

    def start_network_manager(self, *changes):
        """With the document's recipe, and pairs of what to replace in it. Only the guest has
        NetworkManager: on the host it would take over interfaces."""
        for name in ("conf.d/ib0.conf", "system-connections/ib0.nmconnection"):
            file = pathlib.Path("/etc/NetworkManager") / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch(0o600)
            text = recipe("service.md", str(file))
            for old, new in changes:
                text = text.replace(old, new)
            file.write_text(text, encoding="utf-8")
            self.addCleanup(file.unlink)
        # The test's own devices, without which the ports have no GIDs, are none of its business.
        others = pathlib.Path("/etc/NetworkManager/conf.d/others.conf")
        others.write_text("[keyfile]\nunmanaged-devices=*,except:interface-name:ib0\n", encoding="utf-8")
        self.addCleanup(others.unlink)
        if not PACKAGES.install_downloaded("network-manager"):
            self.skipTest("the package network-manager cannot be downloaded")
        self.addCleanup(run, "systemctl", "stop", "NetworkManager.service")
        ip("addr", "flush", "dev", "ib0", "scope", "global")
        run("systemctl", "start", "NetworkManager.service")

    def test_network_manager(self):
        self.start_network_manager()
        wait_until(lambda: LEFT_ADDRESS in ip("addr", "show", "dev", "ib0"), "it has its address")
        self.assert_connected()

    def test_network_manager_on_an_ethernet_interface(self):
        """By DHCP, which NetworkManager does on Ethernet interfaces only."""
        def restart(*lines):
            configure("rxe0:1.conf", "name = ib0", *lines)
            run("systemctl", "stop", LEFT)
            run(program("ipoibd"), "--device", "rxe0", "--port", "1", "--name", "ib0", "--cleanup")
            run("systemctl", "start", LEFT)
        self.addCleanup(restart)
        restart("ethernet")
        server = dhcp.start_server(Side(self.subnet, "right", "ip", "netns", "exec", "right"),
                                   self.folder, interface="ib1")
        self.addCleanup(server.end)
        self.start_network_manager(("mode=1", "mode=2"), ("method=manual", "method=auto"),
                                   (f"address1={LEFT_ADDRESS}/24\n", ""))
        wait_until(lambda: re.search(r"inet 10\.44\.0\.1\d\d/", ip("addr", "show", "dev", "ib0")),
                   "it has an address")
        self.assert_connected()

    def test_programs_of_librdmacm_ask_the_daemon(self):
        """By the name that ipoibd-acm.service makes, as any user. On RoCE it knows no paths."""
        def restart(*lines):
            configure("rxe0:1.conf", "name = ib0", *lines)
            run("systemctl", "restart", LEFT)
        self.addCleanup(restart)
        restart("acm")
        self.addCleanup(run, "systemctl", "stop", ACM)
        run("systemctl", "start", ACM)
        self.assertEqual(os.readlink("/run/ibacm.sock"), "ipoibd/ibacm.sock")
        getting = "import ctypes; lib = ctypes.CDLL('librdmacm.so.1'); out = ctypes.c_void_p(); " \
                  f"assert lib.rdma_getaddrinfo(b'{RIGHT_ADDRESS}', b'7471', None, ctypes.byref(out)) == 0"
        run("setpriv", "--reuid=nobody", "--clear-groups", sys.executable, "-c", getting)
        counters = json.loads(run(program("ibarp"), "stats", "-i", "ib0", "--json").stdout)[0]["counters"]
        self.assertEqual((counters["acm_clients"], counters["acm_requests"]), (1, 1))
        run("systemctl", "stop", ACM)
        self.assertFalse(os.path.lexists("/run/ibacm.sock"))

    def test_emulated_subnet(self):
        source = service.BUILD / "systemd/softib@.service"
        text = source.read_text(encoding="utf-8").replace("/usr/local/bin", str(service.BUILD / "bin"))
        (DROP_INS / source.name).write_text(text, encoding="utf-8")
        run("systemctl", "daemon-reload")
        run("systemctl", "start", "softib@lab.service")
        self.assertTrue(is_active("softib@lab.service"))
        run(program("softib"), "run", "--subnet", "lab", "--", "ibv_devices")
        self.assertIn("lab", run(program("softib"), "list").stdout)
        run("systemctl", "stop", "softib@lab.service")
        self.assertEqual(show("softib@lab.service", "Result"), "success")


if __name__ == "__main__":
    MISSING = sys.argv[1] != "guest" and service.why_not()
    if sys.argv[1] == "boot" and not MISSING:
        PACKAGES.make(*VERSIONS)
        PACKAGES.download("network-manager")
    machine.main("vm", MISSING, "--systemd")
