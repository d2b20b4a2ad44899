#include "ethernet/neighbour_macs.hpp"

#include "ipoib/bytes.hpp"

namespace ipoib::ethernet {
namespace {

/// The number of choices for a neighbour, of 40 bits each, so never are all taken.
constexpr std::uint8_t kCandidates = 8;
constexpr std::uint64_t kLow40Bits = 0xff'ffff'ffff;

/// The n-th choice for a neighbour; the flags are no part of its identity (RFC 4755, 3).
MacAddress candidate(const HwAddress& hardware, std::uint8_t n) {
  std::array<std::uint8_t, HwAddress::kSize> bytes{};
  ByteWriter writer(bytes);
  writer.u8(n);
  writer.u24(hardware.qpn.value());
  writer.bytes(hardware.gid.bytes());
  const KeyedHash hash(HashKey{0, 0});
  return MacAddress(NeighbourMacs::kOfOthers.number() | (hash(bytes) & kLow40Bits));
}

bool is_unspecified(const IpAddress& address) {
  return std::visit([](const auto& any) { return any.is_unspecified(); }, address);
}

}  // namespace

MacAddress mac_of_interface(Guid port, PKey pkey) {
  constexpr std::uint64_t kLocal = 0x0200'0000'0000;
  constexpr unsigned kPKeyShift = 24;  // the bits above those that differ between ports of one HCA
  const std::uint64_t differs = std::uint64_t{pkey.base()} ^ kDefaultPKey.base();
  return MacAddress(kLocal | ((port.value() ^ differs << kPKeyShift) & kLow40Bits));
}

MacAddress NeighbourMacs::mac_of(const HwAddress& hardware) const {
  for (std::uint8_t n = 0; n < kCandidates; ++n) {
    const MacAddress mac = candidate(hardware, n);
    if (mac == kOfOthers) continue;
    const Owner* const owner = by_mac_.peek(mac);
    if (owner == nullptr || owner->hardware.same_endpoint(hardware)) return mac;
  }
  return kOfOthers;
}

MacAddress NeighbourMacs::show(const IpAddress& address, const HwAddress& hardware) {
  const MacAddress mac = mac_of(hardware);
  if (!is_unspecified(address)) {
    by_mac_.set(mac, {hardware, address});
  } else if (by_mac_.find(mac) == nullptr) {
    by_mac_.set(mac, {hardware, std::nullopt});
  }
  return mac;
}

bool NeighbourMacs::learn(const IpAddress& address, const HwAddress& hardware) {
  const MacAddress mac = show(address, hardware);
  if (is_unspecified(address)) return false;
  const Neighbour* const known = by_address_.find(address);
  if (known == nullptr) {
    by_address_.set(address, {mac});
    return false;
  }
  const Neighbour before = *known;
  if (before.mac == mac) return false;
  by_address_.set(address, {mac, before.is_router});
  // Frames for the previous neighbour go to another of its addresses, or nowhere.
  const Owner* const owner = by_mac_.peek(before.mac);
  if (owner != nullptr && owner->address == address) by_mac_.erase(before.mac);
  return true;
}

void NeighbourMacs::forget(const IpAddress& address) {
  const Neighbour* const known = by_address_.peek(address);
  if (known == nullptr) return;
  const Owner* const owner = by_mac_.peek(known->mac);
  if (owner != nullptr && owner->address == address) by_mac_.erase(known->mac);
  by_address_.erase(address);
}

const IpAddress* NeighbourMacs::address_of(MacAddress mac) {
  const Owner* const owner = by_mac_.find(mac);
  return owner != nullptr && owner->address ? &*owner->address : nullptr;
}

}  // namespace ipoib::ethernet
