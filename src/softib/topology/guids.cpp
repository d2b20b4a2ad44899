#include "softib/topology/guids.hpp"

#include <set>
#include <string_view>

namespace softib::topology {

namespace {

/// OUI of locally administered, individual EUI-64s (bit 0x02 of the first byte).
constexpr std::uint64_t kOui = 0x02'501b;
constexpr unsigned kOuiShift = 40;
constexpr std::uint64_t kStationMask = 0xff'ffff'fff0;  ///< the low four bits: number of the port

constexpr std::uint64_t mix(std::uint64_t value) {
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ value >> 27) * 0x94d049bb133111ebULL;
  return value ^ value >> 31;
}

std::uint64_t hash(std::string_view text, std::uint64_t seed) {
  std::uint64_t state = mix(seed + 0x9e3779b97f4a7c15ULL);
  for (const char c : text) state = mix(state ^ static_cast<std::uint8_t>(c));
  return state;
}

/// The GUIDs that are given so far.
class Taken {
 public:
  explicit Taken(const Topology& topology) {
    for (const auto& each : topology.switches) guids_.insert(each.guid.value());
    for (const auto& each : topology.hcas) {
      for (std::uint64_t port = 0; port <= each.ports; ++port) {
        guids_.insert(each.guid.value() + port);
      }
      for (const Guid guid : each.port_guids) guids_.insert(guid.value());
    }
  }

  /// A GUID for the node, so that the following `ports` numbers are free, too.
  Guid derive(std::string_view name, std::uint64_t seed, std::uint64_t ports) {
    for (;; ++seed) {
      const std::uint64_t guid = derived_guid(name, seed).value();
      bool is_free = true;
      for (std::uint64_t port = 0; port <= ports; ++port) {
        is_free = is_free && !guids_.contains(guid + port);
      }
      if (!is_free) continue;
      for (std::uint64_t port = 0; port <= ports; ++port) guids_.insert(guid + port);
      return Guid(guid);
    }
  }

 private:
  std::set<std::uint64_t> guids_;
};

}  // namespace

Guid derived_guid(std::string_view name, std::uint64_t seed) {
  return Guid(kOui << kOuiShift | (hash(name, seed) & kStationMask));
}

Topology with_guids(Topology topology, std::uint64_t seed) {
  Taken taken(topology);
  for (auto& each : topology.switches) {
    if (each.guid == Guid()) each.guid = taken.derive(each.name, seed, 0);
  }
  for (auto& each : topology.hcas) {
    if (each.guid == Guid()) each.guid = taken.derive(each.name, seed, each.ports);
    for (unsigned port = 1; port <= each.ports; ++port) {
      Guid& guid = each.port_guids[port - 1];
      if (guid == Guid()) guid = Guid(each.guid.value() + port);
    }
  }
  return topology;
}

}  // namespace softib::topology
