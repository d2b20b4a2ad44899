// The client of the subnet administrator over libibumad, against an administrator that somebody
// else wrote. What is expected here is what OpenSM 3.3.23 answers; opensm_on_ibsim.py starts it and
// says where the peer is. The emulated administrator is held to the same answers by
// management_on_softib.py. Tests of one file share one port: ibsim knows one agent for each class
// and process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/umad.h>
#include <poll.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <set>
#include <vector>

#include "ipoib/log.hpp"
#include "sa/request.hpp"
#include "sa/sa_client.hpp"
#include "verbs/umad_port.hpp"
#include "wire/mgid.hpp"

namespace ipoib::sa {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::McMemberRecord;
using wire::PathRecord;
using wire::SaStatus;

constexpr PKey kRed{0x8012};      // its group's MTU is beyond the port's
constexpr PKey kForeign{0x9234};  // not in the port's table
Gid peer;
std::vector<Gid> others;

TimePoint now() {
  return TimePoint(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

/// The port of this process, as sysfs and umad show it.
struct Host {
  std::string device;
  std::uint8_t port = 1;
  Lid lid;
  Gid gid;
  std::uint32_t rate = 0;  ///< Gb/s
  MadDestination sm;
  std::unique_ptr<verbs::UmadPort> mads;
};

Host& host() {
  static Host host = [] {
    Host out;
    char names[UMAD_MAX_DEVICES][UMAD_CA_NAME_LEN];
    umad_port_t port{};
    if (umad_get_cas_names(names, UMAD_MAX_DEVICES) < 1 || umad_get_port(names[0], 1, &port) != 0) {
      throw std::runtime_error("no InfiniBand port here");
    }
    out.device = names[0];
    out.lid = Lid(static_cast<std::uint16_t>(port.base_lid));
    out.rate = port.rate;
    out.gid = Gid(be64toh(port.gid_prefix), Guid(be64toh(port.port_guid)));
    out.sm = {Lid(static_cast<std::uint16_t>(port.sm_lid)),
              ServiceLevel(static_cast<std::uint8_t>(port.sm_sl)), 0};
    umad_release_port(&port);
    out.mads = verbs::UmadPort::open(out.device, out.port).value();
    return out;
  }();
  return host;
}

/// Runs a client until it has answered `count` questions.
std::vector<Answer> answers(SaClient& client, std::size_t count = 1) {
  while (client.answers().size() < count) {
    const auto left = std::chrono::ceil<milliseconds>(client.next_deadline() - now());
    pollfd port{host().mads->fd(), POLLIN, 0};
    (void)poll(&port, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    client.on_readable(now());
    client.on_time(now());
  }
  return std::exchange(client.answers(), {});
}

/// Joins a group for another port, as only a trusted request may.
void join_for(const Gid& port, const Gid& mgid) {
  auto mad = request_mad(join_query(mgid, port, kDefaultPKey, McMemberRecord::kFullMember), 1);
  auto header = *wire::SaHeader::parse(mad);
  header.sm_key = MembersQuery::kSmKey;
  header.emit(mad);
  host().mads->send(host().sm, mad, seconds(5)).value();
  pollfd readable{host().mads->fd(), POLLIN, 0};
  (void)poll(&readable, 1, -1);
  const auto answer = host().mads->receive();
  ASSERT_TRUE(answer && answer->answered);
  ASSERT_EQ(wire::SaHeader::parse(answer->bytes)->mad.status, 0);
}

class OpenSm : public testing::Test {
 protected:
  OpenSm() { client.set_sm(host().sm, now()); }

  auto ask(const Query& query) {
    client.ask(QueryId(1), query, now());
    return answers(client).front().result;
  }
  template <class Record>
  Record record(const Query& query) {
    const auto result = ask(query);
    if (const auto* failure = std::get_if<SaFailure>(&result)) {
      throw std::runtime_error(failure->text());
    }
    return std::get<Record>(result);
  }
  SaStatus refusal(const Query& query) {
    const auto result = ask(query);
    const auto* failure = std::get_if<SaFailure>(&result);
    return failure != nullptr ? failure->status.value_or(SaStatus::ok) : SaStatus::ok;
  }
  JoinQuery join(const Gid& mgid, PKey pkey, std::uint8_t state) const {
    return join_query(mgid, host().gid, pkey, state);
  }
  /// Creates a group like the broadcast group's, as RFC 4391, 10, has it.
  JoinQuery create(const Gid& mgid, std::uint8_t state) const {
    McMemberRecord group = join(mgid, kDefaultPKey, state).record;
    group.qkey = QKey(0x0b1b);
    group.mtu = 4;
    group.rate = 3;
    return create_query(group);
  }

  Logger log{"sa", std::make_shared<spdlog::sinks::stdout_sink_st>()};
  SaClient client{{}, *host().mads, log, 1};
};

const Gid kBroadcast = wire::broadcast_gid(kDefaultPKey);

Gid group(std::uint32_t number) {
  return wire::multicast_gid(Ipv4Address(0xe0000100 + number), kDefaultPKey);
}

TEST_F(OpenSm, LetsUsJoinTheBroadcastGroup) {
  const auto member =
      record<McMemberRecord>(join(kBroadcast, kDefaultPKey, McMemberRecord::kFullMember));
  EXPECT_EQ(member.mgid, kBroadcast);
  EXPECT_EQ(member.port_gid, host().gid);
  EXPECT_EQ(member.mlid, Lid(0xc000));
  EXPECT_EQ(member.qkey, QKey(0x0b1b));
  EXPECT_EQ(member.pkey, kDefaultPKey);
  EXPECT_EQ(member.mtu_selector, wire::Selector::exactly);
  EXPECT_EQ(member.mtu, 4);
  EXPECT_EQ(member.rate, 3);
  EXPECT_EQ(member.scope, 2);
  EXPECT_EQ(member.join_state, McMemberRecord::kFullMember);
}

TEST_F(OpenSm, CreatesAGroupForAFullMember) {
  const auto member = record<McMemberRecord>(create(group(1), McMemberRecord::kFullMember));
  EXPECT_EQ(member.mgid, group(1));
  EXPECT_GT(member.mlid, Lid(0xc001)) << "the partitions' own groups come first";
  EXPECT_EQ(member.qkey, QKey(0x0b1b));
}

TEST_F(OpenSm, CreatesAGroupForASendOnlyFullMember) {
  EXPECT_TRUE(is_multicast(
      record<McMemberRecord>(create(group(2), McMemberRecord::kSendOnlyFullMember)).mlid));
}

TEST_F(OpenSm, RefusesASendOnlyNonMemberWithoutAGroup) {
  EXPECT_EQ(refusal(create(group(3), McMemberRecord::kSendOnlyNonMember)),
            SaStatus::request_invalid);
}

TEST_F(OpenSm, RefusesToCreateAGroupFromNothing) {
  EXPECT_EQ(refusal(join(group(4), kDefaultPKey, McMemberRecord::kFullMember)),
            SaStatus::insufficient_components);
}

TEST_F(OpenSm, RefusesAPartitionThatThePortIsNotIn) {
  auto query = create(wire::broadcast_gid(kForeign), McMemberRecord::kFullMember);
  query.record.pkey = kForeign;
  EXPECT_EQ(refusal(query), SaStatus::request_invalid);
}

TEST_F(OpenSm, RefusesAGroupBeyondThePortsMtu) {
  EXPECT_EQ(refusal(join(wire::broadcast_gid(kRed), kRed, McMemberRecord::kFullMember)),
            SaStatus::request_invalid);
}

TEST_F(OpenSm, LetsUsLeaveOnce) {
  (void)record<McMemberRecord>(create(group(5), McMemberRecord::kFullMember));
  const auto leave = leave_query(group(5), host().gid, McMemberRecord::kFullMember);
  EXPECT_EQ(record<McMemberRecord>(leave).mgid, group(5));
  EXPECT_EQ(refusal(leave), SaStatus::request_invalid);
}

TEST_F(OpenSm, KnowsThePathToThePeer) {
  const auto path = record<PathRecord>(path_query(host().gid, peer, kDefaultPKey));
  EXPECT_EQ(path.dgid, peer);
  EXPECT_EQ(path.sgid, host().gid);
  EXPECT_EQ(path.dlid, host().sm.lid) << "the subnet manager runs on the peer";
  EXPECT_EQ(path.slid, host().lid);
  EXPECT_TRUE(path.reversible);
  EXPECT_EQ(path.mtu, 4);
  EXPECT_EQ(wire::rate_mbps(path.rate), host().rate * 1000) << "both ports have the same";
  EXPECT_EQ(path.lifetime, 18);
  EXPECT_EQ(path.hop_limit, 0);
}

TEST_F(OpenSm, KnowsNoPathToAnUnknownPort) {
  const Gid nobody(host().gid.prefix(), Guid(0xdead));
  EXPECT_EQ(refusal(path_query(host().gid, nobody, kDefaultPKey)), SaStatus::no_records);
}

TEST_F(OpenSm, KnowsNoPathInAPartitionThatIsNotShared) {
  EXPECT_EQ(refusal(path_query(host().gid, peer, kForeign)), SaStatus::no_records);
}

// Three members are one MAD, the most that ibsim carries; more are several segments of RMPP.
TEST_F(OpenSm, TellsWhoIsInAGroup) {
  EXPECT_TRUE(record<Members>(members_query(group(6))).empty());
  (void)record<McMemberRecord>(create(group(6), McMemberRecord::kFullMember));
  std::set<Gid> expected{host().gid};
  for (const Gid& port : others) {
    join_for(port, group(6));
    expected.insert(port);
  }
  std::set<Gid> found;
  for (const auto& member : record<Members>(members_query(group(6)))) {
    EXPECT_EQ(member.join_state, McMemberRecord::kFullMember);
    found.insert(member.port_gid);
  }
  EXPECT_EQ(found, expected);
}

TEST_F(OpenSm, AnswersMoreQuestionsThanTheWindow) {
  constexpr std::size_t kCount = 300;
  for (std::size_t id = 0; id < kCount; ++id) {
    client.ask(QueryId(id), path_query(host().gid, peer, kDefaultPKey), now());
  }
  for (const auto& answer : answers(client, kCount)) {
    EXPECT_TRUE(std::holds_alternative<PathRecord>(answer.result)) << answer.id.value();
  }
  EXPECT_EQ(client.counters().answers, kCount);
  EXPECT_EQ(client.counters().strangers, 0U);
}

TEST_F(OpenSm, IsNotFoundWhereNobodyAnswers) {
  Config impatient;
  impatient.path = {.attempts = 2,
                    .timeout = {milliseconds(20), milliseconds(20)},
                    .pause = {milliseconds(1), milliseconds(1)}};
  impatient.port_grace = milliseconds(20);
  SaClient lost(impatient, *host().mads, log, 2);
  lost.set_sm(MadDestination{Lid(0xbff), ServiceLevel(0), 0}, now());
  lost.ask(QueryId(1), path_query(host().gid, peer, kDefaultPKey), now());
  EXPECT_EQ(std::get<SaFailure>(answers(lost).front().result).kind, FailureKind::timeout);
}

TEST_F(OpenSm, HasNoOtherDeviceAndPort) {
  const auto no_device = verbs::UmadPort::open("mlx5_9", 1);
  ASSERT_TRUE(no_device.has_error());
  EXPECT_THAT(no_device.error().message, testing::HasSubstr("mlx5_9"));
  const auto no_port = verbs::UmadPort::open(host().device, 9);
  ASSERT_TRUE(no_port.has_error());
  EXPECT_THAT(no_port.error().message, testing::HasSubstr("port 9"));
}

}  // namespace
}  // namespace ipoib::sa

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  std::vector<ipoib::Gid> ports;
  for (int i = 2; i < argc; ++i) ports.push_back(ipoib::Gid::parse(argv[i]).value_or(ipoib::Gid()));
  if (ports.empty() || std::string_view(argv[1]) != "--peer" ||
      std::ranges::count(ports, ipoib::Gid()) > 0) {
    std::cerr << "usage: sa_client_probe --peer GID [OTHER-GID]...\n";
    return 2;
  }
  ipoib::sa::peer = ports.front();
  ipoib::sa::others.assign(ports.begin() + 1, ports.end());
  return RUN_ALL_TESTS();
}
