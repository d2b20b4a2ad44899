#include "tests/support/failing_calls.hpp"

#include <gtest/gtest.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <thread>

namespace ipoib::test {

namespace {

constexpr int kMaxCalls = 200;  ///< of an operation

/// What the process of an operation reports, in memory that it shares with the test.
struct Report {
  bool is_complete = false;
  int failed_call = -1;
  std::size_t size = 0;
  char text[4096] = {};
};

/// Decides on the calls of the thread that has installed the filter: call number `failing` fails.
void decide(int listener, int failing, int error, Report& report) {
  for (int number = 0;; ++number) {
    seccomp_notif asked{};  // the kernel wants zeros
    if (seccomp_notify_receive(listener, &asked) != 0) std::abort();
    seccomp_notif_resp answer{.id = asked.id, .val = 0, .error = 0, .flags = 0};
    if (number == failing) {
      report.failed_call = asked.data.nr;
      answer.error = -error;
    } else {
      answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    }
    if (seccomp_notify_respond(listener, &answer) != 0) std::abort();
  }
}

/// The process of the operation. The thread that decides is there before the filter, so it has
/// none.
[[noreturn]] void run(std::initializer_list<int> calls, int failing, int error,
                      const std::function<std::string()>& operation, Report& report) {
  std::atomic<int> listener = -1;
  std::thread([&] {
    listener.wait(-1);
    decide(listener, failing, error, report);
  }).detach();
  const scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  for (const int call : calls) {
    if (seccomp_rule_add(filter, SCMP_ACT_NOTIFY, call, 0) != 0) std::abort();
  }
  if (seccomp_load(filter) != 0) ::_exit(1);
  listener = seccomp_notify_fd(filter);
  listener.notify_one();
  const std::string text = operation();
  report.size = text.copy(report.text, sizeof report.text);
  report.is_complete = true;
  ::_exit(0);
}

std::string name_of(int call) {
  const std::unique_ptr<char, decltype(&std::free)> name(
      seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, call), &std::free);
  return name ? name.get() : std::to_string(call);
}

}  // namespace

std::vector<std::string> outcomes_if_each_fails(std::initializer_list<int> calls, int error,
                                                const std::function<std::string()>& operation) {
  void* const memory =
      ::mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  std::vector<std::string> outcomes;
  for (int failing = 0; failing < kMaxCalls; ++failing) {
    Report& report = *new (memory) Report;
    const pid_t child = ::fork();
    if (child == 0) run(calls, failing, error, operation, report);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (!report.is_complete && report.failed_call < 0) {
      ADD_FAILURE() << "no call could be observed; status " << status;
      break;
    }
    if (report.failed_call < 0) break;
    const std::string text = report.is_complete ? std::string(report.text, report.size)
                                                : "ended with status " + std::to_string(status);
    const std::string line = name_of(report.failed_call) + ": " + text;
    if (outcomes.empty() || outcomes.back() != line) outcomes.push_back(line);
  }
  ::munmap(memory, sizeof(Report));
  return outcomes;
}

}  // namespace ipoib::test
