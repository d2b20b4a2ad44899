#include "ipoib/crash_dump.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>

#include "ipoib/signal_safe_text.hpp"
#include "tests/support/emulator.hpp"

namespace ipoib {
namespace {

struct Death {
  int status = 0;
  std::string text;  ///< what the dump wrote
};

enum class Channel { pipe, socket };

/// Runs `crash` in a child process with one trace record, and waits until it ends.
Death death_by(const std::function<void()>& crash, Channel channel = Channel::pipe) {
  std::array<int, 2> ends{};
  EXPECT_EQ(channel == Channel::pipe ? pipe(ends.data())
                                     : socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()),
            0);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    close(STDERR_FILENO);  // suppresses a sanitizer's report of the expected crash
    TraceRings rings;
    rings.add("ib0").record("last_words", TimePoint(std::chrono::seconds(3)), 4, 5);
    const CrashDump dump(rings, ends[1]);
    crash();
    _exit(0);
  }
  close(ends[1]);
  Death death;
  std::array<char, 256> buffer{};
  for (ssize_t n = 0; (n = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    death.text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  close(ends[0]);
  EXPECT_EQ(waitpid(child, &death.status, 0), child);
  return death;
}

constexpr const char* kRecord = "trace ib0 3.000000000 last_words 0x4 0x5\n";

TEST(CrashDump, WritesTheTraceOnAbort) {
  SKIP_UNDER_EMULATOR("writes a line of its own");
  for (const auto channel : {Channel::pipe, Channel::socket}) {
    const Death death = death_by([] { std::abort(); }, channel);
    EXPECT_EQ(death.text, kRecord);
    ASSERT_TRUE(WIFSIGNALED(death.status));
    EXPECT_EQ(WTERMSIG(death.status), SIGABRT);
  }
}

TEST(SignalSafeText, AReaderThatHasGoneIsNoSignal) {
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  close(ends[0]);
  SignalSafeText(ends[1]) << "text";
  close(ends[1]);
}

TEST(CrashDump, WritesTheTraceOnAFault) {
  const Death death = death_by([] {
    void* const page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *static_cast<volatile char*>(page) = 1;
  });
  EXPECT_THAT(death.text, ::testing::HasSubstr(kRecord)) << "a sanitizer may write, too";
  // Ended by the signal, or by a sanitizer that has reported it.
  EXPECT_TRUE(WIFSIGNALED(death.status) ? WTERMSIG(death.status) == SIGSEGV
                                        : WEXITSTATUS(death.status) != 0);
}

TEST(CrashDump, RaisesASentSignalAgain) {
  SKIP_UNDER_EMULATOR("writes a line of its own");
  const Death death = death_by([] { kill(getpid(), SIGILL); });
  EXPECT_EQ(death.text, kRecord);
  EXPECT_TRUE(WIFSIGNALED(death.status) ? WTERMSIG(death.status) == SIGILL
                                        : WEXITSTATUS(death.status) != 0);
}

/// Without a limit the child would never end: this process has both ends of the channel, and does
/// not read.
void expect_death_without_reader(const std::array<int, 2>& ends) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    alarm(60);
    close(STDERR_FILENO);
    TraceRings rings;
    auto& ring = rings.add("ib0");
    for (std::uint64_t i = 0; i < TraceRing::kRecords; ++i) {
      ring.record("last_words", TimePoint(std::chrono::seconds(3)), i, i);
    }
    const CrashDump dump(rings, ends[1]);
    std::abort();
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGABRT);
  for (const int end : ends) close(end);
}

TEST(CrashDump, EndsAlthoughNobodyReadsThePipe) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  // The rings' text has to exceed what the pipe holds.
  ASSERT_GE(fcntl(ends[1], F_SETPIPE_SZ, 4096), 0);
  expect_death_without_reader(ends);
}

TEST(CrashDump, EndsAlthoughNobodyReadsTheSocket) {
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  const int bytes = 4096;
  ASSERT_EQ(setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
  expect_death_without_reader(ends);
}

TEST(CrashDump, LeavesThePipeInItsMode) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const TraceRings rings;
  const CrashDump dump(rings, ends[1]);
  EXPECT_EQ(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
  for (const int end : ends) close(end);
}

TEST(CrashDump, RestoresTheSignalActions) {
  struct sigaction before {};
  struct sigaction after {};
  sigaction(SIGBUS, nullptr, &before);
  {
    const TraceRings rings;
    const CrashDump dump(rings, -1);
    struct sigaction within {};
    sigaction(SIGBUS, nullptr, &within);
    EXPECT_NE(within.sa_sigaction, before.sa_sigaction);
  }
  sigaction(SIGBUS, nullptr, &after);
  EXPECT_EQ(after.sa_sigaction, before.sa_sigaction);
}

}  // namespace
}  // namespace ipoib
