#include "daemon/options/journal_sink.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "ipoib/log.hpp"
#include "ipoib/log_event.hpp"
#include "ipoib/unix_path.hpp"

namespace ipoib::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A socket as the journal's, in a folder of its own.
class JournalSinkTest : public testing::Test {
 protected:
  JournalSinkTest() {
    std::string name = std::filesystem::temp_directory_path() / "journal-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    listen();
    fallback_->set_pattern("%v");
  }
  ~JournalSinkTest() override { std::filesystem::remove_all(folder_); }

  void listen() {
    journal_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const auto address = UnixPath::of(path()).value();
    ASSERT_EQ(::bind(journal_.get(), address.address(), UnixPath::size()), 0);
  }
  [[nodiscard]] std::string path() const { return folder_ / "socket"; }
  /// The next datagram; empty if there is none.
  [[nodiscard]] std::string received() const {
    std::array<char, 4096> buffer{};
    const auto size = ::recv(journal_.get(), buffer.data(), buffer.size(), 0);
    return {buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
  }
  [[nodiscard]] std::vector<std::string> fields() const {
    std::istringstream in(received());
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

  std::filesystem::path folder_;
  FileDescriptor journal_;
  std::ostringstream written_;
  std::shared_ptr<spdlog::sinks::ostream_sink_mt> fallback_ =
      std::make_shared<spdlog::sinks::ostream_sink_mt>(written_);
};

TEST_F(JournalSinkTest, MessagesHaveFields) {
  const auto sink = std::make_shared<JournalSink>(fallback_, path());
  Logger log("sa", sink);
  log.warn("no response from {}", 7);
  EXPECT_THAT(fields(), ElementsAre("MESSAGE=sa: no response from 7", "PRIORITY=4",
                                    "SYSLOG_IDENTIFIER=ipoibd", "IPOIBD_MODULE=sa"));
  log.set_level(spdlog::level::trace);
  log.info("x");
  EXPECT_THAT(received(), HasSubstr("\nPRIORITY=6\n"));
  log.debug("x");
  EXPECT_THAT(received(), HasSubstr("\nPRIORITY=7\n"));
  log.error("x");
  EXPECT_THAT(received(), HasSubstr("\nPRIORITY=3\n"));
  log.critical("x");
  EXPECT_THAT(received(), HasSubstr("\nPRIORITY=2\n"));
  EXPECT_THAT(written_.str(), IsEmpty());
}

TEST_F(JournalSinkTest, EventsHaveAMessageId) {
  Logger log("link", std::make_shared<JournalSink>(fallback_, path()));
  log.log(message_id(events::kInterfaceUp), spdlog::level::info, "up as {}", "x");
  EXPECT_THAT(received(), HasSubstr("\nMESSAGE_ID=" + std::string(events::kInterfaceUp) + "\n"));
}

TEST_F(JournalSinkTest, MessagesAboutAnInterfaceNameIt) {
  JournalSink sink(fallback_, path());
  sink.log_about(spdlog::details::log_msg("link", spdlog::level::info, "up"),
                 {"ib0.8001", "0x8001"});
  EXPECT_THAT(fields(),
              ElementsAre("MESSAGE=link: ib0.8001: up", "PRIORITY=6", "SYSLOG_IDENTIFIER=ipoibd",
                          "IPOIBD_MODULE=link", "INTERFACE=ib0.8001", "PKEY=0x8001"));
}

TEST_F(JournalSinkTest, NobodyInventsFieldsWithANewline) {
  Logger log("link", std::make_shared<JournalSink>(fallback_, path()));
  log.info("a\nPRIORITY=0");
  const std::string text = "link: a\nPRIORITY=0";
  const std::string size{static_cast<char>(text.size()), 0, 0, 0, 0, 0, 0, 0};
  EXPECT_TRUE(received().starts_with("MESSAGE\n" + size + text + "\nPRIORITY=6\n"));
  log.info("{}\n", std::string(0x0101 - 7, 'x'));
  EXPECT_TRUE(received().starts_with(std::string("MESSAGE\n\x01\x01\0\0\0\0\0\0link: x", 23)));
}

TEST_F(JournalSinkTest, WhatTheJournalDoesNotTakeGoesToStandardError) {
  JournalSink sink(fallback_, path());
  const spdlog::details::log_msg message("link", spdlog::level::info, "up");
  journal_.reset();
  sink.log_about(message, {"ib0", ""});
  EXPECT_EQ(written_.str(), "ib0: up\n");
  std::filesystem::remove(path());
  sink.log(message);
  EXPECT_EQ(written_.str(), "ib0: up\nup\n");
  listen();
  sink.log(message);
  EXPECT_THAT(received(), HasSubstr("MESSAGE=link: up\n")) << "it was restarted";
  EXPECT_EQ(written_.str(), "ib0: up\nup\n");
}

/// It does not block either when nobody reads.
TEST_F(JournalSinkTest, AFullSocketBlocksNobody) {
  Logger log("link", std::make_shared<JournalSink>(fallback_, path()));
  for (int i = 0; i < 10'000 && written_.str().empty(); ++i) log.info("message");
  EXPECT_EQ(written_.str(), "message\n");
}

TEST(StandardErrorIsJournal, IfItIsTheStreamThatTheManagerNames) {
  struct stat status {};
  ASSERT_EQ(::fstat(STDERR_FILENO, &status), 0);
  const std::string own = std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
  ::setenv("JOURNAL_STREAM", own.c_str(), 1);
  EXPECT_TRUE(standard_error_is_journal());
  ::setenv("JOURNAL_STREAM", "1:1", 1);
  EXPECT_FALSE(standard_error_is_journal()) << "standard error was redirected since";
  ::unsetenv("JOURNAL_STREAM");
  EXPECT_FALSE(standard_error_is_journal());
}

}  // namespace
}  // namespace ipoib::daemon
