#include "softib/subnet/port_values.hpp"

#include <algorithm>

#include "softib/subnet/rates.hpp"
#include "wire/sa_records.hpp"

namespace softib::subnet {

std::size_t pkey_index(PKey partition, const PKeyTable& table) {
  const auto same = [&](PKey other) { return other.is_valid() && other.same_partition(partition); };
  return static_cast<std::size_t>(std::ranges::find_if(table, same) - table.begin());
}

std::uint8_t port_rate(const PortAttributes& port) {
  const std::uint32_t wanted = ipoib::wire::link_mbps(port.width, port.speed);
  for (std::uint8_t code = 2; code <= 24; ++code) {
    if (ipoib::wire::rate_mbps(code) == wanted) return code;
  }
  return 2;
}

PKey find_pkey(const PortAttributes& port, PKey partition) {
  const std::size_t at = pkey_index(partition, port.pkeys);
  return at == kPKeyTableSize ? PKey() : port.pkeys[at];
}

PKey shared_pkey(const PortAttributes& from, const PortAttributes& to, PKey only) {
  for (const PKey key : from.pkeys) {
    if (!key.is_valid() || (only.is_valid() && !key.same_partition(only))) continue;
    if (const PKey other = find_pkey(to, key); key.admits(other)) return key;
  }
  return PKey();
}

PKey shared_pkey(const Node& from, const Node& to, PKey only) {
  if (&from != &to) return shared_pkey(from.port, to.port, only);
  if (only.is_valid()) return find_pkey(from.port, only);
  const auto valid = [](PKey key) { return key.is_valid(); };
  const auto first = std::find_if(from.port.pkeys.begin(), from.port.pkeys.end(), valid);
  return first == from.port.pkeys.end() ? PKey() : *first;
}

}  // namespace softib::subnet
