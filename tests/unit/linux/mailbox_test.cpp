#include "linux/mailbox.hpp"

#include <gmock/gmock.h>
#include <poll.h>

#include <memory>
#include <thread>

namespace ipoib::linux {
namespace {

using ::testing::ElementsAre;

bool is_readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

TEST(MailboxTest, DrainsInOrderAndIsReadableWhileNotEmpty) {
  Mailbox<int> box(8);
  std::vector<int> out{99};
  EXPECT_FALSE(is_readable(box.descriptor()));
  EXPECT_TRUE(box.post(1));
  EXPECT_TRUE(box.post(2));
  EXPECT_TRUE(is_readable(box.descriptor()));
  box.drain(out);
  EXPECT_THAT(out, ElementsAre(1, 2));
  EXPECT_FALSE(is_readable(box.descriptor()));
  EXPECT_TRUE(box.post(3));
  EXPECT_TRUE(is_readable(box.descriptor()));
}

TEST(MailboxTest, KnowsWithoutASystemCallWhetherMessagesWait) {
  Mailbox<int> box(8);
  std::vector<int> out;
  EXPECT_FALSE(box.has_messages());
  EXPECT_TRUE(box.post(1));
  EXPECT_TRUE(box.has_messages());
  box.drain(out);
  EXPECT_FALSE(box.has_messages());
}

TEST(MailboxTest, LeavesMessageToTheCallerWhenFull) {
  Mailbox<std::unique_ptr<int>> box(1);
  EXPECT_TRUE(box.post(std::make_unique<int>(1)));
  auto second = std::make_unique<int>(2);
  EXPECT_FALSE(box.post(std::move(second)));
  EXPECT_NE(second, nullptr);
  std::vector<std::unique_ptr<int>> out;
  box.drain(out);
  EXPECT_TRUE(box.post(std::move(second)));
}

TEST(MailboxTest, LosesNoMessageBetweenThreads) {
  constexpr int kMessages = 20'000;
  Mailbox<int> box(64);
  std::thread sender([&] {
    for (int i = 0; i < kMessages; ++i) {
      while (!box.post(int{i})) std::this_thread::yield();
    }
  });
  int next = 0;
  std::vector<int> out;
  while (next < kMessages) {
    pollfd entry{box.descriptor(), POLLIN, 0};
    ASSERT_EQ(poll(&entry, 1, 10'000), 1) << "a wake-up was lost after " << next;
    box.drain(out);
    for (const int value : out) ASSERT_EQ(value, next++);
  }
  sender.join();
}

}  // namespace
}  // namespace ipoib::linux
