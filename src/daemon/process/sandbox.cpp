#include "daemon/process/sandbox.hpp"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/netlink.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/ib_user_mad.h>
#include <rdma/rdma_user_ioctl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "ipoib/log.hpp"

namespace ipoib::daemon {

namespace {

using Conditions = std::vector<scmp_arg_cmp>;

constexpr int kHighestCall = 1023;

// Elsewhere refused calls are not logged: set_result() does not know the register.
#if defined(__x86_64__) || defined(__aarch64__)
constexpr std::uint32_t kRefuse = SCMP_ACT_TRAP;
#else
constexpr std::uint32_t kRefuse = SCMP_ACT_ERRNO(EPERM);
#endif

/// What the signal handler passes on. Less than PIPE_BUF, so it is written as a whole.
struct Refusal {
  int call;
  std::array<char, 16> thread;
};

/// How long a refused call is delayed at most, once, so that it is in the log before the program
/// crashes because of it.
constexpr int kLogPatience = 100;  // milliseconds

// A signal handler has no context argument.
std::atomic<int> g_refusals{-1};
std::atomic<int> g_logged{0};
std::array<std::atomic<bool>, kHighestCall + 1> g_is_known{};

scmp_arg_cmp equals(unsigned argument, std::uint64_t value) {
  return {argument, SCMP_CMP_MASKED_EQ, 0xffffffff, value & 0xffffffff};
}
scmp_arg_cmp masked(unsigned argument, std::uint64_t mask, std::uint64_t value) {
  return {argument, SCMP_CMP_MASKED_EQ, mask, value};
}

std::vector<Conditions> one_of(unsigned argument, std::initializer_list<std::uint64_t> values) {
  std::vector<Conditions> out;
  for (const auto value : values) out.push_back({equals(argument, value)});
  return out;
}

/// No memory is writable and executable at once.
std::vector<Conditions> never_writable_and_executable() {
  return {{masked(2, PROT_EXEC, 0)}, {masked(2, PROT_EXEC | PROT_WRITE, PROT_EXEC)}};
}

std::vector<Conditions> known_sockets(CallUsers thread) {
  constexpr std::uint64_t kType = 0xf;
  std::vector<Conditions> out{{equals(0, AF_UNIX)}};
  const bool is_of_host = thread == CallUsers::control_thread || thread == CallUsers::kernel;
  if (is_of_host) {
    for (const int protocol : {NETLINK_ROUTE, NETLINK_RDMA}) {
      out.push_back({equals(0, AF_NETLINK), equals(2, static_cast<unsigned>(protocol))});
    }
  }
  if (is_of_host || thread == CallUsers::subnet) {
    for (const std::uint64_t family : {AF_INET, AF_INET6}) {
      out.push_back({equals(0, family), masked(1, kType, SOCK_DGRAM)});
    }
  }
  return out;
}

std::vector<Conditions> known_ioctls() {
  return one_of(1, {TUNSETIFF,
                    TUNSETPERSIST,
                    TUNSETLINK,
                    TUNSETCARRIER,
                    TUNSETVNETHDRSZ,
                    TUNSETOFFLOAD,
                    TUNGETIFF,
                    TUNGETDEVNETNS,
                    SIOCGIFINDEX,
                    SIOCGIFNAME,
                    SIOCGIFHWADDR,
                    SIOCSIFHWADDR,
                    SIOCGIFFLAGS,
                    SIOCSIFFLAGS,
                    SIOCGIFMTU,
                    SIOCSIFMTU,
                    SIOCETHTOOL,
                    FIONBIO,
                    FIONREAD,
                    TCGETS,
                    RDMA_VERBS_IOCTL,
                    IB_USER_MAD_REGISTER_AGENT,
                    IB_USER_MAD_REGISTER_AGENT2,
                    IB_USER_MAD_UNREGISTER_AGENT,
                    IB_USER_MAD_ENABLE_PKEY});
}

std::vector<Conditions> threads_only() {
  constexpr std::uint64_t kThread = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD;
  constexpr std::uint64_t kNever = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                   CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
  return {{masked(0, kThread | kNever, kThread)}};
}

/// The conditions of a call, of which one has to hold; empty: none.
std::vector<Conditions> conditions_of(std::string_view call, CallUsers thread) {
  if (call == "ioctl") return known_ioctls();
  if (call == "socket") return known_sockets(thread);
  if (call == "socketpair") return one_of(0, {AF_UNIX});
  if (call == "clone") return threads_only();
  if (call == "mmap" || call == "mprotect") return never_writable_and_executable();
  if (call == "setns") return one_of(1, {CLONE_NEWNET});
  if (call == "prctl") {
    return one_of(0,
                  {PR_SET_NAME, PR_GET_NAME, PR_CAPBSET_READ, PR_CAP_AMBIENT, PR_SET_NO_NEW_PRIVS});
  }
  // The process may read its own limits.
  if (call == "prlimit64") return {{equals(0, 0), masked(2, ~std::uint64_t{0}, 0)}};
  // The C library implements fstat() by this call; with a path, it would tell about files.
  const bool has_files = thread == CallUsers::control_thread || thread == CallUsers::kernel;
  if (call == "newfstatat" && !has_files) return {{masked(3, AT_EMPTY_PATH, AT_EMPTY_PATH)}};
  if (call == "openat" && thread == CallUsers::subnet) return {{masked(2, O_CREAT | O_TRUNC, 0)}};
  if (call == "openat" && thread == CallUsers::kernel) {
    return {{masked(2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY)}};
  }
  // A thread may signal threads of this process only.
  if (call == "tgkill") return one_of(0, {static_cast<std::uint64_t>(::getpid())});
  return {};
}

void check(int result, const std::string& what) {
  if (result == 0) return;
  throw std::runtime_error("no filter of system calls, " + what + ": " + std::strerror(-result) +
                           "; the daemon works without: --sandbox=off");
}

class Filter {
 public:
  explicit Filter(SandboxMode mode)
      : context_(seccomp_init(mode == SandboxMode::log ? SCMP_ACT_LOG : kRefuse)) {
    if (context_ == nullptr) check(-ENOMEM, "seccomp_init");
    check(seccomp_attr_set(context_, SCMP_FLTATR_CTL_NNP, 1), "no_new_privs");
    // The filter is a tree, which is faster than a list. It protects the kernel, not secrets of
    // this process, so it needs no protection against speculation.
    (void)seccomp_attr_set(context_, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    (void)seccomp_attr_set(context_, SCMP_FLTATR_CTL_SSB, 1);
    // Its flags are in memory, where no filter sees them: the C library uses clone() instead.
    check(seccomp_rule_add(context_, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0), "clone3");
  }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;
  ~Filter() { seccomp_release(context_); }

  void permit(const char* call, CallUsers thread) {
    const int number = seccomp_syscall_resolve_name(call);
    if (number < 0) return;  // not on this architecture
    const auto all = conditions_of(call, thread);
    if (all.empty()) add(call, number, {});
    for (const auto& conditions : all) add(call, number, conditions);
  }
  void for_all_threads() { check(seccomp_attr_set(context_, SCMP_FLTATR_CTL_TSYNC, 1), "TSYNC"); }
  void load() const { check(seccomp_load(context_), "seccomp_load"); }

 private:
  void add(const char* call, int number, const Conditions& conditions) {
    check(seccomp_rule_add_array(context_, SCMP_ACT_ALLOW, number,
                                 static_cast<unsigned>(conditions.size()), conditions.data()),
          call);
  }

  scmp_filter_ctx context_;
};

/// Makes the refused call return EPERM.
void set_result(ucontext_t& context) {
#if defined(__x86_64__)
  context.uc_mcontext.gregs[REG_RAX] = -EPERM;
#elif defined(__aarch64__)
  context.uc_mcontext.regs[0] = static_cast<std::uint64_t>(-EPERM);
#else
  (void)context;
#endif
}

/// Runs in the thread whose call was refused.
void on_refused(int /*number*/, siginfo_t* info, void* context) {
  constexpr int kBySeccomp = 1;  // SYS_SECCOMP of linux/signal.h
  if (info->si_code != kBySeccomp) return;
  const int call = info->si_syscall;
  set_result(*static_cast<ucontext_t*>(context));
  if (call < 0 || call > kHighestCall ||
      g_is_known[static_cast<std::size_t>(call)].exchange(true)) {
    return;
  }
  const int saved_errno = errno;
  Refusal refusal{call, {}};
  (void)::prctl(PR_GET_NAME, refusal.thread.data());
  const int before = g_logged.load();
  const bool is_passed_on = ::write(g_refusals.load(), &refusal, sizeof refusal) == sizeof refusal;
  for (int i = 0; is_passed_on && g_logged.load() == before && i < kLogPatience; ++i) {
    (void)::poll(nullptr, 0, 1);
  }
  errno = saved_errno;
}

void handle_refusals() {
  struct sigaction action {};
  action.sa_sigaction = on_refused;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  if (::sigaction(SIGSYS, &action, nullptr) != 0) check(-errno, "SIGSYS");
}

std::string name_of(int call) {
  const std::unique_ptr<char, void (*)(void*)> name(
      seccomp_syscall_resolve_num_arch(seccomp_arch_native(), call), &std::free);
  return (name ? std::string(name.get()) : "unknown") + " (" + std::to_string(call) + ")";
}

}  // namespace

std::optional<std::string> obstacle_to_sandbox() {
#ifdef IPOIB_SANITIZED
  return "the daemon was built with sanitizers";
#else
  const char* const preloaded = std::getenv("LD_PRELOAD");
  if (preloaded != nullptr && std::strstr(preloaded, "vgpreload") != nullptr) {
    return "the daemon runs under valgrind";
  }
  return std::nullopt;
#endif
}

void enter_interface_sandbox(SandboxMode mode, CallUsers kind) {
  if (mode == SandboxMode::off || obstacle_to_sandbox()) return;
  Filter filter(mode);
  for (const auto& group : permitted_calls()) {
    if (group.users != CallUsers::all && group.users != kind) continue;
    for (const char* const call : group.calls) filter.permit(call, kind);
  }
  filter.load();
}

Sandbox::Sandbox(SandboxMode mode, std::shared_ptr<Logger> log) : log_(std::move(log)) {
  if (mode == SandboxMode::off || obstacle_to_sandbox()) return;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) check(-errno, "pipe");
  FileDescriptor reader(ends[0]);
  refusals_.reset(ends[1]);
  (void)::fcntl(reader.get(), F_SETFL, 0);
  [[maybe_unused]] const int other = g_refusals.exchange(refusals_.get());
  assert(other < 0 && "one sandbox per process");
  handle_refusals();
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigdelset(&all, SIGSYS);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  reporter_ = std::thread([this, from = std::move(reader)] { report(from.get()); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  try {
    Filter filter(mode);
    filter.for_all_threads();
    for (const auto& group : permitted_calls()) {
      for (const char* const call : group.calls) filter.permit(call, CallUsers::control_thread);
    }
    filter.load();
  } catch (...) {
    end_reports();
    throw;
  }
}

Sandbox::~Sandbox() { end_reports(); }

void Sandbox::end_reports() {
  g_refusals.store(-1);
  refusals_.reset();
  if (reporter_.joinable()) reporter_.join();
}

/// Logs refusals until the other end is closed.
void Sandbox::report(int refusals) const {
  Refusal refusal{};
  while (::read(refusals, &refusal, sizeof refusal) == sizeof refusal) {
    log_->error("the sandbox has refused the system call {} of the thread {}; see --sandbox",
                name_of(refusal.call), refusal.thread.data());
    ++g_logged;
  }
}

}  // namespace ipoib::daemon
