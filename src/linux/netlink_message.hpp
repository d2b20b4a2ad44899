// Reads rtnetlink(7) messages. An attribute of the wrong size counts as missing.
#pragma once

#include <netlink/attr.h>
#include <netlink/msg.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"

namespace ipoib::linux {

template <int Max>
using Attributes = std::array<nlattr*, Max + 1>;

template <int Max>
Attributes<Max> attributes_of(nlmsghdr* message, std::size_t header) {
  Attributes<Max> found{};
  (void)nlmsg_parse(message, static_cast<int>(header), found.data(), Max, nullptr);
  return found;
}

template <class Header>
const Header* header_of(nlmsghdr* message) {
  if (nlmsg_datalen(message) < static_cast<int>(sizeof(Header))) return nullptr;
  return static_cast<const Header*>(nlmsg_data(message));
}

inline std::optional<std::uint32_t> number_of(const nlattr* attribute) {
  if (attribute == nullptr || nla_len(attribute) < static_cast<int>(sizeof(std::uint32_t))) {
    return std::nullopt;
  }
  return nla_get_u32(attribute);
}

inline std::optional<IpAddress> address_of(ConstBytes bytes, int family) {
  ByteReader reader(bytes);
  if (family == AF_INET && bytes.size() == Ipv4Address::kSize) {
    return Ipv4Address(reader.array<Ipv4Address::kSize>());
  }
  if (family == AF_INET6 && bytes.size() == Ipv6Address::kSize) {
    return Ipv6Address(reader.array<Ipv6Address::kSize>());
  }
  return std::nullopt;
}

inline std::optional<IpAddress> address_of(const nlattr* attribute, int family) {
  if (attribute == nullptr) return std::nullopt;
  const auto* const data = static_cast<const std::uint8_t*>(nla_data(attribute));
  return address_of(ConstBytes(data, static_cast<std::size_t>(nla_len(attribute))), family);
}

inline IpAddress unspecified(int family) {
  return family == AF_INET ? IpAddress(Ipv4Address{}) : IpAddress(Ipv6Address{});
}

/// Of an address of the family: the longest prefix.
inline std::size_t bits_of(int family) {
  return 8 * (family == AF_INET ? Ipv4Address::kSize : Ipv6Address::kSize);
}

/// A text, which may lack its terminating NUL; empty if there is none.
inline std::string_view text_of(const nlattr* attribute) {
  if (attribute == nullptr) return {};
  const auto* const text = static_cast<const char*>(nla_data(attribute));
  return {text, strnlen(text, static_cast<std::size_t>(nla_len(attribute)))};
}

/// A family header as the payload of a request.
template <class Header>
ConstBytes bytes_of(const Header& header) {
  return {reinterpret_cast<const std::uint8_t*>(&header), sizeof header};
}

}  // namespace ipoib::linux
