#include "ipoib/ip.hpp"

#include <arpa/inet.h>

namespace ipoib {

namespace {

template <class Address>
std::optional<Address> parse_with(int family, std::string_view text) {
  typename Address::Bytes bytes;
  if (inet_pton(family, std::string(text).c_str(), bytes.data()) != 1) return std::nullopt;
  return Address(bytes);
}

template <class Bytes>
std::string format_with(int family, const Bytes& bytes) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(family, bytes.data(), text.data(), text.size());
  return text.data();
}

}  // namespace

std::string Ipv4Address::to_string() const { return format_with(AF_INET, bytes_); }
std::optional<Ipv4Address> Ipv4Address::parse(std::string_view text) {
  return parse_with<Ipv4Address>(AF_INET, text);
}

std::string Ipv6Address::to_string() const { return format_with(AF_INET6, bytes_); }
std::optional<Ipv6Address> Ipv6Address::parse(std::string_view text) {
  return parse_with<Ipv6Address>(AF_INET6, text);
}

std::string to_string(const IpAddress& address) {
  return std::visit([](const auto& any) { return any.to_string(); }, address);
}

std::optional<IpAddress> parse_ip_address(std::string_view text) {
  if (const auto v4 = Ipv4Address::parse(text)) return *v4;
  if (const auto v6 = Ipv6Address::parse(text)) return *v6;
  return std::nullopt;
}

}  // namespace ipoib
