#!/usr/bin/env python3
"""No thread of the data path makes a system call that can block, but its own wait (epoll), while hosts
come, go and attack: neither those of a daemon, as HCA and as interface, nor those of the subnet process.

strace(1) lists the calls. What counts is what a call may do, not whether it has blocked here.
"""

import os
import pathlib
import re
import signal
import unittest

import attacks
import hosts
from hosts import wait_until

MESSAGES = 400
PINGS = 500
SHOWN = 5  # of the calls that can block
CARRIED_OUT = ("random-gids", "rmpp-openings", "descriptors", "connections", "rings", "hung-receiver",
               "slow-receiver", "lease", "many-waiters", "slow-client")
# What no peer can delay. close(2) and munmap(2) can be with descriptors that a peer has passed:
# docs/security.md.
HARMLESS = frozenset(
    "brk capget close epoll_ctl eventfd2 ftruncate getpid getrandom getsockopt getuid gettid ioctl listen "
    "lseek madvise memfd_create mmap mprotect mremap munmap newfstatat fstat pread64 prlimit64 pwrite64 "
    "readlink readlinkat rt_sigaction rt_sigpending rt_sigprocmask rt_sigreturn rt_sigtimedwait "
    "sched_yield setsockopt set_robust_list rseq socket socketpair bind timerfd_settime "
    "timerfd_create epoll_create1 unlink unlinkat mkdir mkdirat mknodat getdents64 rmdir rename chmod "
    "fchmod fchmodat fchown shutdown geteuid getegid getgid dup process_vm_readv process_vm_writev "
    "restart_syscall clock_gettime access faccessat getsockname getpeername "
    "exit fallocate statx".split())
OWN_WAIT = frozenset("epoll_wait epoll_pwait epoll_pwait2".split())
ON_DESCRIPTOR = frozenset("read readv write writev sendmsg sendto recvmsg recvfrom accept accept4 "
                          "connect".split())
CREATED = re.compile(r"_NONBLOCK.*\) = (\d+)")
CALL = re.compile(r"(\w+)\((.*?)(?:\) += .*)?$")


def can_block(line, does_not_block):
    """Whether the call of this line of strace can block. does_not_block(number) tells whether a
    descriptor is O_NONBLOCK."""
    call = CALL.match(line)
    if call is None or call[1] in HARMLESS | OWN_WAIT:
        return False
    name, arguments = call.groups()
    if name in ("open", "openat", "openat2"):
        return not re.search(r"[<\"]/proc/sys[/>]|O_NONBLOCK|O_PATH|O_DIRECTORY", arguments)
    if name == "flock":
        return "LOCK_NB" not in arguments and "LOCK_UN" not in arguments
    if name == "fcntl":
        return "SETLKW" in arguments
    if name in ("poll", "ppoll", "select", "pselect6"):
        return not re.search(r"\d, 0$|tv_sec=0, tv_nsec=0\}", arguments)
    if name == "futex":
        # A lock, or for room in a ring: as long as there is patience (softib/transport/patience.hpp).
        return "FUTEX_WAIT," in arguments and not re.search(r"\{tv_sec=0, tv_nsec=\d+\}", arguments)
    if name in ON_DESCRIPTOR:
        number, path = re.match(r"(\d+)(?:<([^>]*)>)?", arguments).groups()
        is_file = path is not None and path.startswith("/") and not path.startswith("/dev/")
        is_log = name == "write" and number == "2"  # the operator reads it
        return not (is_file or is_log) and "MSG_DONTWAIT" not in arguments and not does_not_block(int(number))
    return True


def nonblocking_of(pid):
    """Returns the descriptors of a process that are O_NONBLOCK."""
    found = set()
    for info in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            flags = int(re.search(r"^flags:\s+(\d+)", info.read_text(encoding="utf-8"), re.M)[1], 8)
        except (OSError, TypeError):
            continue
        if flags & os.O_NONBLOCK:
            found.add(int(info.name))
    return found


class Trace:
    """The system calls of all threads of a process, from construction to end()."""

    def __init__(self, subnet, pid):
        self.pid = pid
        self.names = {}
        self.nonblocking = nonblocking_of(pid)
        self.output = subnet.folder / f"strace-{pid}"
        self.process = hosts.Process(["strace", "-ff", "-y", "-s", "16", "-o", str(self.output), "-p",
                                      str(pid)], subnet.folder / f"strace-{pid}.log", None)
        threads = {thread.name for thread in pathlib.Path(f"/proc/{pid}/task").iterdir()}
        wait_until(lambda: not self.process.is_running() or
                   all(self.tracer_of(thread) for thread in threads), "strace has attached")
        if not self.process.is_running():
            raise unittest.SkipTest(f"strace cannot attach: {self.process.output()}")

    def tracer_of(self, thread):
        status = pathlib.Path(f"/proc/{self.pid}/task/{thread}/status").read_text(encoding="utf-8")
        self.names[thread] = re.search(r"^Name:\s+(.*)$", status, re.M)[1]
        return int(re.search(r"^TracerPid:\s+(\d+)", status, re.M)[1])

    def end(self):
        """Ends the trace; returns the calls of each thread by its name."""
        self.nonblocking |= nonblocking_of(self.pid)
        self.process.end(signal.SIGINT)
        calls = {}
        for path in self.output.parent.glob(f"{self.output.name}.[0-9]*"):
            name = self.names.get(path.suffix[1:], "of this test")
            calls.setdefault(name, []).extend(
                path.read_text(encoding="utf-8", errors="replace").splitlines())
        for lines in calls.values():
            self.nonblocking |= {int(made[1]) for made in map(CREATED.search, lines) if made}
        return calls

    def blocking(self, lines):
        return [line for line in lines if can_block(line, self.nonblocking.__contains__)]


@hosts.needs("strace")
class BlockingCalls(hosts.Pair):
    def trace(self, pid):
        trace = Trace(self.subnet, pid)
        self.addCleanup(trace.process.end)
        return trace

    def test_no_thread_of_the_data_path_can_block(self):
        self.set_up()
        self.right.capture = self.subnet.folder / "capture"
        self.left.start(address="10.44.0.1/16")
        self.right.start(address="10.44.0.2/16")
        scene = attacks.Scene(self.right, self.left, self.add_host("hostile", "10.44.0.3/16"))
        daemon, subnet = self.trace(self.right.daemon.pid), self.trace(self.subnet.process.pid)
        self.left.run("ping", "-f", "-c", str(PINGS), "10.44.0.2")
        for attack in attacks.ATTACKS:
            if attack.name in CARRIED_OUT:
                attacks.carry_out(attack, scene, MESSAGES)
        # Its slot is reclaimed, by whoever finds that it has gone.
        scene.hostile.kill()
        self.right.run("ping", "-b", "-c", "3", "10.44.255.255", check=False)
        self.add_host("late", "10.44.0.4/16")
        self.assertTrue(self.right.reaches("10.44.0.4"))
        calls, of_subnet = daemon.end(), subnet.end()
        for name in ("softib", "ib0"):
            self.assertGreater(len(calls[name]), PINGS / 10, f"calls of {name}")
            self.assertEqual(daemon.blocking(calls[name])[:SHOWN], [], name)
        self.assertGreater(len(of_subnet["softib"]), 0)
        self.assertEqual(subnet.blocking(of_subnet["softib"])[:SHOWN], [], "subnet process")


class Lines(unittest.TestCase):
    """What can block, and what cannot, by lines of strace."""

    BLOCKING = (
        "flock(9</tmp/capture>, LOCK_EX) = 0",
        'openat(5</tmp/node>, "0.lock", O_RDWR|O_NOFOLLOW|O_CLOEXEC) = 6',
        "fcntl(6</tmp/fabric>, F_OFD_SETLKW, {l_type=F_RDLCK, l_whence=SEEK_SET}) = 0",
        "sendmsg(7<socket:[1]>, {msg_name=NULL}, MSG_NOSIGNAL) = 300",
        'recvfrom(7<socket:[1]>, "", 1, 0, NULL, NULL) = 0',
        'connect(7<socket:[1]>, {sa_family=AF_UNIX, sun_path="/proc/self/fd/23"}, 110) = 0',
        "poll([{fd=7<socket:[1]>, events=POLLOUT}], 1, 200) = 0 (Timeout)",
        "futex(0x7f, FUTEX_WAIT, 1, NULL) = 0",
        "futex(0x7f, FUTEX_WAIT, 1, {tv_sec=5, tv_nsec=0}) = 0",
        'write(7<pipe:[2]>, "x", 1',
        "clock_nanosleep(CLOCK_MONOTONIC, 0, {tv_sec=1, tv_nsec=0}, NULL) = 0",
        "fsync(6</tmp/fabric>) = 0",
    )
    HARMLESS = (
        "flock(9</tmp/capture>, LOCK_EX|LOCK_NB) = 0",
        'openat(5</tmp/node>, "0.lock", O_RDWR|O_NONBLOCK|O_NOFOLLOW|O_CLOEXEC) = 6',
        'openat(5</proc/sys/net/ipv4/conf>, "ib0/forwarding", O_RDONLY|O_CLOEXEC) = 53',
        # malloc(3), before it gives memory back.
        'openat(AT_FDCWD</tmp>, "/proc/sys/vm/overcommit_memory", O_RDONLY|O_CLOEXEC) = 26',
        "fcntl(6</tmp/fabric>, F_OFD_SETLK, {l_type=F_RDLCK, l_whence=SEEK_SET}) = 0",
        "sendmsg(7<socket:[1]>, {msg_name=NULL}, MSG_DONTWAIT|MSG_NOSIGNAL) = 300",
        'recvfrom(8<socket:[1]>, "", 1, 0, NULL, NULL) = 0',
        "poll([{fd=7<anon_inode:[eventfd]>, events=POLLIN}], 1, 0) = 0 (Timeout)",
        "futex(0x7f, FUTEX_WAIT, 1, {tv_sec=0, tv_nsec=4999000}) = -1 ETIMEDOUT (Connection timed out)",
        "futex(0x7f, FUTEX_WAIT_PRIVATE, 2, NULL) = 0",
        'write(6</tmp/right.log>, "x", 1) = 1',
        "epoll_wait(4<anon_inode:[eventpoll]>, [], 64, -1) = 0",
        "--- SIGCHLD {si_signo=SIGCHLD} ---",
    )

    def test_lines_that_block(self):
        for line in self.BLOCKING:
            self.assertTrue(can_block(line, {8}.__contains__), line)

    def test_lines_that_are_harmless(self):
        for line in self.HARMLESS:
            self.assertFalse(can_block(line, {8}.__contains__), line)


if __name__ == "__main__":
    hosts.main()
