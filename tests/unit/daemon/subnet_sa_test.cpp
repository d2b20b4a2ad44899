#include "daemon/subnet_sa.hpp"

#include <gmock/gmock.h>

#include "tests/unit/link/object_fixture.hpp"
#include "wire/mad.hpp"
#include "wire/notice.hpp"

namespace ipoib::daemon {
namespace {

using namespace std::chrono_literals;

class FakeMads final : public verbs::WatchedMadPort {
 public:
  explicit FakeMads(std::vector<std::vector<std::uint8_t>>& to) : sent_(to) {}
  [[nodiscard]] Result<void> send(const MadDestination& /*to*/, ConstBytes mad,
                                  Duration /*timeout*/) override {
    sent_.emplace_back(mad.begin(), mad.end());
    return {};
  }
  [[nodiscard]] std::optional<ReceivedMad> receive() override { return std::nullopt; }
  [[nodiscard]] MadSource source() override { return {}; }
  bool claim_reports() override { return takes; }
  [[nodiscard]] int fd() const override { return -1; }
  [[nodiscard]] bool failed() const override { return false; }

  bool takes = true;

 private:
  std::vector<std::vector<std::uint8_t>>& sent_;
};

class SubnetSaTest : public ::testing::Test {
 protected:
  SubnetSaTest() {
    port.active = true;
    port.lid = Lid(7);
    port.sm_lid = Lid(1);
    port.gid = link::port_gid(1);
    port.pkeys = {kDefaultPKey};
  }
  /// The number of subscriptions sent since the last call.
  std::size_t subscriptions() {
    std::size_t count = 0;
    for (const auto& mad : std::exchange(sent, {})) {
      const auto header = wire::MadHeader::parse(mad);
      if (!header || header->attribute_id != wire::attribute::kInformInfo) continue;
      const auto info = wire::InformInfo::parse(ConstBytes(mad).subspan(wire::kSaHeaderSize));
      count += info && info->subscribe ? 1 : 0;
    }
    return count;
  }
  void let_time_pass() {
    for (int i = 0; i < 20 && sa.next_deadline() != kNever; ++i) {
      now = std::max(now, sa.next_deadline());
      sa.on_time(now);
    }
  }

  TimePoint now{1000s};
  std::vector<std::vector<std::uint8_t>> sent;
  verbs::PortSnapshot port;
  std::unique_ptr<FakeMads> made{std::make_unique<FakeMads>(sent)};
  FakeMads& mads{*made};
  SubnetSa sa{std::move(made), SharedMemberships(), *link::silent_logger(), 1};
};

TEST_F(SubnetSaTest, SubscribesWhenThePortBecomesActiveAndAfterEachChange) {
  sa.on_port(port, now);
  let_time_pass();
  EXPECT_GT(subscriptions(), 0U);
  port.lid = Lid(8);
  sa.on_port(port, now);
  let_time_pass();
  EXPECT_GT(subscriptions(), 0U);
}

TEST_F(SubnetSaTest, SubscribesWhenTheProgramThatHadTheReportsHasEnded) {
  mads.takes = false;
  sa.on_port(port, now);
  let_time_pass();
  EXPECT_EQ(subscriptions(), 0U);
  mads.takes = true;
  now = sa.next_deadline();
  ASSERT_NE(now, kNever);
  sa.on_time(now);
  EXPECT_EQ(subscriptions(), 4U);
}

TEST_F(SubnetSaTest, DoesNotClaimReportsWithoutAnSa) {
  mads.takes = false;
  sa.on_port(port, now);
  port.sm_lid = Lid();
  sa.on_port(port, now);
  EXPECT_EQ(sa.next_deadline(), kNever);
}

TEST_F(SubnetSaTest, DoesNotSubscribeAfterTheEnd) {
  sa.on_port(port, now);
  let_time_pass();
  sa.end(now);
  let_time_pass();
  (void)subscriptions();
  port.lid = Lid(8);
  sa.on_port(port, now);
  let_time_pass();
  EXPECT_EQ(subscriptions(), 0U);
}

}  // namespace
}  // namespace ipoib::daemon
