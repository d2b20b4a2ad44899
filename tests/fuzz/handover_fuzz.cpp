// What a daemon sends that hands over its interfaces: messages, each after its length in two bytes.
// What parses is the same after emit() and parse(). What the Assembly accepts is within its limits,
// and a link restores it without sending anything to peers, and without exceeding its own.
#include <spdlog/sinks/null_sink.h>
#include <unistd.h>

#include "daemon/interfaces/handover.hpp"
#include "ipoib/log.hpp"
#include "link/link.hpp"
#include "require.hpp"
#include "tests/support/address_handles.hpp"

using namespace ipoib;
using namespace ipoib::daemon;

namespace {

constexpr TimePoint kNow{std::chrono::seconds(1000)};

/// Takes the requests of the link, and grants the joins.
void grant_joins(link::Link& link) {
  while (!link.events().empty()) {
    for (const auto& event : std::exchange(link.events(), {})) {
      const auto* const request = std::get_if<wire::SaRequest>(&event);
      const auto* const join =
          request != nullptr ? std::get_if<wire::JoinQuery>(&request->query) : nullptr;
      if (join == nullptr) continue;
      wire::McMemberRecord record;
      record.mgid = join->record.mgid;
      record.mlid = Lid(0xc001);
      record.pkey = kDefaultPKey;
      record.mtu = 4;
      record.rate = 3;
      link.on_response({request->id, record}, kNow);
    }
  }
}

void restore(const link::SavedPage& saved) {
  static Logger log("fuzz", std::make_shared<spdlog::sinks::null_sink_st>());
  FakeAddressHandles handles;
  handles.records = false;
  FramePool frames(16, 512);
  link::Config config;
  config.limits.neighbours = 16;
  config.limits.paths = 17;
  config.limits.send_groups = 4;
  link::Link link(config, {handles, frames, frames, log, HashKey{1, 2}}, Qpn(0x11), 1);
  link::PortStatus port;
  port.active = port.sm_known = true;
  port.lid = Lid(1);
  port.gid = Gid(Gid::kLinkLocalPrefix, Guid(1));
  port.pkey_index = 0;
  link.on_port(port, kNow);
  grant_joins(link);
  require(link.state() == link::LinkState::up);
  const auto added = link.restore(saved, kNow);
  require(link.sends().empty() && link.to_host().empty());
  require(added == link.neighbour_count() && added <= config.limits.neighbours);
  grant_joins(link);
  require(link.is_settled());
  // What it has taken over, it could hand over.
  const auto again = link.save({}, 100, kNow);
  require(again.neighbours.size() == added);
  link.shut_down(kNow);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  handover::Assembly assembly;
  ByteReader in(ConstBytes(data, size));
  while (in.left() > 0) {
    const auto bytes = in.take(std::min<std::size_t>(in.u16(), in.left()));
    auto message = handover::parse(bytes);
    if (!message) continue;
    const auto emitted = handover::emit(*message);
    require(emitted.size() <= handover::kMaxMessage);
    const auto parsed = handover::parse(emitted);
    require(parsed.has_value() && *parsed == *message);
    const bool has_tun = std::holds_alternative<handover::Interface>(*message);
    const auto done = assembly.add(
        {std::move(*message), has_tun ? FileDescriptor(::dup(STDOUT_FILENO)) : FileDescriptor()});
    if (!done || *done) break;
  }
  require(assembly.interfaces().size() <= kMaxInterfaces);
  for (const auto& [pkey, interface] : assembly.interfaces()) {
    require(pkey.is_valid() && pkey.is_full());
    require(interface.cache.neighbours.size() <= handover::Assembly::kMaxNeighbours);
    require(interface.statics.size() <= handover::Assembly::kMaxStatics);
    require(interface.cache.send_groups.size() <= handover::Assembly::kMaxSendGroups);
    require(interface.cache.stations.size() <= handover::Assembly::kMaxStations);
    require(interface.cache.station_groups.size() <= handover::Assembly::kMaxStationGroups);
    restore(interface.cache);
  }
  return 0;
}
