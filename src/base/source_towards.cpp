#include "ipoib/source_towards.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

#include "ipoib/bytes.hpp"
#include "ipoib/file_descriptor.hpp"
#include "ipoib/overloaded.hpp"

namespace ipoib {

namespace {

constexpr std::uint16_t kDiscard = 9;  // nothing is sent

/// Writes `address` as a socket address, and returns the size of that.
socklen_t write_address(const IpAddress& address, sockaddr_storage& to) {
  const auto fill = [&](auto& out, auto& port, auto& ip, const auto& from) {
    store_be(reinterpret_cast<std::uint8_t*>(&port), kDiscard);
    std::memcpy(&ip, from.bytes().data(), sizeof ip);
    static_assert(sizeof ip == sizeof from.bytes());
    return static_cast<socklen_t>(sizeof out);
  };
  return std::visit(Overloaded{[&](const Ipv4Address& from) {
                                 auto& out = reinterpret_cast<sockaddr_in&>(to);
                                 out.sin_family = AF_INET;
                                 return fill(out, out.sin_port, out.sin_addr, from);
                               },
                               [&](const Ipv6Address& from) {
                                 auto& out = reinterpret_cast<sockaddr_in6&>(to);
                                 out.sin6_family = AF_INET6;
                                 return fill(out, out.sin6_port, out.sin6_addr, from);
                               }},
                    address);
}

template <class Address>
Address address_at(const void* bytes) {
  typename Address::Bytes out;
  std::memcpy(out.data(), bytes, out.size());
  return Address(out);
}

}  // namespace

std::optional<IpAddress> source_towards(const IpAddress& destination) {
  sockaddr_storage address{};
  socklen_t size = write_address(destination, address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const FileDescriptor socket(::socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP));
  if (!socket || ::connect(socket.get(), generic, size) != 0) return std::nullopt;
  if (::getsockname(socket.get(), generic, &size) != 0) return std::nullopt;
  if (address.ss_family == AF_INET) {
    return address_at<Ipv4Address>(&reinterpret_cast<sockaddr_in&>(address).sin_addr);
  }
  return address_at<Ipv6Address>(&reinterpret_cast<sockaddr_in6&>(address).sin6_addr);
}

}  // namespace ipoib
