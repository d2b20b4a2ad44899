#include "wire/mgid.hpp"

#include <algorithm>
#include <array>

#include "ipoib/bytes.hpp"

namespace ipoib::wire {

namespace {

constexpr std::size_t kGroupIdOffset = 6;
constexpr std::uint32_t kLow28Bits = 0x0fffffff;
constexpr std::size_t kGroupIdSize = Gid::kSize - kGroupIdOffset;

/// The flags are 0001, for a transient group (RFC 4391, 4). The P_Key has its full-member bit set,
/// even if the port is a limited member (RFC 4391, 4.1).
Gid make_mgid(std::uint16_t signature, PKey pkey, std::uint8_t scope,
              const std::array<std::uint8_t, kGroupIdSize>& group_id) {
  Gid::Bytes bytes;
  ByteWriter writer(bytes);
  writer.u8(0xff);
  writer.u8(static_cast<std::uint8_t>(0x10 | (scope & 0x0f)));
  writer.u16(signature);
  writer.u16(pkey.as_full().value());
  writer.bytes(group_id);
  return Gid(bytes);
}

Gid from_ipv4(std::uint32_t low_bits, PKey pkey, std::uint8_t scope) {
  std::array<std::uint8_t, kGroupIdSize> group_id{};
  store_be(&group_id[kGroupIdSize - 4], low_bits);
  return make_mgid(kIpv4Signature, pkey, scope, group_id);
}

}  // namespace

Gid broadcast_gid(PKey pkey, std::uint8_t scope) { return from_ipv4(0xffffffff, pkey, scope); }

Gid multicast_gid(Ipv4Address group, PKey pkey, std::uint8_t scope) {
  return from_ipv4(group.number() & kLow28Bits, pkey, scope);
}

Gid multicast_gid(const Ipv6Address& group, PKey pkey, std::uint8_t scope) {
  std::array<std::uint8_t, kGroupIdSize> group_id;
  std::copy_n(group.bytes().begin() + kGroupIdOffset, kGroupIdSize, group_id.begin());
  return make_mgid(kIpv6Signature, pkey, scope, group_id);
}

std::optional<Ipv4Address> ipv4_group(const Gid& mgid) {
  if (!is_ipoib_mgid(mgid) || is_ipv6_mgid(mgid)) return std::nullopt;
  ByteReader reader(mgid.bytes());
  reader.skip(kGroupIdOffset);
  const bool zero_before = reader.u16() == 0 && reader.u32() == 0;
  const std::uint32_t low = reader.u32();
  constexpr std::uint32_t kClassD = 0xe0000000;
  if (!zero_before || (low > kLow28Bits && low != 0xffffffff)) return std::nullopt;
  return Ipv4Address(low | kClassD);
}

/// Solicited-node groups are in ff02::1:ff00:0/104.
std::optional<Ipv6Address> solicited_node_group(const Gid& mgid) {
  constexpr std::array<std::uint8_t, 7> kPrefix{0, 0, 0, 0, 0, 1, 0xff};
  const auto* const group_id = mgid.bytes().begin() + kGroupIdOffset;
  if (!is_ipv6_mgid(mgid) || !std::equal(kPrefix.begin(), kPrefix.end(), group_id)) {
    return std::nullopt;
  }
  Ipv6Address::Bytes bytes{0xff, 0x02};
  std::copy_n(group_id, kGroupIdSize, bytes.begin() + kGroupIdOffset);
  return Ipv6Address(bytes);
}

bool is_ipoib_mgid(const Gid& mgid) {
  const auto signature = load_be<std::uint16_t>(&mgid.bytes()[2]);
  const bool is_transient = (mgid.bytes()[1] & 0xf0) == 0x10;
  return mgid.is_multicast() && is_transient &&
         (signature == kIpv4Signature || signature == kIpv6Signature);
}

bool is_ipv6_mgid(const Gid& mgid) {
  return is_ipoib_mgid(mgid) && load_be<std::uint16_t>(&mgid.bytes()[2]) == kIpv6Signature;
}

std::uint8_t scope_of(const Gid& mgid) { return mgid.bytes()[1] & 0x0f; }

}  // namespace ipoib::wire
