#include "softib/cm/listeners.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "softib/cm/limits.hpp"

namespace softib::cm::listeners_test {
namespace {

using wire::ServiceId;

constexpr std::uint64_t kPrefix = 0xffff'ffff'ffff'0000;

class ListenersTest : public testing::Test {
 protected:
  ListenerId add(std::uint64_t service, std::uint64_t mask = Listeners::kExact,
                 std::uint8_t port = Listeners::kAnyPort) {
    return listeners.add(ServiceId(service), mask, port).value();
  }
  [[nodiscard]] int refusal(std::uint64_t service, std::uint64_t mask = Listeners::kExact,
                            std::uint8_t port = Listeners::kAnyPort) {
    const auto refused = listeners.add(ServiceId(service), mask, port);
    EXPECT_EQ(refused.error().message,
              refused.error().code == EBUSY
                  ? "another listener of the process has the service, or part of its range: choose "
                    "another port"
                  : "a process can have 4096 listeners: destroy some");
    return refused.error().code;
  }
  [[nodiscard]] std::optional<ListenerId> find(std::uint64_t service, std::uint8_t port = 1) const {
    return listeners.find(ServiceId(service), port);
  }
  Listeners listeners;
};

TEST_F(ListenersTest, FindsExactlyTheServicesThatAreListenedOn) {
  const auto one = add(0x1061234);
  const auto two = add(0x1061235);
  EXPECT_EQ(find(0x1061234), one);
  EXPECT_EQ(find(0x1061235), two);
  EXPECT_EQ(find(0x1061236), std::nullopt);
  listeners.remove(one);
  listeners.remove(one);
  EXPECT_EQ(find(0x1061234), std::nullopt);
  EXPECT_EQ(find(0x1061235), two);
}

TEST_F(ListenersTest, FindsRangesOfSeveralMasks) {
  const auto exact = add(0x1061234);
  const auto range = add(0x13f4321, kPrefix);
  const auto wide = add(0x1'0000'0000, 0xffff'ffff'0000'0000);
  EXPECT_EQ(find(0x13f0000), range);
  EXPECT_EQ(find(0x13fffff), range);
  EXPECT_EQ(find(0x1061234), exact);
  EXPECT_EQ(find(0x1'2345'6789), wide);
  EXPECT_EQ(find(0x13e0000), std::nullopt);
}

TEST_F(ListenersTest, RefusesOverlappingServices) {
  add(0x1061234);
  add(0x13f0000, kPrefix);
  EXPECT_EQ(refusal(0x1061234), EBUSY);
  EXPECT_EQ(refusal(0x13f0001), EBUSY) << "within a range";
  EXPECT_EQ(refusal(0x1060000, kPrefix), EBUSY) << "a range around it";
  EXPECT_EQ(refusal(0, 0), EBUSY) << "all services";
  listeners.remove(*find(0x1061234));
  const auto range = add(0x1060000, kPrefix);
  EXPECT_EQ(find(0x1061234), range);
}

TEST_F(ListenersTest, APortHasListenersOfItsOwn) {
  const auto second = add(0x1061234, Listeners::kExact, 2);
  EXPECT_EQ(find(0x1061234, 1), std::nullopt);
  EXPECT_EQ(find(0x1061234, 2), second);
  const auto first = add(0x1061234, Listeners::kExact, 1);
  EXPECT_EQ(find(0x1061234, 1), first);
  EXPECT_EQ(refusal(0x1061234, Listeners::kExact, 2), EBUSY);
  EXPECT_EQ(refusal(0x1061234), EBUSY) << "any port is one of them";
  const auto range = add(0x13f0000, kPrefix);
  EXPECT_EQ(find(0x13f1234, 2), range);
  EXPECT_EQ(refusal(0x13f1234, Listeners::kExact, 1), EBUSY);
}

TEST_F(ListenersTest, IsBounded) {
  for (std::uint64_t service = 0; service < kMaxListeners; ++service) add(service);
  EXPECT_EQ(refusal(kMaxListeners), ENOMEM);
}

}  // namespace
}  // namespace softib::cm::listeners_test
