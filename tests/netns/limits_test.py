#!/usr/bin/env python3
"""At a limit of the system, each program names the limit and the remedy, fails, and leaves nothing half made."""

import os
import pathlib
import resource
import shlex
import shutil
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
    ("socket", "EMFILE", SUBNET, ("cannot attach to the HCA in ", "cannot make a socket for 0: Too many open files")),
    ("eventfd2", "EMFILE", SUBNET, ("cannot start the HCA's engine: eventfd: Too many open files", "ulimit -n")),
    ("epoll_create1", "ENOMEM", SUBNET, ("epoll: Cannot allocate memory; free some memory",)),
    ("epoll_create1", "EMFILE", ("softib", "capture", "-"), ("cannot wait for packets: Too many open files", "ulimit -n")),
    ("process_vm_readv", "EPERM", ("softib", "run", "--hca", "left", "false"), ("process_vm_readv is forbidden here",)),
    ("socket", "EMFILE", ("softib", "roce", "lo"), ("cannot list the network interfaces: Too many open files", "ulimit -n")),
    ("setsockopt", "EPERM", ("softib", "roce", "lo"), ("cannot filter packets by queue pair: Operation not permitted",)),
    ("pipe2", "EMFILE", ("softib", "run", "--roce", "lo", "true"), ("cannot start the process of the RoCE port", "ulimit -n")),
    ("execve", "ENOMEM", ("softib", "run", "--roce", "lo", "true"),
     ("the process of the RoCE port has ended without a message: run softib roce to see why",)),
    ("pipe2", "EMFILE", ("ipoibd", "--softib=other/left"), ("cannot start the emulated subnet: Too many open files",)),
    ("seccomp", "EINVAL", IPOIBD, ("no filter of system calls, ", "the daemon works without: --sandbox=off")),
)
# Calls of ipoibd that fail, as failing_calls.c describes, or an environment variable; options, and words of its messages.
NETLINK = "Out of memory"
FAILING = (
    ("ibv_open_device,24", "cannot open any RDMA device (softib0): Too many open files"),
    ("ibv_open_device,24 --device softib0", "cannot open RDMA device softib0: Too many open files"),
    ("none --device softib0 --port 3", "RDMA device softib0 has no InfiniBand or RoCE port 3"),
    ("none --gid-index 1", "--gid-index is for RoCE ports: leave it out"),
    ("ibv_query_gid,5", "cannot read GID 0 of softib0: Input/output error"),
    ("ibv_alloc_pd,12", "cannot allocate a protection domain: Cannot allocate memory", "ulimit -v"),
    ("ibv_create_comp_channel,24", "cannot create a completion channel: Too many open files", "ulimit -n"),
    ("ibv_create_cq,12", "cannot create a completion queue: Cannot allocate memory"),
    ("ibv_reg_mr,12", "cannot register memory: Cannot allocate memory", "ulimit -l"),
    ("umad_open_port,5", "cannot send MADs by softib0 port 1: ", "is /dev/infiniband/umad* there, and udev running?"),
    ("umad_open_port,19", "the device has gone, or has no MADs: ibstat -l lists those that have"),
    ("umad_open_port,22", "no such port, or it has no MAD device: try modprobe ib_umad"),
    ("umad_open_port,95", "do the versions of libibumad and the kernel match?"),
    ("umad_register,1", "cannot register for MADs of the SA on softib0: Operation not permitted"),
    ("prctl,1,0,21", "cannot empty the bounding set of capabilities: Operation not permitted", "permit prctl"),
    ("nl_connect,5", "cannot open a netlink socket: " + NETLINK),
    ("nl_socket_set_nonblocking,5", "cannot make a netlink socket non-blocking: " + NETLINK),
    ("nl_socket_add_memberships,5", "cannot subscribe to changes of addresses and routes: " + NETLINK),
    ("rtnl_link_change,5", "cannot keep the kernel from adding a link-local address: " + NETLINK),
    # Requests of the TUN driver, and of interfaces.
    ("ioctl,5,0,0x400454cd", "cannot set the link type of ib0: Input/output error; ip link set ib0 down, then try again"),
    ("ioctl,5,0,0x400454e2", "cannot set the carrier of ib0: Input/output error"),
    ("ioctl,5,0,0x400454d8", "cannot set the header size of ib0: Input/output error"),
    ("ioctl,5,0,0x400454d0", "cannot set the offloads of ib0: Input/output error"),
    ("ioctl,5,0,0x8914", "cannot change the flags of ib0: Input/output error"),
    ("ioctl,5,0,0x8933", "cannot read the settings of ib0: Input/output error"),
    ("ioctl,5,0,0x8924 --ethernet", "cannot set the address 02:", " of ib0: Input/output error"),
    ("socket,24,1,0x80002", "cannot open a socket: Too many open files", "ulimit -n"),
    ("fcntl,9,2,4", "cannot make the completion channel non-blocking: Bad file descriptor"),
    ("fcntl,9,0,4", "cannot read the events of softib0: Bad file descriptor"),
)
# Those without which the interface works, or that are tried again.
FAILING_LATER = (
    ("IPOIBD_DIR=/dev/null", "/dev/null: is not a folder, or is a symbolic link; set IPOIBD_DIR to a folder of this user",
     "when this daemon ends, others on the port may lose their multicast groups"),
    ("none --device softib0 --backup softib9", "serving without a backup until ipoibd is started again"),
    ("ibv_reg_mr,12,5", "cannot post large receives, packets arrive as segments: cannot register memory"),
    ("ibv_create_ah,12", "cannot create an address handle to LID 49152: Cannot allocate memory"),
    ("ibv_attach_mcast,12", "cannot attach to ff12:401b:ffff::ffff:ffff: Cannot allocate memory"),
    ("ibv_detach_mcast,5", "cannot detach from ff12:401b:ffff::ffff:ffff: Input/output error"),
    ("ibv_destroy_qp,16", "cannot destroy the queue pair: Device or resource busy"),
    ("umad_send,5", "cannot send a MAD to LID 1: Input/output error", "polling for changes until it succeeds"),
    ("nl_recvmsgs_default,5", f"cannot list the host's configuration: {NETLINK}; trying again"),
    ("nl_send_sync,5", "cannot set txqueuelen: " + NETLINK, "cannot add the alternative name ipoibd-ib0-"),
    ("rtnl_link_get_kernel,5", f"cannot read the interface's flags: {NETLINK}; trying again"),
    ("rtnl_addr_add,5", "cannot add the address fe80::"),
    ("ioctl,5,0,0x8921", "cannot read the MTU of ib0: Input/output error"),
    ("ioctl,5,0,0x8922", "cannot set the MTU 2044 of ib0: Input/output error"),
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
        self.assert_failed(done, ("the library civetweb does not start, perhaps since the limit of threads is reached (ulimit -u",))
        self.left.run(*identity, "prlimit", "--nproc=1", program("ibarp"), "info")

    def test_no_proc_and_no_tun(self):
        """In a mount namespace without them."""
        for hidden, command, words in (
                ("/proc", ["ipoibd", "--softib=default/left"], ("mount -t proc",)),
                ("/proc", ["ibarp"], ("cannot list the interfaces: no such entry", "mount -t proc")),
                ("/proc", ["softib", "subnet", "--subnet", "other"], ("mount -t proc",)),
                ("/proc", ["softib", "list"], ("cannot see which subnets run: there is no /proc", "mount -t proc")),
                ("/dev/net", ["ipoibd", "--softib=default/left"],
                 ("/dev/net/tun", "load the driver (modprobe tun) or create the node (mknod /dev/net/tun c 10 200)"))):
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
            self.assert_failed(done, ("/dev/net/tun", "it is not the TUN driver: remove it, and create it anew (mknod "))
        self.assert_no_interface()

    @hosts.needs("strace")
    def test_forbidden_system_calls(self):
        self.assert_forbidden(FORBIDDEN)

    @hosts.needs("strace")
    @hosts.needs_users()
    def test_forbidden_changes_of_the_user(self):
        self.assert_forbidden(FORBIDDEN_TO_CHANGE_THE_USER)

    @hosts.needs("strace")
    def test_a_folder_that_goes_each_time(self):
        """Each third look at the lock file is the one that asks whether it still has its name."""
        lock = str(self.subnet.folder / "other" / "lock")
        done = self.left.run("strace", "-o", "/dev/null", "-P", lock, "-e", "trace=newfstatat", "-e",
                             "inject=newfstatat:error=ENOENT:when=2+3", program("softib"), "subnet", "--subnet", "other", check=False)
        self.assert_failed(done, (f"the folder {self.subnet.folder}/other keeps being removed: try again", ))

    def assert_forbidden(self, rows):
        """As filters of system calls forbid them, those of containers among others."""
        for call, error, command, words in rows:
            done = self.left.run("strace", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                                 f"inject={call}:error={error}", program(command[0]), *command[1:], check=False)
            with self.subTest(call=call):
                self.assert_failed(done, words)
                self.assert_no_interface()
                self.assertFalse((self.subnet.folder / "other").exists())

    def test_failing_calls(self):
        """Each step of the start, and later ones; what cannot work ends ipoibd, with nothing left."""
        command = self.left.command(program("softib"), "run", "--hca", "left", "--", "sh", "-c",
                                    'LD_PRELOAD="$0:$LD_PRELOAD" exec "$@"', str(self.library()), program("ipoibd"))
        log = self.folder / "log"
        for is_fatal, rows in ((True, FAILING), (False, FAILING_LATER)):
            for row, *words in rows:
                call, *options = row.split()
                with self.subTest(row=row):
                    name, _, value = call.rpartition("=")
                    environment = self.subnet.environment | {name or "FAILING_CALL": value}
                    daemon = hosts.Process([*command, *options], log, environment)
                    try:
                        if is_fatal:
                            daemon.popen.wait(hosts.PATIENCE)
                        else:
                            hosts.wait_until(lambda: all(word in daemon.output() for word in words)
                                             or self.left.has_carrier(), words)
                    finally:
                        daemon.end()  # some fail only then
                    self.assertEqual(daemon.status(), 1 if is_fatal else 0)
                    for word in words:
                        self.assertIn(word, daemon.output())
                    log.unlink()
                    self.assert_no_interface()

    def test_files_in_place_of_the_pid_file(self):
        """What is no process ID is not overwritten."""
        other = self.folder / "other"
        other.write_text("of somebody else\n", encoding="ascii")
        link = self.folder / "link"
        link.symlink_to(self.folder / "of-another")
        (self.folder / "of-another").write_text("1\n", encoding="ascii")
        for path, words in ((other, ("exists with other content than a process ID", "choose another path")),
                            (link, ("--pid-file ", "is a symbolic link: name the file that it leads to")),
                            (self.folder, ("--pid-file ", "exists with other content than a process ID")),
                            (self.folder / "nowhere" / "pid", ("--pid-file ", "No such file or directory"))):
            done = self.left.run(program("ipoibd"), "--softib=default/left", "--pid-file", str(path), check=False)
            self.assert_failed(done, words)
            self.assert_no_interface()
        self.assertEqual(other.read_text(encoding="ascii"), "of somebody else\n")

    def test_a_gid_that_a_roce_port_does_not_have(self):
        done = self.left.run(program("softib"), "run", "--roce", "lo", "--", program("ipoibd"), "--device", "softib0",
                             "--gid-index", "9", check=False)
        self.assert_failed(done, ("--gid-index 9: the port has no RoCE v2 GID there that is an IPv6 address; leave the option out, ",))

    def test_a_roce_port_without_news_of_neighbours(self):
        done = self.left.run(program("softib"), "run", "--roce", "lo", "--", "sh", "-c", 'LD_PRELOAD="$0:$LD_PRELOAD" exec "$@"',
                             str(self.library()), "env", "FAILING_CALL=nl_socket_add_membership,5", program("ipoibd"),
                             "--device", "softib0", check=False)
        self.assert_failed(done, (f"cannot subscribe to changes of neighbours: {NETLINK}", ))

    def test_an_interface_that_cannot_be_deleted(self):
        self.left.start("--keep")
        self.left.daemon.end()
        self.assertIsNotNone(self.left.link("ib0"))
        cleanup = (program("softib"), "run", "--hca", "left", "--", "sh", "-c", 'LD_PRELOAD="$0:$LD_PRELOAD" exec "$@"',
                   str(self.library()), "env", "FAILING_CALL=ioctl,1,0,0x400454cb", program("ipoibd"), "--cleanup")
        done = self.left.run(*cleanup, check=False)
        self.assert_failed(done, ("cannot delete the interface ib0: Operation not permitted; ip link delete ib0", ))
        self.left.run(program("softib"), "run", "--hca", "left", "--", program("ipoibd"), "--cleanup")
        self.assert_no_interface()

    def test_a_subnet_that_does_not_respond(self):
        """Its program is another one, which only ends with ipoibd (--tied). That waits for ten seconds."""
        shutil.copy(program("ipoibd"), self.folder)
        other = self.folder / "softib"
        other.write_text("#!/bin/sh\n[ $1 = subnet ] && exec cat >/dev/null\nexit 1\n", encoding="ascii")
        other.chmod(0o755)
        done = self.left.run(str(self.folder / "ipoibd"), "--softib", check=False)
        self.assert_failed(done, ("the emulated subnet does not respond: see `softib show`", ))

    def test_tables_that_are_full(self):
        """Of neighbours, and of pinned addresses."""
        neighbours = self.folder / "neighbours"
        neighbours.touch(mode=0o600)
        for host, hardware, count in ((self.left, "80:00:04:01:fe:80:00:00:00:00:00:00:00:00:00:00:00:00:00:01", 20),
                                      (self.right, "fe80::1", 65_536)):
            neighbours.write_text("".join(f"{hardware} 10.1.{number >> 8}.{number & 255}\n" for number in range(count)),
                                  encoding="ascii")
            host.start("--neighbours", "16", "--neighbour-file", str(neighbours))
        self.left.wait_for_log(" static neighbours cannot be set, the first because: 10.1.0.",
                               ": the table of neighbours is full: delete entries, or raise --neighbours")
        done = self.right.run(program("ibarp"), "add", "10.2.0.1", "gid", "fe80::1", check=False)
        self.assertIn("10.2.0.1: too many addresses are pinned: delete one", done.stderr)

    def library(self):
        """A link to it, since a path in LD_PRELOAD cannot have a blank."""
        link = self.folder / "failing_calls.so"
        link.symlink_to(pathlib.Path(os.path.abspath(hosts.BIN)).parent / "tests" / "libfailing_calls.so")
        return link

    @hosts.needs("strace")
    def test_what_ibarp_and_a_reload_meet(self):
        self.left.start(address="10.44.0.1/24")
        ibarp = program("ibarp")
        for command, words in (
                (("unshare", "--time", "--monotonic", "86400", ibarp, "check"),
                 ("the times of the trace are 86400 seconds behind this process's",
                  "run ibarp in the time namespace of the daemon: nsenter --time=/proc/")),
                (("env", f"LD_PRELOAD={self.library()}", "FAILING_CALL=nl_connect,5", ibarp, "explain", "10.44.0.2"),
                 ("the kernel cannot be asked for a route: Out of memory",)),
                (("strace", "-o", "/dev/null", "-e", "trace=kill", "-e", "inject=kill:error=EPERM", program("ipoibd"), "--reload"),
                 ("--reload: process ", " cannot be asked: Operation not permitted"))):
            with self.subTest(command=command):
                done = self.left.run(*command, check=False)
                for word in words:
                    self.assertIn(word, done.stdout + done.stderr)

    @hosts.needs_users()
    def test_a_probe_without_the_right(self):
        self.left.start(address="10.44.0.1/24")
        self.right.start(address="10.44.0.2/24")
        done = self.left.run("setpriv", "--reuid=65534", "--clear-groups", program("ibarp"), "probe", "10.44.0.2", check=False)
        self.assertIn("run ibarp probe as root", done.stdout)

    def test_locked_memory(self):
        self.left.start_alone("--softib=default/left", command=("prlimit", "--memlock=1000000", program("ipoibd")))
        found = self.left.run(program("ibarp"), "check", check=False).stdout
        for word in "at most 1000000 bytes: more queues may fail", "raise LimitMEMLOCK= of the unit, or ulimit -l":
            self.assertIn(word, found)

    def test_full_disk(self):
        text = (f"mount -t tmpfs -o size=8k none {self.folder} && SOFTIB_DIR={self.folder} {shlex.quote(program('softib'))} subnet; "
                f"echo $? $(ls -A {self.folder})")
        done = self.left.run("unshare", "--mount", "sh", "-c", text)
        self.assertIn("free some space", done.stderr)
        self.assertEqual(done.stdout, "1\n", "nothing half made is left")


if __name__ == "__main__":
    hosts.main()
