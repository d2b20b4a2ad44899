#include "daemon/process/sandbox.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <spdlog/sinks/ostream_sink.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>

#include "ipoib/log.hpp"
#include "tests/support/emulator.hpp"

namespace ipoib::daemon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Runs `body` in a child process, since filters stay for good. Returns what `body` wrote.
std::string in_child(const std::function<void(std::ostream&)>& body) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::ostringstream text;
    body(text);
    const std::string all = text.str();
    ::_exit(::write(ends[1], all.data(), all.size()) == static_cast<ssize_t>(all.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 4096> chunk{};
  for (ssize_t n = 0; (n = ::read(ends[0], chunk.data(), chunk.size())) > 0;) {
    text.append(chunk.data(), static_cast<std::size_t>(n));
  }
  ::close(ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return text;
}

/// 0, or the error number of a call.
int error_of(long result) { return result < 0 ? errno : 0; }

class SandboxTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SKIP_UNDER_EMULATOR("has no seccomp");
    if (const auto why = obstacle_to_sandbox()) GTEST_SKIP() << *why;
  }
  /// Runs `body` within a sandbox; returns what it wrote, and the log.
  static std::string within(SandboxMode mode, const std::function<void(std::ostream&)>& body) {
    return in_child([&](std::ostream& out) {
      auto log =
          std::make_shared<Logger>("daemon", std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
      log->set_pattern("%v");
      std::ostringstream own;
      {
        const Sandbox sandbox(mode, log);
        body(own);
      }
      out << own.str();
    });
  }
};

TEST_F(SandboxTest, RefusesACallAndLogsItsNameOnce) {
  const auto text = within(SandboxMode::on, [](std::ostream& out) {
    for (int i = 0; i < 3; ++i) out << error_of(::ptrace(PTRACE_TRACEME, 0, 0, 0)) << ' ';
    char* none = nullptr;
    out << error_of(::execve("/bin/true", &none, &none)) << ' ';
  });
  EXPECT_THAT(text, HasSubstr("1 1 1 1 ")) << "EPERM";
  EXPECT_THAT(text, HasSubstr("refused the system call ptrace (101)"));
  EXPECT_THAT(text, HasSubstr("refused the system call execve"));
  EXPECT_EQ(text.find("ptrace", text.find("ptrace") + 1), std::string::npos) << text;
}

/// A program that does not expect it may crash then.
TEST_F(SandboxTest, ARefusedCallIsInTheLogWhenItReturns) {
  const auto text = in_child([](std::ostream& out) {
    auto log = std::make_shared<Logger>(
        "daemon", std::make_shared<spdlog::sinks::ostream_sink_mt>(out, true));
    const Sandbox sandbox(SandboxMode::on, log);
    (void)::ptrace(PTRACE_TRACEME, 0, 0, 0);
    out << "after";
  });
  EXPECT_LT(text.find("ptrace"), text.find("after"));
}

TEST_F(SandboxTest, LeavesTheSignalsOfItsThreadAsTheyWere) {
  const auto text = within(SandboxMode::on, [](std::ostream& out) {
    sigset_t blocked;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    out << sigismember(&blocked, SIGTERM) << sigismember(&blocked, SIGCHLD);
  });
  EXPECT_EQ(text, "00");
}

TEST_F(SandboxTest, RestrictsArguments) {
  const auto text = within(SandboxMode::on, [](std::ostream& out) {
    out << "raw " << error_of(::socket(AF_INET, SOCK_RAW, 1)) << '\n'
        << "packet " << error_of(::socket(AF_PACKET, SOCK_DGRAM, 0)) << '\n'
        << "unix " << error_of(::socket(AF_UNIX, SOCK_STREAM, 0)) << '\n'
        << "wx "
        << (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0) == MAP_FAILED)
        << '\n'
        << "dumpable " << error_of(::prctl(PR_SET_DUMPABLE, 1)) << '\n'
        << "fork " << error_of(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)) << '\n'
        << "namespace " << error_of(::setns(-1, CLONE_NEWNS)) << '\n'
        << "kill " << error_of(::syscall(SYS_tgkill, 1, 1, 0)) << '\n';
  });
  for (const char* const line : {"raw 1\n", "packet 1\n", "unix 0\n", "wx 1\n", "dumpable 1\n",
                                 "fork 1\n", "namespace 1\n", "kill 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST_F(SandboxTest, HoldsForThreadsThatRunAlready) {
  const auto text = within(SandboxMode::off, [](std::ostream& out) {
    std::array<int, 2> ends{};
    (void)!::pipe(ends.data());
    int error = -1;
    std::thread before([&] {
      char byte = 0;
      (void)!::read(ends[0], &byte, 1);
      error = error_of(::ptrace(PTRACE_TRACEME, 0, 0, 0));
    });
    auto log = std::make_shared<Logger>("daemon");
    const Sandbox sandbox(SandboxMode::on, log);
    (void)!::write(ends[1], "x", 1);
    before.join();
    out << "before " << error << '\n';
  });
  EXPECT_THAT(text, HasSubstr("before 1\n"));
}

TEST_F(SandboxTest, ThreadsCanBeStarted) {
  const auto text = within(
      SandboxMode::on, [](std::ostream& out) { std::thread([&] { out << "started"; }).join(); });
  EXPECT_EQ(text, "started");
}

TEST_F(SandboxTest, AnInterfaceThreadHasFewFiles) {
  for (const auto kind : {CallUsers::subnet, CallUsers::kernel}) {
    const auto text = within(SandboxMode::on, [&](std::ostream& out) {
      std::thread([&] {
        enter_interface_sandbox(SandboxMode::on, kind);
        out << "read " << error_of(::open("/etc/passwd", O_RDONLY)) << '\n'
            << "write " << error_of(::open("/dev/null", O_WRONLY)) << '\n'
            << "create " << error_of(::open("/tmp/sandbox", O_WRONLY | O_CREAT, 0600)) << '\n'
            << "unix " << error_of(::socket(AF_UNIX, SOCK_STREAM, 0)) << '\n'
            << "netlink " << error_of(::socket(AF_NETLINK, SOCK_RAW, 0)) << '\n';
      }).join();
      out << "outside " << error_of(::open("/etc/passwd", O_RDONLY)) << '\n';
    });
    // An emulated HCA has files, and libibverbs reads those of the kernel.
    EXPECT_THAT(text, HasSubstr("read 0\n"));
    EXPECT_THAT(text, HasSubstr(kind == CallUsers::subnet ? "write 0\n" : "write 1\n"));
    EXPECT_THAT(text, HasSubstr("create 1\n"));
    EXPECT_THAT(text, HasSubstr("unix 0\n"));
    EXPECT_THAT(text, HasSubstr(kind == CallUsers::kernel ? "netlink 0\n" : "netlink 1\n"));
    EXPECT_THAT(text, HasSubstr("outside 0\n"));
  }
}

TEST_F(SandboxTest, LogPermitsAndOffHasNoFilter) {
  for (const auto mode : {SandboxMode::log, SandboxMode::off}) {
    const auto text = within(mode, [](std::ostream& out) {
      out << "error " << error_of(::ptrace(PTRACE_TRACEME, 0, 0, 0)) << '\n';
      std::ifstream status("/proc/self/status");
      out << std::string(std::istreambuf_iterator<char>(status), {});
    });
    EXPECT_THAT(text, HasSubstr("error 0\n"));
    EXPECT_THAT(text, HasSubstr(mode == SandboxMode::off ? "Seccomp:\t0" : "Seccomp:\t2"));
    EXPECT_THAT(text, Not(HasSubstr("refused")));
  }
}

/// docs/security.md has a table with a row for each group.
TEST(PermittedCalls, AreThoseOfTheDocument) {
  std::ifstream file(IPOIB_SECURITY_DOCUMENT);
  const std::string document{std::istreambuf_iterator<char>(file), {}};
  for (const auto& group : permitted_calls()) {
    std::string row = std::string("| ") + group.purpose + " | ";
    for (const char* const call : group.calls) {
      row += std::string(call == group.calls.front() ? "" : ", ") + "`" + call + "`";
    }
    const char* const users = group.users == CallUsers::all      ? "all threads"
                              : group.users == CallUsers::subnet ? "on an emulated subnet all"
                              : group.users == CallUsers::kernel ? "on devices of the kernel all"
                                                                 : "control thread";
    row += std::string(" | ") + users + " |\n";
    EXPECT_THAT(document, HasSubstr(row));
  }
}

}  // namespace
}  // namespace ipoib::daemon
