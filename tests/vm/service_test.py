#!/usr/bin/env python3
"""The package ipoibd and its units, in a virtual machine whose first process is systemd, on soft RoCE
ports.

The package has the programs of the build folder and what debhelper makes of debian/.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import time
import unittest

import machine

import hosts
from hosts import program
from machine import ip

DOCUMENT = (machine.ROOT / "docs/service.md").read_text(encoding="utf-8")
BUILD = pathlib.Path(hosts.BIN).resolve().parent
PACKAGES = BUILD / "vm/packages"
VERSIONS = ("0.2.0-1", "0.2.1-1")
CONFIGURATION = pathlib.Path("/etc/ipoibd")
DROP_INS = pathlib.Path("/run/systemd/system")
# The first one is bound to the port's device for management datagrams, the other to the RDMA device.
LEFT, RIGHT = "ipoibd@rxe0:1.service", "ipoibd-roce@rxe1:1.service"
LEFT_ADDRESS, RIGHT_ADDRESS = "10.44.0.1", "10.44.0.2"


def run(*command, check=True, cwd=None, **environment):
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=500, cwd=cwd, env={**os.environ, **environment})
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done


def wait_until(condition, what):
    """Asks less often than the other tests: a systemctl takes long in an emulated machine."""
    return hosts.wait_until(lambda: condition() or time.sleep(0.5), what)


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


def write(name, *lines):
    (CONFIGURATION / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def recipe(name):
    """The file of this name in the document."""
    found = re.search(rf"^    # {re.escape(name)}\n((?:    (?!#).*\n|\n)+)", DOCUMENT, re.M)
    return textwrap.dedent(found[1]).strip() + "\n"


def make_packages():
    """Makes the package in two versions, on the host."""
    shutil.rmtree(PACKAGES, ignore_errors=True)
    shutil.copytree(machine.ROOT / "debian", PACKAGES / "debian")
    installed = PACKAGES / "debian/tmp"
    run("cmake", "--install", str(BUILD), "--prefix", "/usr", "--strip", DESTDIR=str(installed))
    # As debian/rules configures it.
    debhelper = pathlib.Path(shutil.which("dh_installsystemd")).read_text(encoding="utf-8")
    system = "usr/lib" if "usr/lib/systemd/system" in debhelper else "lib"
    for part in ("systemd", "udev"):
        (installed / system).mkdir(exist_ok=True)
        (installed / "usr/lib" / part).rename(installed / system / part)
    for unit in (installed / system / "systemd/system").iterdir():
        text = unit.read_text(encoding="utf-8")
        unit.write_text(text.replace("/usr/local/", "/usr/"), encoding="utf-8")
    for step in ("install", "installdirs", "installsysusers", "installtmpfiles", "installsystemd",
                 "installdeb"):
        options = ["--no-enable", "--no-start"] if step == "installsystemd" else []  # debian/rules
        run(f"dh_{step}", "--package=ipoibd", *options, cwd=PACKAGES, SYSTEM=system)
    for version in VERSIONS:
        run("dh_gencontrol", "--package=ipoibd", "--", f"-v{version}", cwd=PACKAGES)
        run("dh_builddeb", "--package=ipoibd", "--destdir=.", "--", "-Znone", cwd=PACKAGES)


def install(version):
    (file,) = PACKAGES.glob(f"ipoibd_{version}_*.deb")
    # Of other packages, such as man-db.
    run("dpkg", "--install", "--no-triggers", str(file))


class Guest(machine.Guest):
    def logs(self, test):
        return "\n".join([super().logs(test), "--- the journal",
                          run("journalctl", "--boot", "--lines", "150").stdout])


class Service(machine.Cases):
    """A daemon in the initial network namespace, and one with its interface in another."""

    @classmethod
    def setUpClass(cls):
        cls.subnet = Guest()
        install(VERSIONS[0])
        # A watchdog that does not take half a minute.
        for template in ("ipoibd@", "ipoibd-roce@"):
            folder = DROP_INS / f"{template}.service.d"
            folder.mkdir(parents=True)
            (folder / "test.conf").write_text("[Service]\nWatchdogSec=5\n", encoding="utf-8")
        run("systemctl", "daemon-reload")
        write("rxe0:1.conf", "name = ib0")
        write("rxe1:1.conf", "name = ib1", "netns = right")
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
        self.addCleanup(write, "rxe0:1.conf", "name = ib0")
        write("rxe0:1.conf", "name = ib0", "colour = red")
        self.assertNotEqual(run("systemctl", "restart", LEFT, check=False).returncode, 0)
        self.assertEqual((show(LEFT, "ActiveState"), show(LEFT, "ExecMainStatus")), ("failed", "2"))
        self.assertIn("rxe0:1.conf:2: no option 'colour'", journal(LEFT))

    def test_reload(self):
        self.addCleanup(write, "rxe0:1.conf", "name = ib0")
        before = process_of(LEFT)
        write("rxe0:1.conf", "name = ib0", "log = link=debug", "mtu = 1500")
        run("systemctl", "reload", LEFT)
        wait_until(lambda: "mtu: 4092 -> 1500: takes effect when ipoibd is started again" in
                   journal(LEFT), "the journal says what needs a restart")
        self.assertIn("debug", run(program("ibarp"), "log").stdout)
        write("rxe0:1.conf", "name = ib0", "colour = red")
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
        text = recipe("/etc/systemd/network/ib0.network")
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
        self.assert_connected()
        before = {unit: process_of(unit) for unit in (LEFT, RIGHT)}
        install(VERSIONS[1])
        for unit, process in before.items():
            wait_until(lambda it=unit: is_active(it), "the upgraded one is active")
            self.assertNotEqual(process_of(unit), process)
        self.assertIn(LEFT_ADDRESS, ip("addr", "show", "dev", "ib0"))
        self.assert_connected()
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
        install(VERSIONS[0])
        run("systemctl", "enable", "--now", LEFT, RIGHT)

    @unittest.skipUnless(shutil.which("NetworkManager"), "needs NetworkManager")
    def test_network_manager(self):
        """The document's recipe."""
        for name in ("conf.d/ib0.conf", "system-connections/ib0.nmconnection"):
            file = pathlib.Path("/etc/NetworkManager") / name
            file.touch(0o600)
            file.write_text(recipe(str(file)), encoding="utf-8")
            self.addCleanup(file.unlink)
        self.addCleanup(run, "systemctl", "stop", "NetworkManager.service")
        ip("addr", "flush", "dev", "ib0", "scope", "global")
        run("systemctl", "start", "NetworkManager.service")
        wait_until(lambda: LEFT_ADDRESS in ip("addr", "show", "dev", "ib0"), "it has its address")
        self.assert_connected()

    def test_emulated_subnet(self):
        source = BUILD / "systemd/softib@.service"
        text = source.read_text(encoding="utf-8").replace("/usr/local/bin", str(BUILD / "bin"))
        (DROP_INS / source.name).write_text(text, encoding="utf-8")
        run("systemctl", "daemon-reload")
        run("systemctl", "start", "softib@lab.service")
        self.assertTrue(is_active("softib@lab.service"))
        run(program("softib"), "run", "--subnet", "lab", "--", "ibv_devices")
        self.assertIn("lab", run(program("softib"), "list").stdout)
        run("systemctl", "stop", "softib@lab.service")
        self.assertEqual(show("softib@lab.service", "Result"), "success")


def why_not():
    """Returns why these tests cannot run, or None."""
    missing = [path for path in ("/lib/systemd/systemd", "/lib/systemd/systemd-udevd",
                                 "/lib/udev/rules.d/90-rdma-umad.rules")
               if not pathlib.Path(path).exists()]
    if missing:
        return f"needs {', '.join(missing)} (packages systemd, udev, rdma-core)"
    missing = [name for name in ("cmake", "dh_installsystemd", "dpkg-gencontrol")
               if shutil.which(name) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    if not os.environ.get("IPOIB_VM") and not re.search(
            r"\b(vmx|svm)\b", pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")):
        return "takes minutes in an emulated machine; scripts/test --vm runs it"
    return machine.why_no_guest()


if __name__ == "__main__":
    MISSING = sys.argv[1] != "guest" and why_not()
    if sys.argv[1] == "boot" and not MISSING:
        make_packages()
    machine.main("vm", MISSING, "--systemd")
