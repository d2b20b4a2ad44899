#include "softib/rdma_cm/socket_addresses.hpp"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "ipoib/overloaded.hpp"

namespace softib::rdma_cm {

using ipoib::ByteReader;
using ipoib::ByteWriter;

namespace {

constexpr sa_family_t kIbFamily = 27;  ///< AF_IB, which C libraries may not know
constexpr std::size_t kIbSize = 48;

sa_family_t family_of(ipoib::ConstBytes from) {
  sa_family_t family = AF_UNSPEC;
  if (from.size() >= sizeof family) std::memcpy(&family, from.data(), sizeof family);
  return family;
}

IpEndpoint read_ipv4(ByteReader reader) {
  IpEndpoint ip;
  ip.port = reader.u16();
  ip.address = ipoib::Ipv4Address(reader.array<4>());
  return ip;
}

IpEndpoint read_ipv6(ByteReader reader) {
  IpEndpoint ip;
  ip.port = reader.u16();
  ip.flow_info = reader.u32();
  ip.address = ipoib::Ipv6Address(reader.array<16>());
  const auto scope = reader.array<sizeof ip.scope_id>();
  std::memcpy(&ip.scope_id, scope.data(), scope.size());
  return ip;
}

IbEndpoint read_ib(ByteReader reader) {
  IbEndpoint ib;
  ib.pkey = PKey(reader.u16());
  ib.flow_info = reader.u32();
  ib.gid = Gid(reader.array<Gid::kSize>());
  ib.service_id = reader.u64();
  ib.service_mask = reader.u64();
  const auto scope = reader.array<sizeof ib.scope_id>();
  std::memcpy(&ib.scope_id, scope.data(), scope.size());
  return ib;
}

void write_ip(const IpEndpoint& ip, ByteWriter& writer) {
  writer.u16(ip.port);
  if (const auto* const v4 = std::get_if<ipoib::Ipv4Address>(&ip.address)) {
    return writer.bytes(v4->bytes());
  }
  writer.u32(ip.flow_info);
  writer.bytes(std::get<ipoib::Ipv6Address>(ip.address).bytes());
  std::array<std::uint8_t, sizeof ip.scope_id> scope;
  std::memcpy(scope.data(), &ip.scope_id, scope.size());
  writer.bytes(scope);
}

void write_ib(const IbEndpoint& ib, ByteWriter& writer) {
  writer.u16(ib.pkey.value());
  writer.u32(ib.flow_info);
  writer.bytes(ib.gid.bytes());
  writer.u64(ib.service_id);
  writer.u64(ib.service_mask);
  std::array<std::uint8_t, sizeof ib.scope_id> scope;
  std::memcpy(scope.data(), &ib.scope_id, scope.size());
  writer.bytes(scope);
}

}  // namespace

std::size_t address_size(sa_family_t family) {
  if (family == AF_INET) return sizeof(sockaddr_in);
  if (family == AF_INET6) return sizeof(sockaddr_in6);
  return family == kIbFamily ? kIbSize : 0;
}

std::optional<Address> read_address(ipoib::ConstBytes from) {
  const sa_family_t family = family_of(from);
  if (family == AF_UNSPEC) return Address();
  const std::size_t size = address_size(family);
  if (size == 0 || from.size() < size) return std::nullopt;
  const ByteReader reader(from.first(size).subspan(sizeof family));
  if (family == AF_INET) return read_ipv4(reader);
  if (family == AF_INET6) return read_ipv6(reader);
  return read_ib(reader);
}

std::size_t write_address(const Address& address, sockaddr_storage& to) {
  to = {};
  const auto bytes = ipoib::MutableBytes(reinterpret_cast<std::uint8_t*>(&to), sizeof to);
  ByteWriter writer(bytes.subspan(sizeof to.ss_family));
  to.ss_family = std::visit(ipoib::Overloaded{
                                [](std::monostate) { return sa_family_t{AF_UNSPEC}; },
                                [&](const IpEndpoint& ip) {
                                  write_ip(ip, writer);
                                  return family(ip.address) == ipoib::IpFamily::v4
                                             ? sa_family_t{AF_INET}
                                             : sa_family_t{AF_INET6};
                                },
                                [&](const IbEndpoint& ib) {
                                  write_ib(ib, writer);
                                  return kIbFamily;
                                },
                            },
                            address);
  return address_size(to.ss_family);
}

}  // namespace softib::rdma_cm
