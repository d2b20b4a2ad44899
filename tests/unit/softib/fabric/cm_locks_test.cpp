#include "softib/fabric/cm_locks.hpp"

#include <gtest/gtest.h>

#include "softib/fabric/file_lock.hpp"
#include "softib/fabric/shared_file.hpp"
#include "temporary_folder.hpp"

namespace softib::fabric {
namespace {

using ipoib::wire::ServiceId;

class CmLocks : public ::testing::Test {
 protected:
  CmLocks() {
    EXPECT_TRUE(folder_.create());
    EXPECT_TRUE(folder_.create_node(1));
  }
  [[nodiscard]] ipoib::FileDescriptor open(const char* name) const {
    return open_shared(folder_.open_node(1)->get(), name, IfMissing::create).value();
  }

  const test::TemporaryFolder root_;
  const SubnetFolder folder_{root_.path() + "/default"};
};

TEST_F(CmLocks, TheLastMemberOfAGroup) {
  const Gid mgid(0xff12'4001'ffff'0000, Guid(7));
  EXPECT_FALSE(has_member(folder_, 1, mgid, 1));
  const auto one = open(kGroupsName);
  const auto other = open(kGroupsName);
  EXPECT_TRUE(lock_group(one.get(), mgid, 1) && lock_group(other.get(), mgid, 1));
  EXPECT_FALSE(unlock_group(one.get(), mgid, 1));
  EXPECT_TRUE(has_member(folder_, 1, mgid, 1));
  EXPECT_FALSE(has_member(folder_, 1, mgid, 8)) << "another join state";
  EXPECT_TRUE(unlock_group(other.get(), mgid, 1));
  EXPECT_FALSE(has_member(folder_, 1, mgid, 1));
}

TEST_F(CmLocks, AServiceHasListenersWhileAProcessHoldsItsLock) {
  constexpr ServiceId kLargest{~std::uint64_t{0}};
  for (const ServiceId service : {ServiceId(0), ServiceId(0x0106'1234), kLargest}) {
    EXPECT_FALSE(has_listener(folder_, 1, service));
    auto one = open(kServicesName);
    auto other = open(kServicesName);
    ASSERT_TRUE(lock_service(one.get(), service));
    ASSERT_TRUE(lock_service(other.get(), service)) << "several processes may listen";
    EXPECT_TRUE(has_listener(folder_, 1, service));
    EXPECT_FALSE(has_listener(folder_, 2, service));
    EXPECT_FALSE(has_listener(folder_, 1, ServiceId(service.value() ^ 1)));
    unlock_service(one.get(), service);
    EXPECT_TRUE(has_listener(folder_, 1, service));
    other.reset();
    EXPECT_FALSE(has_listener(folder_, 1, service));
  }
}

TEST_F(CmLocks, AnAgentOfClass7TakesSend) {
  EXPECT_FALSE(has_cm_agent(folder_, 1));
  const auto agents = open(kAgentsName);
  ASSERT_TRUE(try_lock(agents.get(), agent_lock_offset(1, 7, 3)));
  ASSERT_TRUE(try_lock(agents.get(), agent_lock_offset(2, 7, 1)));
  EXPECT_FALSE(has_cm_agent(folder_, 1));
  ASSERT_TRUE(try_lock(agents.get(), agent_lock_offset(2, 7, 3)));
  EXPECT_TRUE(has_cm_agent(folder_, 1));
}

}  // namespace
}  // namespace softib::fabric
