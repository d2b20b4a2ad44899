#include "softib/ucma/port_locks.hpp"

#include <algorithm>
#include <functional>
#include <string_view>

#include "ipoib/overloaded.hpp"
#include "softib/fabric/cm_locks.hpp"
#include "softib/fabric/file_lock.hpp"
#include "softib/fabric/shared_file.hpp"

namespace softib::ucma {

namespace {

constexpr std::int64_t kBytesOfPort = 1 << 16;

std::int64_t offset_of(rdma_cm::PortSpace space, std::uint16_t port) {
  return (std::int64_t{static_cast<std::uint16_t>(space)} << 16 | port) * kBytesOfPort;
}

/// A hash that is the same in each process: FNV-1a.
std::int64_t hash_of(ipoib::ConstBytes bytes) {
  std::uint32_t hash = 0x811c'9dc5;
  for (const std::uint8_t byte : bytes) hash = (hash ^ byte) * 0x0100'0193U;
  return (hash ^ hash >> 16) % kBytesOfPort;
}

std::int64_t byte_of(const rdma_cm::Address& address) {
  return std::visit(ipoib::Overloaded{
                        [](std::monostate) { return std::int64_t{0}; },
                        [](const rdma_cm::IpEndpoint& ip) {
                          return std::visit([](const auto& one) { return hash_of(one.bytes()); },
                                            ip.address);
                        },
                        [](const rdma_cm::IbEndpoint& ib) { return hash_of(ib.gid.bytes()); },
                    },
                    address);
}

/// | join state | hash of the MGID |
std::int64_t offset_of(const Gid& mgid, std::uint8_t join_state) {
  const std::uint64_t hash = std::hash<Gid>()(mgid) & 0xffff'ffff'ffff;
  return std::int64_t{join_state} << 48 | static_cast<std::int64_t>(hash);
}

}  // namespace

bool PortLocks::open(transport::GuardedFd& file, const char* name) const {
  if (file) return true;
  const auto at = folder_.open_node(node_);
  if (!at) return false;
  const transport::ForkLock held;
  auto opened = fabric::open_shared(at->get(), name, fabric::IfMissing::create);
  if (!opened) return false;
  file = transport::GuardedFd(std::move(*opened), held);
  return true;
}

bool PortLocks::lock_port(rdma_cm::PortSpace space, std::uint16_t port,
                          const rdma_cm::Address& address) {
  if (!open(ports_, fabric::kPortsName)) return false;
  const auto offset = offset_of(space, port);
  if (rdma_cm::is_any(address)) return fabric::try_lock(ports_.get(), offset, kBytesOfPort);
  return fabric::try_lock(ports_.get(), offset + byte_of(address));
}

void PortLocks::unlock_port(rdma_cm::PortSpace space, std::uint16_t port) {
  if (ports_) fabric::unlock(ports_.get(), offset_of(space, port), kBytesOfPort);
}

bool PortLocks::announce(ipoib::wire::ServiceId service) {
  return open(services_, fabric::kServicesName) && fabric::lock_service(services_.get(), service);
}

void PortLocks::withdraw(ipoib::wire::ServiceId service) {
  if (services_) fabric::unlock_service(services_.get(), service);
}

bool PortLocks::hold_group(const Gid& mgid, std::uint8_t join_state) {
  return open(groups_, fabric::kGroupsName) &&
         fabric::try_lock_shared(groups_.get(), offset_of(mgid, join_state));
}

/// Who can lock it exclusively is the last one.
bool PortLocks::release_group(const Gid& mgid, std::uint8_t join_state) {
  if (!groups_) return false;
  const auto offset = offset_of(mgid, join_state);
  const bool is_last = fabric::try_lock(groups_.get(), offset);
  fabric::unlock(groups_.get(), offset);
  return is_last;
}

}  // namespace softib::ucma
