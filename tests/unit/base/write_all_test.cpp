#include "ipoib/write_all.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <span>
#include <string>

#include "ipoib/file_descriptor.hpp"

namespace ipoib {
namespace {

Written write_text(int file, const std::string& text) {
  return write_all(file, std::as_bytes(std::span(text)));
}

bool is_pending(int signal) {
  sigset_t pending;
  ::sigpending(&pending);
  return ::sigismember(&pending, signal) == 1;
}

/// A pipe, as the output of a program that another one reads.
struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) return;
    reader.reset(ends[0]);
    writer.reset(ends[1]);
  }
  FileDescriptor reader, writer;
};

TEST(WriteAll, WritesEverything) {
  const Pipe pipe;
  const auto written = write_text(pipe.writer.get(), "text");
  EXPECT_EQ(written.bytes, 4U);
  EXPECT_EQ(written.code, 0);
  std::array<char, 8> read{};
  EXPECT_EQ(::read(pipe.reader.get(), read.data(), read.size()), 4);
  EXPECT_STREQ(read.data(), "text");
}

TEST(WriteAll, AStreamWithoutAReaderIsAnError) {
  Pipe pipe;
  pipe.reader.reset();
  EXPECT_EQ(write_text(pipe.writer.get(), "text").code, EPIPE);
  EXPECT_FALSE(is_pending(SIGPIPE));
}

/// What fits is written, and said.
TEST(WriteAll, AFileThatMayNotGrowIsAnError) {
  std::string path = ::testing::TempDir() + "write-all-XXXXXX";
  const FileDescriptor file(::mkstemp(path.data()));
  ASSERT_TRUE(file);
  ::unlink(path.c_str());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{10, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto written = write_text(file.get(), std::string(11, 'x'));
  const int grown = set_file_size(file.get(), 11);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(written.bytes, 10U);
  EXPECT_EQ(written.code, EFBIG);
  EXPECT_EQ(grown, EFBIG);
  EXPECT_FALSE(is_pending(SIGXFSZ));
}

TEST(WriteAll, LeavesTheSignalMaskAsItWas) {
  sigset_t blocked, before, after;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const Pipe pipe;
  EXPECT_EQ(write_text(pipe.writer.get(), "text").code, 0);
  ::pthread_sigmask(SIG_SETMASK, &before, &after);
  EXPECT_EQ(::sigismember(&after, SIGUSR1), 1);
  EXPECT_EQ(::sigismember(&after, SIGPIPE), 0);
}

/// A signal that somebody else has sent stays.
TEST(WriteAll, LeavesASignalThatWasPending) {
  sigset_t blocked, before;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  ::raise(SIGPIPE);
  Pipe pipe;
  pipe.reader.reset();
  EXPECT_EQ(write_text(pipe.writer.get(), "text").code, EPIPE);
  EXPECT_TRUE(is_pending(SIGPIPE));
  int taken = 0;
  ::sigwait(&blocked, &taken);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace ipoib
