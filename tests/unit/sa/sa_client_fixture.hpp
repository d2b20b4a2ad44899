// An SaClient over an in-memory MadPort, in virtual time.
#pragma once

#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <memory>

#include "ipoib/log.hpp"
#include "memory_mad_port.hpp"
#include "sa/sa_client.hpp"

namespace ipoib::sa {

using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::McMemberRecord;
using wire::PathRecord;
using wire::SaStatus;
using Kind = wire::SaFailure::Kind;

inline const Gid kPort = *Gid::parse("fe80::10:1");
inline const Gid kPeer = *Gid::parse("fe80::10:3");
inline const Gid kGroup = *Gid::parse("ff12:401b:ffff::ffff:ffff");
inline const MadDestination kSm{Lid(1), ServiceLevel(0), 0};
inline const MadDestination kOtherSm{Lid(7), ServiceLevel(2), 0};

class SaClientTest : public testing::Test {
 protected:
  SaClientTest() { make_client(); }

  void make_client(std::uint64_t seed = 42) {
    client = std::make_unique<SaClient>(config, port, log, seed, random_from(seed));
  }
  void ask_path(std::uint64_t id, const Gid& peer = kPeer) {
    client->request({wire::SaRequestId(id), wire::path_query(kPort, peer, kDefaultPKey)}, now);
  }
  void ask_join(std::uint64_t id) {
    client->request({wire::SaRequestId(id),
                     wire::join_query(kGroup, kPort, kDefaultPKey, McMemberRecord::kFullMember)},
                    now);
  }
  /// Advances the time to the next deadline.
  void advance() {
    ASSERT_NE(client->next_deadline(), kNever);
    now = client->next_deadline();
    client->on_time(now);
  }
  void respond(SaStatus status, const PathRecord& record) {
    port.respond(port.sent.back(), static_cast<std::uint16_t>(status), record);
    client->on_readable(now);
  }
  void time_out() {
    port.time_out(port.sent.back());
    client->on_readable(now);
  }
  PathRecord path(const Gid& peer = kPeer) const {
    PathRecord record = wire::path_query(kPort, peer, kDefaultPKey).record;
    record.dlid = Lid(4);
    record.slid = Lid(3);
    record.mtu = 4;
    record.rate = 3;
    return record;
  }
  McMemberRecord group() const {
    McMemberRecord record;
    record.mgid = kGroup;
    record.port_gid = kPort;
    record.pkey = kDefaultPKey;
    record.mlid = Lid(0xc000);
    record.qkey = QKey(0x0b1b);
    record.mtu = 4;
    record.join_state = McMemberRecord::kFullMember;
    return record;
  }
  static McMemberRecord member(const Gid& mgid, std::uint64_t guid) {
    McMemberRecord record;
    record.mgid = mgid;
    record.port_gid = Gid(Gid::kLinkLocalPrefix, Guid(guid));
    record.join_state = McMemberRecord::kFullMember;
    return record;
  }
  void ask_members(std::uint64_t id) {
    client->request({wire::SaRequestId(id), wire::members_query(kGroup)}, now);
  }
  /// Responds to the last request with records at multiples of `stride` bytes, and `more` bytes
  /// after.
  void respond(const wire::McMemberTable& members, std::size_t stride, std::size_t more = 0,
               std::uint8_t filler = 0) {
    std::vector<std::uint8_t> table(members.size() * stride);
    table.resize(table.size() + more, filler);
    for (std::size_t i = 0; i < members.size(); ++i) {
      members[i].emit(MutableBytes(table).subspan(i * stride));
    }
    port.respond_table(port.sent.back(), table, stride);
    client->on_readable(now);
  }
  /// Takes the only response, which must be a failure.
  wire::SaFailure failure() {
    EXPECT_EQ(client->responses().size(), 1U);
    const auto response = client->responses().at(0);
    client->responses().clear();
    return std::get<wire::SaFailure>(response.result);
  }

  Config config;
  MemoryMadPort port;
  Logger log{"sa", std::make_shared<spdlog::sinks::null_sink_st>()};
  TimePoint now{seconds(1000)};
  std::unique_ptr<SaClient> client;
};

}  // namespace ipoib::sa
