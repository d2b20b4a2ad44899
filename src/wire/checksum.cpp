#include "wire/checksum.hpp"

namespace ipoib::wire {

InternetChecksum& InternetChecksum::add(ConstBytes bytes) {
  ByteReader reader(bytes);
  while (reader.left() >= 2) sum_ += reader.u16();
  // An odd last octet is the high one of its word (RFC 1071, 4.1).
  if (reader.left() == 1) sum_ += std::uint64_t{reader.u8()} << 8;
  return *this;
}

InternetChecksum& InternetChecksum::add_pseudo_header(Ipv4Address source, Ipv4Address destination,
                                                      std::uint8_t protocol, std::uint16_t length) {
  add(source.bytes()).add(destination.bytes());
  sum_ += std::uint32_t{protocol} + length;
  return *this;
}

InternetChecksum& InternetChecksum::add_pseudo_header(const Ipv6Address& source,
                                                      const Ipv6Address& destination,
                                                      std::uint8_t protocol, std::uint32_t length) {
  add(source.bytes()).add(destination.bytes());
  sum_ += std::uint64_t{protocol} + length;
  return *this;
}

std::uint16_t InternetChecksum::value() const {
  std::uint64_t sum = sum_;
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

}  // namespace ipoib::wire
