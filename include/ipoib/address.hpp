// The addresses of an InfiniBand subnet (IBA vol. 1, 4.1) and of an IPoIB link (RFC 4391, 9.1.1).
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "ipoib/strong.hpp"

namespace ipoib {

/// Local identifier, 16 bits. 0x0001-0xbfff are unicast, 0xc000-0xfffe multicast (IBA 4.1.3).
using Lid = Strong<struct LidTag, std::uint16_t>;
inline constexpr Lid kFirstMulticastLid{0xc000};
inline constexpr Lid kPermissiveLid{0xffff};
[[nodiscard]] constexpr bool is_unicast(Lid lid) {
  return lid.value() != 0 && lid < kFirstMulticastLid;
}
[[nodiscard]] constexpr bool is_multicast(Lid lid) {
  return lid >= kFirstMulticastLid && lid != kPermissiveLid;
}

/// LMC of a port: it has 2^LMC LIDs, which differ only in their LMC low bits (IBA 4.1.3).
inline constexpr std::uint8_t kMaxLmc = 7;
/// The path bits of a LID: the index among its port's LIDs.
[[nodiscard]] constexpr std::uint8_t path_bits(Lid lid, std::uint8_t lmc) {
  return static_cast<std::uint8_t>(lid.value() & ((1U << lmc) - 1));
}
[[nodiscard]] constexpr Lid base_lid(Lid lid, std::uint8_t lmc) {
  return Lid(static_cast<std::uint16_t>(lid.value() - path_bits(lid, lmc)));
}

/// EUI-64 of a node or a port, as a number in host order.
using Guid = Strong<struct GuidTag, std::uint64_t>;
/// Queue pair number, 24 bits.
using Qpn = Strong<struct QpnTag, std::uint32_t>;
inline constexpr Qpn kMulticastQpn{0xffffff};
/// Queue key, 32 bits. With the top bit set it is a "controlled" Q_Key (IBA 10.2.5).
using QKey = Strong<struct QKeyTag, std::uint32_t>;
/// Service level, 4 bits.
using ServiceLevel = Strong<struct ServiceLevelTag, std::uint8_t>;

/// Partition key: 15 bits that identify the partition, and bit 15 for full membership (IBA 10.9.1).
class PKey {
 public:
  static constexpr std::uint16_t kFullMember = 0x8000;

  constexpr PKey() = default;
  constexpr explicit PKey(std::uint16_t value) : value_(value) {}

  [[nodiscard]] constexpr std::uint16_t value() const { return value_; }
  [[nodiscard]] constexpr std::uint16_t base() const { return value_ & 0x7fff; }
  [[nodiscard]] constexpr bool is_full() const { return (value_ & kFullMember) != 0; }
  [[nodiscard]] constexpr PKey as_full() const { return PKey(value_ | kFullMember); }
  /// A base of zero is the invalid key, which marks a free entry of a table.
  [[nodiscard]] constexpr bool is_valid() const { return base() != 0; }
  [[nodiscard]] constexpr bool same_partition(PKey other) const { return base() == other.base(); }
  /// Whether members with these keys may communicate: same partition, and at least one of them a
  /// full member (IBA 10.9.3).
  [[nodiscard]] constexpr bool admits(PKey other) const {
    return is_valid() && same_partition(other) && (is_full() || other.is_full());
  }
  friend constexpr auto operator<=>(PKey, PKey) = default;

 private:
  std::uint16_t value_ = 0;
};
inline constexpr PKey kDefaultPKey{0xffff};

/// Global identifier: 128 bits in network order; unicast = 64-bit subnet prefix + port GUID.
class Gid {
 public:
  static constexpr std::size_t kSize = 16;
  static constexpr std::uint64_t kLinkLocalPrefix = 0xfe80'0000'0000'0000;
  using Bytes = std::array<std::uint8_t, kSize>;

  constexpr Gid() = default;
  constexpr explicit Gid(const Bytes& bytes) : bytes_(bytes) {}
  constexpr Gid(std::uint64_t prefix, Guid guid) {
    for (std::size_t i = 0; i < 8; ++i) {
      bytes_[i] = static_cast<std::uint8_t>(prefix >> (56 - 8 * i));
      bytes_[8 + i] = static_cast<std::uint8_t>(guid.value() >> (56 - 8 * i));
    }
  }

  [[nodiscard]] constexpr const Bytes& bytes() const { return bytes_; }
  [[nodiscard]] constexpr std::uint64_t prefix() const { return half(0); }
  [[nodiscard]] constexpr Guid guid() const { return Guid(half(8)); }
  [[nodiscard]] constexpr bool is_multicast() const { return bytes_[0] == 0xff; }
  [[nodiscard]] constexpr bool is_zero() const { return bytes_ == Bytes{}; }
  /// In IPv6 notation: "fe80::2:c903:0:1".
  [[nodiscard]] std::string to_string() const;
  [[nodiscard]] static std::optional<Gid> parse(std::string_view text);
  friend constexpr auto operator<=>(const Gid&, const Gid&) = default;

 private:
  [[nodiscard]] constexpr std::uint64_t half(std::size_t from) const {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i) value = value << 8 | bytes_[from + i];
    return value;
  }
  Bytes bytes_{};
};

/// The interface identifier of the SA's GID in every subnet (IBA 4.1.1, table 3).
inline constexpr Guid kSaGuid{0x0200'0000'0000'0002};

/// Link-layer address of an IPoIB interface, 20 bytes: flags, QPN, GID (RFC 4391, 9.1.1).
struct HwAddress {
  static constexpr std::size_t kSize = 20;
  using Bytes = std::array<std::uint8_t, kSize>;

  std::uint8_t flags = 0;  ///< 0 on send, ignored on receipt; RFC 4755 has RC 0x80, UC 0x40
  Qpn qpn;
  Gid gid;

  [[nodiscard]] Bytes bytes() const;
  [[nodiscard]] static HwAddress from_bytes(const Bytes& bytes);
  /// 20 bytes in hexadecimal with colons: "00:00:04:01:fe:80:...".
  [[nodiscard]] std::string to_string() const;
  /// The inverse of to_string; nullopt for any other text.
  [[nodiscard]] static std::optional<HwAddress> parse(std::string_view text);
  /// Same destination: the flags are ignored (RFC 4755, 3).
  [[nodiscard]] bool same_endpoint(const HwAddress& other) const {
    return qpn == other.qpn && gid == other.gid;
  }
  friend auto operator<=>(const HwAddress&, const HwAddress&) = default;
};

}  // namespace ipoib

template <>
struct std::hash<ipoib::Gid> {
  std::size_t operator()(const ipoib::Gid& gid) const noexcept {
    return gid.guid().value() * 0x9e3779b97f4a7c15ULL ^ gid.prefix();
  }
};
template <>
struct std::hash<ipoib::PKey> {
  std::size_t operator()(ipoib::PKey key) const noexcept { return key.value(); }
};
