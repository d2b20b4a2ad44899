#include "softib/rdma_cm/id.hpp"

#include <algorithm>

#include "softib/core/ip_gid.hpp"

namespace softib::rdma_cm {

std::string_view name(IdState state) {
  static constexpr std::array<std::string_view, 9> kNames{
      "Idle",          "AddressBound", "AddressQuery", "AddressResolved", "RouteQuery",
      "RouteResolved", "Connect",      "Disconnected", "Listen"};
  return kNames[static_cast<std::size_t>(state)];
}

bool is_family_only(const Id& id, const Address& address) {
  const auto* const ip = std::get_if<IpEndpoint>(&address);
  return id.is_family_only || (ip != nullptr && family(ip->address) == IpFamily::v4);
}

UserData UserData::of(ipoib::ConstBytes data) {
  UserData user;
  user.size = static_cast<std::uint8_t>(std::min(data.size(), kMaxSize));
  std::copy_n(data.begin(), user.size, user.bytes.begin());
  return user;
}

Gid source_gid(const Id& id, const PortAttributes& port) {
  const auto* const ip = std::get_if<IpEndpoint>(&id.source);
  if (!port.is_ethernet() || ip == nullptr) return port.gid();
  const auto gid = ip_gid(ip->address);
  return port.has(gid) ? gid : port.gid();
}

}  // namespace softib::rdma_cm
