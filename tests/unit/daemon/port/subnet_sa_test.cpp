#include "daemon/port/subnet_sa.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <optional>

#include "daemon/port/port_watcher.hpp"
#include "daemon/pump/sa_requests.hpp"
#include "tests/support/softib/temporary_folder.hpp"
#include "tests/unit/link/object_fixture.hpp"
#include "tests/unit/sa/memory_mad_port.hpp"
#include "wire/mad.hpp"
#include "wire/mgid.hpp"
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
  [[nodiscard]] std::optional<ReceivedMad> receive() override {
    if (flood > 0) {
      --flood;
      return ReceivedMad{.bytes = std::vector<std::uint8_t>(wire::kMadSize)};
    }
    return std::exchange(inbox, std::nullopt);
  }
  [[nodiscard]] MadSource source() override { return {}; }
  bool claim_reports() override { return takes; }
  [[nodiscard]] int fd() const override { return -1; }
  [[nodiscard]] bool failed() const override { return false; }

  bool takes = true;
  std::optional<ReceivedMad> inbox;
  std::size_t flood = 0;  ///< MADs of others that come before the one in `inbox`

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
  SubnetSa sa{std::move(made), SharedMemberships(), *link::silent_logger(), 1, sa::random_from(1)};
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

/// Signals, netlink and the control socket are handled by the same thread.
TEST_F(SubnetSaTest, GivesWayToOthersDuringAFloodOfMads) {
  sa.on_port(port, now);
  const std::size_t per_turn = sa::Config().mads_per_turn;
  mads.flood = 3 * per_turn;
  sa.on_readable(now);
  EXPECT_EQ(mads.flood, 2 * per_turn);
  sa.on_readable(now);
  sa.on_readable(now);
  EXPECT_EQ(mads.flood, 0U);
  EXPECT_EQ(sa.counters().unmatched_mads, 3 * per_turn);
}

/// The SM may be on port 0 of a switch, whose LMC is 0: the LIDs that follow are those of others.
TEST_F(SubnetSaTest, AcceptsReportsFromTheLidOfTheSmOnly) {
  port.lmc = 2;
  port.sm_lid = Lid(4);
  sa.on_port(port, now);
  wire::SaHeader header;
  header.mad.management_class = wire::mgmt_class::kSubnAdm;
  header.mad.class_version = 2;
  header.mad.method = wire::method::kReport;
  header.mad.attribute_id = wire::attribute::kNotice;
  for (const Lid from : {Lid(3), Lid(4), Lid(7), Lid(8)}) {
    auto& mad = mads.inbox.emplace();
    mad.bytes.resize(wire::kMadSize);
    header.emit(mad.bytes);
    mad.from.lid = from;
    sa.on_readable(now);
  }
  EXPECT_EQ(sa.counters().reports, 1U);
  EXPECT_EQ(sa.counters().foreign_reports, 3U);
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

/// A daemon on a port with another one, which is a member of the same group.
class SharingSubnetSaTest : public SubnetSaTest {
 protected:
  SharingSubnetSaTest() {
    sharing.on_port(port, now);
    be_member();
  }
  void be_member() {
    sharing.request({first_link_request(InterfaceNumber(1)), join}, now);
    const auto request = std::ranges::find_if(sent, [](const auto& mad) {
      const auto header = wire::MadHeader::parse(mad);
      return header && header->attribute_id == wire::attribute::kMcMemberRecord;
    });
    ASSERT_NE(request, sent.end());
    auto header = *wire::SaHeader::parse(*request);
    header.mad.method = wire::method::kGetResp;
    wire::McMemberRecord record = link::group_record(group);
    record.port_gid = port.gid;
    record.join_state = kFullMember;
    std::array<std::uint8_t, wire::McMemberRecord::kSize> content{};
    record.emit(content);
    receive(header, content);
    const auto responses = std::exchange(sharing.responses(), {});
    ASSERT_EQ(responses.size(), 1U);
    ASSERT_TRUE(std::holds_alternative<wire::McMemberRecord>(responses[0].result));
  }
  void receive(const wire::SaHeader& header, ConstBytes content) {
    ReceivedMad mad{.bytes = std::vector<std::uint8_t>(wire::kMadSize),
                    .from = *sa_destination(port)};
    header.emit(mad.bytes);
    std::ranges::copy(content, mad.bytes.begin() + wire::kSaHeaderSize);
    sharing_mads.inbox = std::move(mad);
    sharing.on_readable(now);
  }
  /// Whether the other one, which joins and leaves, is the last member.
  bool is_other_alone() {
    const wire::SaRequest joins{wire::SaRequestId(++last), join};
    EXPECT_EQ(other.before(joins), Action::send);
    other.after({joins.id, wire::McMemberRecord()});
    const wire::SaRequest leaves{wire::SaRequestId(++last),
                                 wire::leave_query(group, port.gid, kFullMember)};
    if (other.before(leaves) == Action::leave_out) return false;
    other.after({leaves.id, wire::McMemberRecord()});
    return true;
  }

  /// The other one leaves another group, and gets no response yet.
  void let_other_leave() {
    ASSERT_EQ(other.before({other_leave, wire::leave_query(second, port.gid, kFullMember)}),
              Action::send);
  }
  void request_join_of_second() {
    sent.clear();
    sharing.request({joins_second, wire::join_query(second, port.gid, kDefaultPKey, kFullMember)},
                    now);
  }
  [[nodiscard]] std::ptrdiff_t sent_joins() const {
    return std::ranges::count_if(sent, [](const auto& mad) {
      const auto header = wire::MadHeader::parse(mad);
      return header && header->attribute_id == wire::attribute::kMcMemberRecord &&
             header->method == wire::method::kSet;
    });
  }
  [[nodiscard]] bool has_sent_join() const { return sent_joins() > 0; }
  void reach_deadline() {
    ASSERT_NE(sharing.next_deadline(), kNever);
    now = std::max(now, sharing.next_deadline());
    sharing.on_time(now);
  }
  [[nodiscard]] bool is_refused() {
    const auto responses = std::exchange(sharing.responses(), {});
    return std::ranges::any_of(responses, [this](const wire::SaResponse& response) {
      return response.id == joins_second &&
             std::holds_alternative<wire::SaFailure>(response.result);
    });
  }

  using Action = SharedMemberships::Action;
  static constexpr std::uint8_t kFullMember = wire::McMemberRecord::kFullMember;
  static constexpr std::uint8_t kSendOnly = wire::McMemberRecord::kSendOnlyNonMember;
  const Gid group = wire::broadcast_gid(kDefaultPKey);
  const wire::SaQuery join = wire::join_query(group, port.gid, kDefaultPKey, kFullMember);
  softib::test::TemporaryFolder folder;
  SharedMemberships other = SharedMemberships::open(folder.path(), "mlx5_0-1").value();
  std::uint64_t last = 0;
  const Gid second = wire::multicast_gid(Ipv4Address(0xef010203), kDefaultPKey);
  const wire::SaRequestId other_leave{1000};
  const wire::SaRequestId joins_second{first_link_request(InterfaceNumber(1)).value() + 7};
  std::unique_ptr<FakeMads> made_sharing{std::make_unique<FakeMads>(sent)};
  FakeMads& sharing_mads{*made_sharing};
  SubnetSa sharing{std::move(made_sharing),
                   SharedMemberships::open(folder.path(), "mlx5_0-1").value(),
                   *link::silent_logger(), 1, sa::random_from(1)};
};

TEST_F(SharingSubnetSaTest, MembershipLastsWhileThePortIsActive) {
  EXPECT_FALSE(is_other_alone());
  port.lid = Lid(8);
  sharing.on_port(port, now);
  EXPECT_FALSE(is_other_alone());
}

TEST_F(SharingSubnetSaTest, MembershipEndsWithThePort) {
  port.active = false;
  sharing.on_port(port, now);
  EXPECT_TRUE(is_other_alone());
}

TEST_F(SharingSubnetSaTest, MembershipEndsWhenTheSmHasLostIt) {
  sharing.on_port(port, now);
  sharing.on_client_reregister();
  EXPECT_TRUE(is_other_alone());
}

TEST_F(SharingSubnetSaTest, MembershipEndsWithTheGroup) {
  wire::SaHeader header;
  header.mad.management_class = wire::mgmt_class::kSubnAdm;
  header.mad.class_version = 2;
  header.mad.method = wire::method::kReport;
  header.mad.attribute_id = wire::attribute::kNotice;
  wire::Notice notice;
  notice.trap_number = wire::trap::kGroupDeleted;
  notice.gid = group;
  std::array<std::uint8_t, wire::Notice::kSize> content{};
  notice.emit(content);
  receive(header, content);
  EXPECT_EQ(sharing.notices().size(), 1U);
  EXPECT_TRUE(is_other_alone());
}

TEST_F(SharingSubnetSaTest, JoinWaitsUntilAnotherDaemonHasLeft) {
  let_other_leave();
  request_join_of_second();
  for (int i = 0; i < 5; ++i) reach_deadline();
  EXPECT_FALSE(has_sent_join());
  EXPECT_FALSE(is_refused());
  other.after({other_leave, wire::McMemberRecord()});
  reach_deadline();
  EXPECT_TRUE(has_sent_join());
}

TEST_F(SharingSubnetSaTest, JoinIsRefusedIfAnotherDaemonNeverFinishesItsLeave) {
  let_other_leave();
  request_join_of_second();
  const TimePoint end = now + 30s;
  while (now < end && !is_refused()) reach_deadline();
  EXPECT_LT(now, end);
  EXPECT_FALSE(has_sent_join());
  other.after({other_leave, wire::McMemberRecord()});
  const TimePoint later = now + 1s;
  while (sharing.next_deadline() < later) reach_deadline();
  EXPECT_FALSE(has_sent_join()) << "it has been refused";
}

TEST_F(SharingSubnetSaTest, LeaveCancelsAPostponedJoin) {
  let_other_leave();
  request_join_of_second();
  sharing.request({wire::SaRequestId(joins_second.value() + 1),
                   wire::leave_query(second, port.gid, kFullMember)},
                  now);
  EXPECT_TRUE(is_refused());
  other.after({other_leave, wire::McMemberRecord()});
  const TimePoint later = now + 1s;
  while (sharing.next_deadline() < later) reach_deadline();
  EXPECT_FALSE(has_sent_join());
}

TEST_F(SharingSubnetSaTest, JoinCancelsAPostponedLeaveOfItsGroupOnly) {
  const wire::SaRequestId joins{1001};
  const wire::SaQuery join_second = wire::join_query(second, port.gid, kDefaultPKey, kFullMember);
  ASSERT_EQ(other.before({joins, join_second}), Action::send);
  request_join_of_second();
  const wire::SaRequestId leaves(joins_second.value() + 1);
  sharing.request({leaves, wire::leave_query(second, port.gid, kFullMember)}, now);
  EXPECT_EQ(sent_joins(), 1) << "no leave";
  EXPECT_TRUE(sharing.responses().empty()) << "it waits for the response to the join";
  sharing.request({wire::SaRequestId(leaves.value() + 1),
                   wire::join_query(second, port.gid, kDefaultPKey, kSendOnly)},
                  now);
  EXPECT_TRUE(sharing.responses().empty()) << "that is another membership";
  sharing.request({wire::SaRequestId(leaves.value() + 2), join_second}, now);
  const auto responses = std::exchange(sharing.responses(), {});
  ASSERT_EQ(responses.size(), 1U);
  EXPECT_EQ(responses[0].id, leaves);
  EXPECT_TRUE(std::holds_alternative<wire::McMemberRecord>(responses[0].result));
}

TEST_F(SharingSubnetSaTest, LossOfThePortCancelsAPostponedJoin) {
  let_other_leave();
  request_join_of_second();
  port.active = false;
  sharing.on_port(port, now);
  other.after({other_leave, wire::McMemberRecord()});
  port.active = true;
  sharing.on_port(port, now);
  const TimePoint later = now + 1s;
  while (sharing.next_deadline() < later) reach_deadline();
  EXPECT_FALSE(has_sent_join());
  let_other_leave();
  request_join_of_second();
  other.after({other_leave, wire::McMemberRecord()});
  while (!has_sent_join()) reach_deadline();
  EXPECT_EQ(sent_joins(), 1) << "not the one from before, too";
}

TEST_F(SharingSubnetSaTest, PostponedJoinsAreLimited) {
  let_other_leave();
  const auto base = first_link_request(InterfaceNumber(1)).value() + 100;
  const auto request = [&](std::uint64_t number) {
    sharing.request({wire::SaRequestId(base + number),
                     wire::join_query(second, port.gid, kDefaultPKey, kFullMember)},
                    now);
  };
  std::uint64_t count = 0;
  while (sharing.responses().empty() && count < 100'000) request(count++);
  EXPECT_EQ(count, 1025U);
  EXPECT_EQ(sharing.responses()[0].id, wire::SaRequestId(base + count - 1));
}

TEST_F(SharingSubnetSaTest, RefusesAJoinBeyondTheTotalOfThePort) {
  std::uint64_t count = 0;
  while (sharing.responses().empty() && count < 2 * SharedMemberships::kMaxGroups) {
    const auto id = first_link_request(InterfaceNumber(1)).value() + ++count;
    const auto mgid = wire::multicast_gid(
        Ipv4Address(0xef020000 + static_cast<std::uint32_t>(count)), kDefaultPKey);
    sharing.request(
        {wire::SaRequestId(id), wire::join_query(mgid, port.gid, kDefaultPKey, kFullMember)}, now);
  }
  EXPECT_EQ(count, SharedMemberships::kMaxGroups / 2 + 1);
  ASSERT_EQ(sharing.responses().size(), 1U);
  EXPECT_EQ(wire::failure_of(sharing.responses()[0].result).kind, wire::SaFailure::Kind::local);
}

TEST_F(SharingSubnetSaTest, AnotherPostponedJoinDoesNotDelayTheFirst) {
  let_other_leave();
  request_join_of_second();
  const TimePoint due = sharing.next_deadline();
  now += 5ms;
  request_join_of_second();
  EXPECT_EQ(sharing.next_deadline(), due);
}

}  // namespace
}  // namespace ipoib::daemon
