#include "verbs/async_events.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ipoib::verbs {
namespace {

TEST(AsyncEventsTest, ClassifiesEvents) {
  EXPECT_EQ(classify(IBV_EVENT_PORT_ACTIVE), AsyncEvent::port_active);
  EXPECT_EQ(classify(IBV_EVENT_PORT_ERR), AsyncEvent::port_error);
  EXPECT_EQ(classify(IBV_EVENT_LID_CHANGE), AsyncEvent::lid_change);
  EXPECT_EQ(classify(IBV_EVENT_PKEY_CHANGE), AsyncEvent::pkey_change);
  EXPECT_EQ(classify(IBV_EVENT_GID_CHANGE), AsyncEvent::gid_change);
  EXPECT_EQ(classify(IBV_EVENT_SM_CHANGE), AsyncEvent::sm_change);
  EXPECT_EQ(classify(IBV_EVENT_CLIENT_REREGISTER), AsyncEvent::client_reregister);
  EXPECT_EQ(classify(IBV_EVENT_QP_FATAL), AsyncEvent::queue_pair_fatal);
  EXPECT_EQ(classify(IBV_EVENT_CQ_ERR), AsyncEvent::queue_pair_fatal);
  EXPECT_EQ(classify(IBV_EVENT_DEVICE_FATAL), AsyncEvent::device_fatal);
  EXPECT_EQ(classify(IBV_EVENT_SRQ_LIMIT_REACHED), AsyncEvent::other);
}

TEST(AsyncEventsTest, EachEventHasItsOwnName) {
  std::vector<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(AsyncEvent::other); ++i) {
    names.push_back(name(static_cast<AsyncEvent>(i)));
    EXPECT_FALSE(names.back().empty());
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

}  // namespace
}  // namespace ipoib::verbs
