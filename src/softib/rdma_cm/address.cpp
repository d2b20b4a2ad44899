#include "softib/rdma_cm/address.hpp"

#include "ipoib/overloaded.hpp"

namespace softib::rdma_cm {

using ipoib::Ipv6Address;
using ipoib::Overloaded;

namespace {
constexpr std::uint64_t kPortBits = 0xffff;
}  // namespace

bool is_any(const Address& address) {
  return std::visit(Overloaded{
                        [](std::monostate) { return true; },
                        [](const IpEndpoint& ip) {
                          return std::visit([](const auto& one) { return one.is_unspecified(); },
                                            ip.address);
                        },
                        [](const IbEndpoint& ib) { return ib.gid.is_zero(); },
                    },
                    address);
}

bool is_loopback(const Address& address) {
  const auto* const ip = std::get_if<IpEndpoint>(&address);
  return ip != nullptr && softib::is_loopback(ip->address);
}

bool is_wildcard(const Address& address) { return is_any(address) || is_loopback(address); }

bool is_multicast(const Address& address) {
  return std::visit(Overloaded{
                        [](std::monostate) { return false; },
                        [](const IpEndpoint& ip) {
                          return std::visit([](const auto& one) { return one.is_multicast(); },
                                            ip.address);
                        },
                        [](const IbEndpoint& ib) { return ib.gid.is_multicast(); },
                    },
                    address);
}

bool is_same_kind(const Address& one, const Address& other) {
  if (one.index() != other.index()) return false;
  const auto* const ip = std::get_if<IpEndpoint>(&one);
  return ip == nullptr || family(ip->address) == family(std::get<IpEndpoint>(other).address);
}

bool is_same_host(const Address& one, const Address& other) {
  if (!is_same_kind(one, other)) return false;
  return std::visit(
      Overloaded{
          [](std::monostate) { return true; },
          [&](const IpEndpoint& ip) { return ip.address == std::get<IpEndpoint>(other).address; },
          [&](const IbEndpoint& ib) { return ib.gid == std::get<IbEndpoint>(other).gid; },
      },
      one);
}

std::uint16_t port_of(const Address& address) {
  return std::visit(
      Overloaded{
          [](std::monostate) { return std::uint16_t{0}; },
          [](const IpEndpoint& ip) { return ip.port; },
          [](const IbEndpoint& ib) {
            return static_cast<std::uint16_t>(ib.service_id & ib.service_mask & kPortBits);
          },
      },
      address);
}

Address with_port(Address address, std::uint16_t port) {
  std::visit(Overloaded{
                 [](std::monostate) {},
                 [&](IpEndpoint& ip) { ip.port = port; },
                 [&](IbEndpoint& ib) {
                   ib.service_id = (ib.service_id & ~kPortBits) | port;
                   ib.service_mask = ~std::uint64_t{0};
                 },
             },
             address);
  return address;
}

Address any_like(const Address& other) {
  return std::visit(Overloaded{
                        [](std::monostate) { return Address(); },
                        [](const IpEndpoint& ip) {
                          IpEndpoint any;
                          if (family(ip.address) == IpFamily::v6) any.address = Ipv6Address();
                          return Address(any);
                        },
                        [](const IbEndpoint& ib) {
                          IbEndpoint any;
                          any.pkey = ib.pkey;
                          return Address(any);
                        },
                    },
                    other);
}

wire::ServiceId service_id_of(PortSpace space, const Address& address) {
  if (const auto* const ib = std::get_if<IbEndpoint>(&address)) {
    return wire::ServiceId(ib->service_id);
  }
  return wire::ServiceId(std::uint64_t{static_cast<std::uint16_t>(space)} << 16 | port_of(address));
}

}  // namespace softib::rdma_cm
