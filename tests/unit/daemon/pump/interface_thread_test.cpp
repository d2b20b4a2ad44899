#include "daemon/pump/interface_thread.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <stdexcept>

namespace ipoib::daemon {
namespace {

/// Reads until Stop, like InterfaceLoop.
void read_until_stop(InterfaceMailbox& inbox) {
  std::vector<ToInterface> messages;
  for (;;) {
    pollfd readable{inbox.descriptor(), POLLIN, 0};
    (void)::poll(&readable, 1, -1);
    inbox.drain(messages);
    for (const auto& message : messages) {
      if (std::holds_alternative<Stop>(message)) return;
    }
  }
}

TEST(InterfaceThreadTest, IsStoppedAndJoinedWhenTheControlThreadFails) {
  InterfaceMailbox inbox(1);
  bool ended = false;
  const auto control_thread_fails = [&] {
    const InterfaceThread thread(
        [&] {
          read_until_stop(inbox);
          ended = true;
        },
        inbox);
    throw std::runtime_error("the control thread has failed");
  };
  EXPECT_THROW(control_thread_fails(), std::runtime_error);
  EXPECT_TRUE(ended);
}

TEST(InterfaceThreadTest, IsJoinedIfItsFullMailboxIsNotRead) {
  InterfaceMailbox inbox(1);
  ASSERT_TRUE(inbox.post(ClientReregister{}));
  {
    const InterfaceThread thread([] {}, inbox);
  }
  EXPECT_FALSE(inbox.post(Stop{})) << "the mailbox is still full";
}

}  // namespace
}  // namespace ipoib::daemon
