// ServiceRecord: a service that a port has announced to the SA.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"

namespace ipoib::wire {

/// ServiceRecord (IBA 15.2.5.14), 176 bytes. ServiceID, GID and P_Key identify it.
struct ServiceRecord {
  static constexpr std::size_t kSize = 176;
  static constexpr std::size_t kKeySize = 16;
  static constexpr std::size_t kNameSize = 64;
  static constexpr std::size_t kDataSize = 64;
  static constexpr std::uint32_t kNoExpiry = 0xffffffff;
  enum Mask : std::uint64_t {
    kServiceId = 1ULL << 0,
    kGid = 1ULL << 1,
    kPKey = 1ULL << 2,
    kLease = 1ULL << 4,
    kKey = 1ULL << 5,
    kName = 1ULL << 6,
  };
  std::uint64_t service_id = 0;
  Gid gid;
  PKey pkey;
  std::uint32_t lease = 0;                     ///< seconds, or kNoExpiry
  std::array<std::uint8_t, kKeySize> key{};    ///< zero in the response to an untrusted request
  std::array<char, kNameSize> name{};          ///< UTF-8, zero-padded
  std::array<std::uint8_t, kDataSize> data{};  ///< in a format of the service's own

  [[nodiscard]] static std::optional<ServiceRecord> parse(ConstBytes record);
  void emit(MutableBytes to) const;
  friend bool operator==(const ServiceRecord&, const ServiceRecord&) = default;
};

using ServiceTable = std::vector<ServiceRecord>;

}  // namespace ipoib::wire
