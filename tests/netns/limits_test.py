#!/usr/bin/env python3
"""At a limit of the system, each program names the limit and the remedy, fails, and leaves nothing half made."""

import os
import pathlib
import resource
import shlex
import subprocess
import tempfile

import hosts
import softib_subnet
from hosts import program

OPEN_FILES = ("Too many open files", "ulimit -n")
FILE_SIZE = ("File too large", "ulimit -f")
IPOIBD = ("ipoibd", "--softib=default/left")
SUBNET = ("softib", "subnet", "--subnet", "other")
EXEC = ("softib", "exec", "--subnet", "other", "true")
AS_NOBODY = (*IPOIBD, "--user", "nobody")
# System call, error, command, words of its message.
FORBIDDEN_TO_CHANGE_THE_USER = (
    ("setgroups", "EPERM", AS_NOBODY, ("cannot set the supplementary groups", "CAP_SETGID")),
    ("setresgid", "EPERM", AS_NOBODY, ("--group ", "CAP_SETGID")),
    ("setresuid", "EPERM", AS_NOBODY, ("--user nobody", "CAP_SETUID")),
    ("prctl", "EPERM", AS_NOBODY, ("--user nobody: cannot keep capabilities", "permit prctl")),
)
FORBIDDEN = (
    ("prctl", "EPERM", IPOIBD, ("cannot give up privileges for good", "permit prctl")),
    ("capset", "EPERM", IPOIBD, ("cannot give up capabilities", "permit capset")),
    ("signalfd4", "EMFILE", IPOIBD, ("cannot receive signals", "Too many open files", "ulimit -n")),
    ("pipe2", "EMFILE", EXEC, ("cannot make a pipe", "Too many open files", "ulimit -n")),
    ("clone,clone3,fork,vfork", "EAGAIN", EXEC, ("cannot fork", "ulimit -u")),
    ("timerfd_create", "EMFILE", SUBNET, ("Too many open files", "ulimit -n")),
    ("memfd_create", "ENOMEM", SUBNET, ("Cannot allocate memory", "free some memory")),
    ("bind", "EACCES", SUBNET, ("cannot listen at ", "Permission denied")),
    ("pwrite64", "ENOSPC", SUBNET, ("cannot write ", "free some space")),
    ("fallocate", "ENOSPC", SUBNET, ("cannot allocate ", "free some space")),
)
FULL_DISK = ("No space left on device", "free some space")


class SystemLimits(hosts.Pair):
    def setUp(self):
        self.set_up()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_with(self, limit, value, *command, **more):
        """Runs a program on the host, with this limit of its resources."""
        more = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE) | more
        return subprocess.run(self.left.command("prlimit", f"--{limit}={value}", "--core=0", program(command[0]), *command[1:]),
                              env=self.subnet.environment, text=True, timeout=hosts.PATIENCE, check=False, **more)

    def assert_failed(self, done, words):
        self.assertEqual(done.returncode, 1, done)
        for word in words:
            self.assertIn(word, done.stderr)

    def assert_no_interface(self):
        self.assertIsNone(self.left.link("ib0"))

    def test_open_files(self):
        # Each number ends the start of ipoibd at another step.
        for number in 5, 7, 9, 14, 16, 20, 24, 28, 32:
            self.assert_failed(self.run_with("nofile", number, "ipoibd", "--softib=default/left"), OPEN_FILES)
            self.assert_no_interface()
        for number in 4, 8, 14:
            self.assert_failed(self.run_with("nofile", number, "softib", "subnet", "--subnet", "other"), OPEN_FILES)
            self.assertFalse((self.subnet.folder / "other").exists())
        self.assert_failed(self.run_with("nofile", 4, "softib", "show"), OPEN_FILES)
        self.left.start()
        # The interface is found even if only a single file can be opened at a time.
        self.assertIn("ib0", self.run_with("nofile", 4, "ibarp", "info").stdout)
        self.assert_failed(self.run_with("nofile", 4, "ibarp", "monitor"), OPEN_FILES)

    def test_size_of_files(self):
        self.left.start()
        for command in (["ibarp", "metrics"], ["ibarp", "save"], ["ibarp", "bugreport"], ["softib", "metrics"]):
            done = self.run_with("fsize", 10, *command, "--output", str(self.folder / "out"))
            self.assert_failed(done, FILE_SIZE)
            self.assertEqual(os.listdir(self.folder), [], "nothing half made is left")
        done = self.run_with("fsize", 1000, "softib", "subnet", "--subnet", "other")
        self.assert_failed(done, FILE_SIZE)
        self.assertFalse((self.subnet.folder / "other").exists())
        done = self.run_with("fsize", 0, "ipoibd", "--softib=default/right", "--name", "ib1", "--pid-file",
                             str(self.folder / "pid"))
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual(os.listdir(self.folder), [])
        self.assertIsNone(self.left.link("ib1"))

    def test_output_that_cannot_be_written(self):
        self.left.start()
        with open("/dev/full", "w", encoding="ascii") as full:
            for command in (["ipoibd", "--help"], ["ipoibd", "--version"], ["ipoibd", "--check-config"],
                            ["ibarp", "info"], ["ibarp", "save"], ["ibarp", "metrics"], ["ibarp", "bugreport", "--output", "-"],
                            ["softib", "show"], ["softib", "list"], ["softib", "--help"]):
                done = self.run_with("nofile", 1024, *command, stdout=full)
                self.assert_failed(done, FULL_DISK)

    def test_memory(self):
        done = self.run_with("as", 40_000_000, "ipoibd", "--softib=default/left")
        self.assert_failed(done, ("ulimit -v",))
        self.assert_no_interface()

    @hosts.needs_users()
    def test_processes(self):
        """Root has no limit of processes, so this is a user who has no other process."""
        user = 1_000_000 + os.getpid()
        os.chown(self.folder, user, -1)
        identity = ("setpriv", f"--reuid={user}", "--clear-groups", "--inh-caps=+net_admin", "--ambient-caps=+net_admin")
        if subprocess.run([*identity, "true"], check=False, capture_output=True).returncode != 0:
            self.skipTest("there are no other users here")
        folders = (f"SOFTIB_DIR={self.folder}", f"IPOIBD_DIR={self.folder}")
        # ipoibd cannot start the subnet, which with one more cannot start its thread.
        for number, command in ((1, ["softib", "subnet"]), (1, ["ipoibd", "--softib"]), (3, ["ipoibd", "--softib"])):
            done = self.left.run(*identity, "env", *folders, "prlimit", f"--nproc={number}", program(command[0]), *command[1:],
                                 check=False)
            self.assert_failed(done, ("Resource temporarily unavailable", "ulimit -u"))
            # The subnet that ipoibd has started removes its folder after it has said why it ends.
            hosts.wait_until(lambda: os.listdir(self.folder) == [], "nothing half made is left")
        self.assert_no_interface()
        # Of softib exec: the subnet, the command, and the engine of its HCA, which says so itself.
        for number in 1, 2, 3, 4:
            done = self.left.run(*identity, "env", *folders, "prlimit", f"--nproc={number}", program("softib"), "exec", "--",
                                 "ibv_devinfo", "-l", check=False)
            self.assertNotEqual(done.returncode, 0, done)
            for word in "Resource temporarily unavailable", "ulimit -u":
                self.assertIn(word, done.stderr)
            hosts.wait_until(lambda: os.listdir(self.folder) == [], "nothing half made is left")

    def test_processes_of_ibarp(self):
        """It has one, with threads only for metrics."""
        self.left.start()
        user = 1_000_000 + os.getpid()
        identity = ("setpriv", f"--reuid={user}", "--clear-groups")
        if subprocess.run([*identity, "true"], check=False, capture_output=True).returncode != 0:
            self.skipTest("there are no other users here")
        done = self.left.run(*identity, "prlimit", "--nproc=1", program("ibarp"), "metrics", "--serve", "0", check=False)
        self.assert_failed(done, ("ulimit -u",))
        self.left.run(*identity, "prlimit", "--nproc=1", program("ibarp"), "info")

    def test_no_proc_and_no_tun(self):
        """In a mount namespace without them."""
        for hidden, command, words in (
                ("/proc", ["ipoibd", "--softib=default/left"], ("mount -t proc",)),
                ("/proc", ["ibarp"], ("mount -t proc",)),
                ("/proc", ["softib", "subnet", "--subnet", "other"], ("mount -t proc",)),
                ("/proc", ["softib", "list"], ("mount -t proc",)),
                ("/dev/net", ["ipoibd", "--softib=default/left"], ("/dev/net/tun", "modprobe tun"))):
            text = f"mount -t tmpfs none {hidden} && exec {shlex.join([program(command[0]), *command[1:]])}"
            done = self.left.run("unshare", "--mount", "sh", "-c", text, check=False)
            self.assert_failed(done, words)
            self.assertFalse((self.subnet.folder / "other").exists())
        self.assert_no_interface()

    def test_other_files_in_place_of_the_tun_driver(self):
        """As a container has them whose bind mount had no source; only root can make a device."""
        device = ("mknod /dev/net/tun c 1 3",) if softib_subnet.has_other_users() else ()
        for made in "mkdir /dev/net/tun", "touch /dev/net/tun", *device:
            text = (f"mount -t tmpfs none /dev/net && {made} && "
                    f"exec {shlex.join([program('ipoibd'), '--softib=default/left'])}")
            done = self.left.run("unshare", "--mount", "sh", "-c", text, check=False)
            self.assert_failed(done, ("/dev/net/tun", "remove it", "mknod"))
        self.assert_no_interface()

    @hosts.needs("strace")
    def test_forbidden_system_calls(self):
        self.assert_forbidden(FORBIDDEN)

    @hosts.needs("strace")
    @hosts.needs_users()
    def test_forbidden_changes_of_the_user(self):
        self.assert_forbidden(FORBIDDEN_TO_CHANGE_THE_USER)

    def assert_forbidden(self, rows):
        """As filters of system calls forbid them, those of containers among others."""
        for call, error, command, words in rows:
            done = self.left.run("strace", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                                 f"inject={call}:error={error}", program(command[0]), *command[1:], check=False)
            with self.subTest(call=call):
                self.assert_failed(done, words)
                self.assert_no_interface()
                self.assertFalse((self.subnet.folder / "other").exists())

    def test_files_in_place_of_the_pid_file(self):
        """What is no process ID is not overwritten."""
        other = self.folder / "other"
        other.write_text("of somebody else\n", encoding="ascii")
        for path, words in ((other, ("exists with other content than a process ID", "choose another path")),
                            (self.folder, ("--pid-file ", "exists with other content than a process ID")),
                            (self.folder / "nowhere" / "pid", ("--pid-file ", "No such file or directory"))):
            done = self.left.run(program("ipoibd"), "--softib=default/left", "--pid-file", str(path), check=False)
            self.assert_failed(done, words)
            self.assert_no_interface()
        self.assertEqual(other.read_text(encoding="ascii"), "of somebody else\n")

    def test_full_disk(self):
        text = (f"mount -t tmpfs -o size=8k none {self.folder} && SOFTIB_DIR={self.folder} {shlex.quote(program('softib'))} subnet; "
                f"echo $? $(ls -A {self.folder})")
        done = self.left.run("unshare", "--mount", "sh", "-c", text)
        self.assertIn("free some space", done.stderr)
        self.assertEqual(done.stdout, "1\n", "nothing half made is left")


if __name__ == "__main__":
    hosts.main()
