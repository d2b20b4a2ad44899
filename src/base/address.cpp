#include "ipoib/address.hpp"

#include <arpa/inet.h>

#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"

namespace ipoib {

namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

std::optional<std::uint8_t> hex_byte(std::string_view text) {
  std::uint8_t value = 0;
  for (const char c : text) {
    const char lower = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
    const auto digit = kHexDigits.find(lower);
    if (digit == std::string_view::npos) return std::nullopt;
    value = static_cast<std::uint8_t>(std::size_t{value} << 4 | digit);
  }
  return value;
}

}  // namespace

std::string Gid::to_string() const { return Ipv6Address(bytes_).to_string(); }

std::optional<Gid> Gid::parse(std::string_view text) {
  const auto address = Ipv6Address::parse(text);
  if (!address) return std::nullopt;
  return Gid(address->bytes());
}

HwAddress::Bytes HwAddress::bytes() const {
  Bytes out;
  ByteWriter writer(out);
  writer.u8(flags);
  writer.u24(qpn.value());
  writer.bytes(gid.bytes());
  return out;
}

HwAddress HwAddress::from_bytes(const Bytes& bytes) {
  ByteReader reader(bytes);
  HwAddress out;
  out.flags = reader.u8();
  out.qpn = Qpn(reader.u24());
  out.gid = Gid(reader.array<Gid::kSize>());
  return out;
}

std::string HwAddress::to_string() const {
  std::string out;
  out.reserve(kSize * 3);
  for (const std::uint8_t byte : bytes()) {
    if (!out.empty()) out += ':';
    out += kHexDigits[byte >> 4];
    out += kHexDigits[byte & 0xf];
  }
  return out;
}

std::optional<HwAddress> HwAddress::parse(std::string_view text) {
  if (text.size() != kSize * 3 - 1) return std::nullopt;
  Bytes bytes;
  for (std::size_t i = 0; i < kSize; ++i) {
    if (i > 0 && text[3 * i - 1] != ':') return std::nullopt;
    const auto byte = hex_byte(text.substr(3 * i, 2));
    if (!byte) return std::nullopt;
    bytes[i] = *byte;
  }
  return from_bytes(bytes);
}

}  // namespace ipoib
