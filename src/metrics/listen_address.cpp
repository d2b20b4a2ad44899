#include "metrics/listen_address.hpp"

#include <cerrno>
#include <optional>

#include "ipoib/number.hpp"

namespace ipoib::metrics {

namespace {

constexpr Ipv4Address kLoopback{0x7f000001};

/// Parses "10.0.0.1" or "[fd00::1]".
std::optional<IpAddress> parse_host(std::string_view text) {
  const bool has_brackets = text.starts_with('[') && text.ends_with(']');
  const auto address =
      parse_ip_address(std::string(has_brackets ? text.substr(1, text.size() - 2) : text));
  if (!address || std::holds_alternative<Ipv6Address>(*address) != has_brackets)
    return std::nullopt;
  return address;
}

}  // namespace

Result<ListenAddress> ListenAddress::parse(std::string_view text) {
  const auto colon = text.rfind(':');
  const bool has_host = colon != std::string_view::npos;
  const auto port = parse_number<std::uint16_t>(has_host ? text.substr(colon + 1) : text);
  const auto host =
      has_host ? parse_host(text.substr(0, colon)) : std::optional<IpAddress>(kLoopback);
  if (!port || !host) {
    return Error{EINVAL, "\"" + std::string(text) +
                             "\" is no address to listen on; expected PORT, ADDRESS:PORT or "
                             "[ADDRESS]:PORT"};
  }
  return ListenAddress{*host, *port};
}

std::string ListenAddress::text() const {
  const bool is_ipv6 = std::holds_alternative<Ipv6Address>(host);
  return (is_ipv6 ? "[" : "") + to_string(host) + (is_ipv6 ? "]:" : ":") + std::to_string(port);
}

}  // namespace ipoib::metrics
