#include "program/progress.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <unistd.h>

#include <array>
#include <string>

#include "ipoib/file_descriptor.hpp"

namespace ipoib::program {
namespace {

/// Standard error is a terminal during a test.
class OnATerminal : public testing::Test {
 protected:
  void SetUp() override {
    int master = -1;
    int terminal = -1;
    ASSERT_EQ(::openpty(&master, &terminal, nullptr, nullptr, nullptr), 0);
    master_.reset(master);
    terminal_.reset(terminal);
    saved_.reset(::dup(STDERR_FILENO));
    ::dup2(terminal, STDERR_FILENO);
  }
  void TearDown() override { ::dup2(saved_.get(), STDERR_FILENO); }

  /// What was printed until the text has appeared; or, after the patience, all of it.
  std::string until(const std::string& text, int patience_ms) {
    std::string out;
    pollfd readable{master_.get(), POLLIN, 0};
    while (out.find(text) == std::string::npos && ::poll(&readable, 1, patience_ms) == 1) {
      std::array<char, 256> part;
      const auto size = ::read(master_.get(), part.data(), part.size());
      if (size <= 0) break;
      out.append(part.data(), static_cast<std::size_t>(size));
    }
    return out;
  }

 private:
  FileDescriptor master_;
  FileDescriptor terminal_;
  FileDescriptor saved_;
};

constexpr int kPatience = 20'000;

TEST_F(OnATerminal, ABlockingCallIsShownAfterASecondAndRemovedAtItsEnd) {
  {
    const BlockingProgress progress("waiting for ib0");
    EXPECT_TRUE(until(" s\033[K", kPatience).starts_with("\rwaiting for ib0, "));
  }
  EXPECT_TRUE(until("\r\033[K", kPatience).ends_with("\r\033[K"));
}

TEST_F(OnATerminal, OfNestedCallsTheOuterOneIsShown) {
  {
    const BlockingProgress outer("collecting the report");
    const BlockingProgress inner("waiting for ib0");
    EXPECT_EQ(until(", 2 s", kPatience).find("waiting"), std::string::npos);
  }
  const BlockingProgress next("waiting for ib0");
  EXPECT_NE(until("waiting for ib0, 1 s", kPatience).find("waiting"), std::string::npos);
}

TEST_F(OnATerminal, ACallThatReturnsSoonIsNotShown) {
  { const BlockingProgress progress("waiting for ib0"); }
  EXPECT_EQ(until("waiting", 0), "");
}

}  // namespace
}  // namespace ipoib::program
