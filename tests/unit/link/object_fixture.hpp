// The objects of a link, with a fake for the device.
#pragma once

#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/sinks/ringbuffer_sink.h>

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "ipoib/log.hpp"
#include "link/arp_output.hpp"
#include "link/group_table.hpp"
#include "link/host_addresses.hpp"
#include "link/icmp_errors.hpp"
#include "link/multicast_output.hpp"
#include "link/nd_output.hpp"
#include "link/neighbour_table.hpp"
#include "link/path_table.hpp"
#include "link/solicitor.hpp"
#include "tests/support/address_handles.hpp"
#include "wire/arp.hpp"
#include "wire/encapsulation.hpp"

namespace ipoib::link {

using namespace std::chrono_literals;
using wire::SaFailure;

inline const std::shared_ptr<Logger>& silent_logger() {
  static const auto logger =
      std::make_shared<Logger>("link", std::make_shared<spdlog::sinks::null_sink_st>());
  logger->set_level(spdlog::level::debug);
  return logger;
}

/// The lines that silent_logger() gets while this lives.
class LoggedLines {
 public:
  LoggedLines() { silent_logger()->sinks().push_back(lines_); }
  ~LoggedLines() { std::erase(silent_logger()->sinks(), lines_); }
  LoggedLines(const LoggedLines&) = delete;
  LoggedLines& operator=(const LoggedLines&) = delete;

  [[nodiscard]] std::vector<std::string> all() const { return lines_->last_formatted(); }

 private:
  const std::shared_ptr<spdlog::sinks::ringbuffer_sink_st> lines_ =
      std::make_shared<spdlog::sinks::ringbuffer_sink_st>(512);
};

/// An SA request of one kind.
template <class Query>
struct RequestOf : Query {
  wire::SaRequestId id;
};
using PathRequest = RequestOf<wire::PathQuery>;
using JoinRequest = RequestOf<wire::JoinQuery>;
using LookupRequest = RequestOf<wire::LookupQuery>;
using LeaveRequest = RequestOf<wire::LeaveQuery>;

template <class E>
[[nodiscard]] std::optional<E> event_as(const Event& event, const E* /*kind*/) {
  const auto* one = std::get_if<E>(&event);
  return one != nullptr ? std::optional(*one) : std::nullopt;
}
template <class Query>
[[nodiscard]] std::optional<RequestOf<Query>> event_as(const Event& event,
                                                       const RequestOf<Query>* /*kind*/) {
  const auto* request = std::get_if<wire::SaRequest>(&event);
  const auto* query = request != nullptr ? std::get_if<Query>(&request->query) : nullptr;
  if (query == nullptr) return std::nullopt;
  return RequestOf<Query>{*query, request->id};
}
template <class E>
[[nodiscard]] std::optional<E> event_as(const Event& event) {
  return event_as(event, static_cast<const E*>(nullptr));
}
/// The events of one kind.
template <class E>
[[nodiscard]] std::vector<E> events_of(const std::vector<Event>& events) {
  std::vector<E> found;
  for (const Event& event : events) {
    if (const auto one = event_as<E>(event)) found.push_back(*one);
  }
  return found;
}

inline constexpr HashKey kHashKey{0x0123456789abcdef, 0xfedcba9876543210};
inline Gid port_gid(std::uint64_t guid) { return Gid(Gid::kLinkLocalPrefix, Guid(guid)); }
inline HwAddress hardware(std::uint32_t qpn, std::uint64_t guid) {
  return HwAddress{.flags = 0, .qpn = Qpn(qpn), .gid = port_gid(guid)};
}
inline wire::McMemberRecord group_record(const Gid& mgid, std::uint16_t mlid = 0xc000) {
  wire::McMemberRecord record;
  record.mgid = mgid;
  record.mlid = Lid(mlid);
  record.pkey = kDefaultPKey;
  record.qkey = QKey(0x0b1b);
  record.mtu = 4;
  record.rate = 3;
  record.lifetime = 17;
  return record;
}
inline wire::PathRecord path_record(const Gid& dgid, std::uint16_t dlid, std::uint8_t mtu = 4) {
  wire::PathRecord record;
  record.dgid = dgid;
  record.dlid = Lid(dlid);
  record.mtu = mtu;
  record.rate = 3;
  record.lifetime = 17;
  return record;
}

class ObjectFixture : public ::testing::Test {
 protected:
  ObjectFixture() {
    view.addresses = {{Ipv4Address(0x0a2c0001), 24}};
    (void)host.update(view);
    paths.set_source({kOwnGid, 0});
    groups.broadcast().start();
    const auto id = emitted<JoinRequest>().at(0).id;
    EXPECT_TRUE(groups.broadcast().on_response({id, group_record(groups.broadcast().mgid())}, now));
    forget();
  }
  ~ObjectFixture() override {
    forget();
    neighbours.clear(Counter::drop_link_down);
  }

  static inline const HwAddress kOwn = hardware(0x11, 1);
  static inline const PortGid kOwnGid{kOwn.gid, 0};
  static constexpr Ipv4Address kPeer{0x0a2c0002};
  static inline const HwAddress kPeerHw = hardware(0x22, 2);     ///< the peer's address
  static inline const HwAddress kNewPeerHw = hardware(0x33, 3);  ///< the peer's new address

  /// Discards the output so far, and resets the counters.
  void forget() {
    out.sends.clear();
    out.to_host.clear();
    out.events.clear();
    out.known_neighbours.clear();
    out.counters = Counters{};
  }
  [[nodiscard]] std::uint64_t count(Counter counter) const { return out.counters[counter]; }
  template <class E>
  [[nodiscard]] std::vector<E> emitted() const {
    return events_of<E>(out.events);
  }
  /// What packet() counts for its neighbour.
  static constexpr std::size_t kParkedPacket =
      ParkingBudget::kPacketOverhead + wire::kEncapsulationSize + 84;
  /// An IPv4 packet of that size, encapsulated.
  [[nodiscard]] Frame packet(std::size_t size = 84) {
    Frame frame = pool.take();
    frame.window(0, wire::kEncapsulationSize + size);
    wire::emit_encapsulation(wire::EtherType::ipv4, frame.bytes().data());
    return frame;
  }
  /// The path requests since forget(), oldest first.
  [[nodiscard]] std::vector<PathRequest> path_requests() const { return emitted<PathRequest>(); }
  void respond(const PathRequest& request, const wire::SaResult& with) {
    if (auto resolution = paths.on_response({request.id, with}, now)) {
      neighbours.path_resolved(std::move(*resolution), now);
    }
  }
  void grant(const PathRequest& request, std::uint16_t dlid = 7, std::uint8_t mtu = 4) {
    respond(request, path_record(request.record.dgid, dlid, mtu));
  }
  void refuse(const PathRequest& request) {
    respond(request, SaFailure(wire::SaStatus::no_records));
  }
  /// Makes the path to a port ready.
  void prepare_path(const Gid& gid, std::uint16_t dlid = 7) {
    kept.push_back(paths.acquire(gid));
    (void)paths.use(*kept.back(), now);
    if (!path_requests().empty()) grant(path_requests().back(), dlid);
    forget();
  }
  /// Lets the request for the path to a port fail.
  void fail_path(const Gid& gid) {
    kept.push_back(paths.acquire(gid));
    (void)paths.use(*kept.back(), now);
    refuse(path_requests().back());
    forget();
  }
  void tick() {
    neighbours.tick(now);
    paths.tick(now);
  }
  /// Advances the time to the entry's deadline.
  void reach_deadline() {
    now = neighbours.next_deadline();
    tick();
  }
  [[nodiscard]] Neighbour* entry(const IpAddress& address = kPeer) {
    return neighbours.find(address);
  }
  /// The name of the state; "gone" if there is no entry.
  [[nodiscard]] std::string state(const IpAddress& address = kPeer) {
    Neighbour* const found = entry(address);
    return found != nullptr ? std::string(name(found->state_name())) : "gone";
  }
  /// The ARP messages since forget(), with their destinations.
  struct SentArp {
    wire::Arp message;
    Qpn to;
  };
  [[nodiscard]] std::vector<SentArp> sent_arp() const {
    std::vector<SentArp> messages;
    for (const Outgoing& sent : out.sends) {
      const ConstBytes bytes = sent.frame.bytes();
      if (wire::parse_encapsulation(bytes) != wire::EtherType::arp) continue;
      messages.push_back({*wire::Arp::parse(bytes.subspan(wire::kEncapsulationSize)), sent.qpn});
    }
    return messages;
  }
  [[nodiscard]] std::size_t sent_packets() const { return out.sends.size() - sent_arp().size(); }

  TimePoint now{1h};
  Config config;
  FramePool pool{256, 4096};
  FakeAddressHandles handles;
  HostView view;
  HostAddresses host;
  Output out;
  RequestIds ids;
  Random random{7};
  /// Four packets of a neighbour (see packet()), six in all.
  ParkingBudget parking{
      .bytes_per_neighbour = 4 * kParkedPacket, .first_packets = 4, .frames = 6, .bytes = 1 << 20};
  std::optional<wire::McMemberRecord> parameters;  ///< of the broadcast group
  const GroupDependencies membership{config, kOwnGid, handles,          out,
                                     ids,    random,  *silent_logger(), parameters};
  GroupTable groups{membership, kHashKey};
  SendGroupTable send_groups{membership, parking, kHashKey};
  MulticastOutput multicast{groups, send_groups, out};
  PathTable paths{{config, handles, out, ids, random, *silent_logger()}, kHashKey};
  HostReports reports{host, out};
  ArpOutput arp{{host, kOwn, groups.broadcast(), pool, reports, out}};
  NdOutput nd{{config, host, kOwn, multicast, pool, out}};
  Solicitor solicitor{{config, arp, nd, out}};
  IcmpErrors icmp{config, host, out};
  std::deque<PathRef> kept;
  NeighbourStatistics statistics;
  NeighbourTable neighbours{
      {config, paths, solicitor, icmp, pool, out, parking, statistics, random, *silent_logger()},
      kHashKey};
};

}  // namespace ipoib::link
