// The permitted calls, as measured with strace(1) over all tests, by what they are needed for.
// Other versions of the C library use other variants of a call.
#include <array>

#include "daemon/process/sandbox.hpp"

namespace ipoib::daemon {

using enum CallUsers;

std::span<const CallGroup> permitted_calls() {
  static const std::array groups{
      CallGroup{all,
                "packets and messages through open descriptors",
                {"read", "write", "readv", "writev", "sendto", "sendmsg", "recvfrom", "recvmsg",
                 "close", "fcntl", "fstat", "newfstatat", "ioctl"}},
      CallGroup{all,
                "waiting",
                {"epoll_wait", "epoll_pwait", "epoll_pwait2", "epoll_ctl", "poll", "ppoll", "futex",
                 "sched_yield", "clock_gettime", "clock_nanosleep", "restart_syscall"}},
      CallGroup{all, "memory", {"brk", "mmap", "munmap", "mremap", "mprotect", "madvise"}},
      CallGroup{all,
                "signals, crashes and the end of a thread",
                {"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "getpid",
                 "gettid", "tgkill", "pause", "exit", "exit_group"}},
      CallGroup{all,
                "a queue pair that is created again",
                {"eventfd2", "getrandom", "set_robust_list", "rseq"}},
      CallGroup{all, "the system log, which may have been restarted", {"socket", "connect"}},
      CallGroup{all, "fewer privileges", {"seccomp", "prctl", "capget", "capset"}},
      CallGroup{
          subnet,
          "rings, connections and memory regions of an emulated subnet, captures, and the UDP "
          "sockets of an emulated RoCE port",
          {"memfd_create", "socketpair", "bind", "ftruncate", "getsockopt", "setsockopt",
           "timerfd_settime", "openat", "pread64", "readlink", "readlinkat", "unlinkat",
           "prlimit64", "flock", "rt_sigpending", "rt_sigtimedwait", "msync"}},
      CallGroup{subnet, "threads, for faulty links of an emulated subnet", {"clone"}},
      CallGroup{control_thread, "threads", {"sched_getaffinity", "sched_setaffinity"}},
      CallGroup{kernel,
                "files of the kernel, and MAC addresses on RoCE, which libibverbs looks up",
                {"openat", "readlink", "readlinkat", "access", "faccessat", "getdents64", "lseek",
                 "bind", "getsockname", "getsockopt", "setsockopt", "timerfd_create",
                 "timerfd_settime", "select", "pselect6"}},
      CallGroup{control_thread,
                "timers, signals and events",
                {"epoll_create1", "timerfd_create", "pipe2", "preadv2"}},
      CallGroup{control_thread,
                "control sockets, netlink, and the processes of an emulated subnet",
                {"bind", "listen", "accept", "accept4", "getsockname", "shutdown"}},
      CallGroup{control_thread,
                "devices, settings below /proc/sys/net, locks, and folders of sockets",
                {"stat",       "statx",  "access",  "faccessat", "faccessat2", "readlinkat",
                 "getdents64", "lseek",  "pread64", "pwrite64",  "mkdir",      "mkdirat",
                 "mknodat",    "unlink", "rmdir",   "chmod",     "fchmod",     "fchmodat",
                 "fchownat",   "getcwd", "dup",     "flock",     "unlinkat",   "wait4"}},
      CallGroup{control_thread, "network namespaces, not other ones", {"setns"}},
      CallGroup{
          control_thread, "whose files these are", {"getuid", "geteuid", "getgid", "getegid"}},
  };
  return groups;
}

}  // namespace ipoib::daemon
