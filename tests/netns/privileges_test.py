#!/usr/bin/env python3
"""What the running daemon may do, compared with docs/security.md."""

import os
import pathlib
import pwd
import re
import resource
import subprocess
import unittest

import hosts
from hosts import wait_until

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/security.md"
SHOWN = re.compile(r"^(Uid|Cap\w+|NoNewPrivs|Seccomp):")


def status_of(pid, thread=None):
    path = f"/proc/{pid}/status" if thread is None else f"/proc/{pid}/task/{thread}/status"
    return pathlib.Path(path).read_text(encoding="utf-8").splitlines()


def shown(status):
    return [line for line in status if SHOWN.match(line)]


def documented():
    """Returns the lines of the document's status."""
    lines = [line.strip() for line in DOCUMENT.read_text(encoding="utf-8").splitlines()]
    start = next(i for i, line in enumerate(lines) if line.startswith("$ grep -E '^(Uid|Cap"))
    return lines[start + 1:lines.index("", start)]


def filters(status):
    """How many filters of system calls a thread has. Those of a container count, too."""
    return int(next(line for line in status if line.startswith("Seccomp_filters:")).split()[1])


class PrivilegesTest(hosts.Pair):
    def setUp(self):
        self.set_up("--partition", "1=full")

    def without_sandbox(self):
        """Whether the programs were built with sanitizers, which have no sandbox."""
        return hosts.has_sanitizer(self.left.daemon.pid)

    def admit_other_users(self):
        """Everybody may enter the folder of the subnet, which is private to its owner."""
        try:
            subprocess.run(["setpriv", "--reuid", "nobody", "true"], check=True, capture_output=True)
        except subprocess.CalledProcessError:
            self.skipTest("there are no other users in this user namespace")
        for folder in (self.subnet.folder, self.subnet.folder / "default"):
            folder.chmod(0o755)

    def test_daemon_has_what_the_document_shows(self):
        self.start()
        expected = documented()
        self.assertEqual(len(expected), 8, expected)
        if self.without_sandbox():
            expected.remove("Seccomp:\t2")
        actual = shown(status_of(self.left.daemon.pid))
        self.assertEqual([line for line in expected if line not in actual], [], actual)
        self.left.wait_for_log("runs as user 0", "net_admin, sys_admin")

    def test_interface_thread_has_a_stricter_filter(self):
        self.start()
        pid = self.left.daemon.pid
        threads = {next(line for line in status_of(pid, task) if line.startswith("Name:")).split()[1]: task
                   for task in os.listdir(f"/proc/{pid}/task")}
        status = status_of(pid, threads["ib0"])
        if not self.without_sandbox():
            self.assertEqual(filters(status), filters(status_of(pid)) + 1)

    def test_another_user(self):
        self.admit_other_users()
        pid_file = self.subnet.folder / "pid"
        options = ("--user", "nobody", "--pid-file", str(pid_file))
        # Not /run/ipoibd, which the daemons of other tests have, too.
        self.subnet.environment["IPOIBD_DIR"] = str(self.subnet.folder / "run")
        self.left.start_all(*options)
        del self.subnet.environment["IPOIBD_DIR"]
        self.left.run("ip", "addr", "add", "10.44.0.1/24", "dev", "ib0")
        self.right.start(address="10.44.0.2/24")
        self.assert_connected()
        user = str(pwd.getpwnam("nobody").pw_uid)
        status = status_of(self.left.daemon.pid)
        self.assertIn("\t".join(["Uid:", *[user] * 4]), status)
        self.assertIn("CapEff:\t0000000000201000", status)
        self.left.wait_for_log("runs as user nobody")
        self.assertEqual(int(pid_file.read_text(encoding="utf-8")), self.left.daemon.pid)
        # What needs root on most hosts: another interface, and a device that comes back.
        wait_until(lambda: self.left.has_carrier("ib0.8001"), "the second interface is up")
        self.softib_set("partition", "2", "left", "full")
        wait_until(lambda: self.left.link("ib0.8002"), "a later interface is created")
        self.softib_set("hca", "left", "failed")
        self.left.wait_for_log("waiting for", "to come back")
        self.softib_set("hca", "left", "present")
        wait_until(self.left.has_carrier, "the device is found again")
        self.assert_connected()
        self.assertEqual(self.left.daemon.end(), 0, self.left.daemon.output())
        self.assertIsNone(self.left.link(), "the interface is removed")

    def test_daemons_of_two_users(self):
        """A daemon of root leaves the folder of control sockets to the one of another user."""
        self.admit_other_users()
        run = self.subnet.folder / "run"
        run.mkdir(mode=0o755)
        with_own_run = ("unshare", "-m", "sh", "-c", f'mount --bind {run} /run && exec "$@"', "sh")

        def start(host, *options):
            host.start_alone(*with_own_run, hosts.program("softib"), "run", "--hca", host.name, "--",
                             hosts.program("ipoibd"), *options, command=())

        def answers(host, interface):
            return host.run(*with_own_run, hosts.program("ibarp"), "info", "-i", interface,
                            check=False).returncode == 0

        start(self.left, "--user", "nobody")
        start(self.right)
        for host in (self.left, self.right):
            wait_until(lambda: answers(host, "ib0"), f"{host.name} has its sockets")
        self.assertEqual((run / "ipoibd").owner(), "nobody")
        self.assertEqual((run / "ipoibd.0").owner(), "root")
        self.softib_set("partition", "2", "left", "full")
        wait_until(lambda: answers(self.left, "ib0.8002"), "left has the sockets of a new interface")
        for host, folder in ((self.left, "ipoibd"), (self.right, "ipoibd.0")):
            self.assertTrue((run / folder).exists())
            self.assertEqual(host.daemon.end(), 0)
            self.assertFalse((run / folder).exists(), list((run / folder).rglob("*")))

    def test_folder_of_another_user_is_removed(self):
        """By whom has given up the right to do so; not while another daemon of that user needs it."""
        self.admit_other_users()
        run = self.subnet.folder / "run"
        run.mkdir(mode=0o755)
        with_own_run = ("unshare", "-m", "sh", "-c", f'mount --bind {run} /run && exec "$@"', "sh")

        def start(host, *options):
            host.start_alone(*with_own_run, hosts.program("softib"), "run", "--hca", host.name, "--",
                             hosts.program("ipoibd"), *options, command=())
            return host.daemon
        third = hosts.Host(self.subnet, "third")
        self.addCleanup(third.close)
        first = start(third)
        wait_until(lambda: list(run.glob("ipoibd/net-*/ib0/control")), "root has the first folder")
        daemons = start(self.left, "--user", "nobody"), start(self.right, "--user", "nobody")
        (folder,) = run.glob("ipoibd.*")
        self.assertEqual(folder.owner(), "nobody")
        wait_until(lambda: len(list(folder.glob("net-*/ib0/control"))) == 2, "both use it")
        self.assertEqual(daemons[0].end(), 0)
        self.assertTrue(folder.exists())
        self.assertEqual(daemons[1].end(), 0)
        self.assertFalse(folder.exists(), list(folder.rglob("*")) if folder.exists() else None)
        self.assertEqual(first.end(), 0)
        self.assertEqual(list(run.glob("ipoibd*")), [])

    def test_unknown_user(self):
        done = self.left.run(hosts.program("softib"), "run", "--hca", "left", "--",
                             hosts.program("ipoibd"), "--user", "no-such-user", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no-such-user", done.stderr)

    def test_sandbox_can_be_turned_off(self):
        self.start("--sandbox", "off")
        self.assert_connected()
        status = status_of(self.left.daemon.pid)
        self.assertEqual(filters(status), filters(status_of("self")))
        self.assertIn("NoNewPrivs:\t1", status)


class Descriptors(hosts.Pair):
    def test_limit_is_raised(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        self.set_up()
        self.start()
        for pid in (self.subnet.process.pid, self.left.daemon.pid):
            self.assertEqual(resource.prlimit(pid, resource.RLIMIT_NOFILE), (hard, hard))


if __name__ == "__main__":
    hosts.main()
