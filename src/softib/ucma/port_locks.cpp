#include "softib/ucma/port_locks.hpp"

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "ipoib/overloaded.hpp"
#include "softib/fabric/cm_locks.hpp"
#include "softib/fabric/file_lock.hpp"
#include "softib/fabric/shared_file.hpp"

namespace softib::ucma {

using ipoib::Error;

namespace {

constexpr std::int64_t kBytesOfPort = 1 << 16;
constexpr std::int64_t kBytesOfSection = 1 << 14;
constexpr std::int64_t kSections = 3;
constexpr std::int64_t kAllAddresses = 0;
constexpr std::int64_t kOtherKinds = 1;
constexpr std::int64_t kFirstAddress = 2;

std::int64_t offset_of(rdma_cm::PortSpace space, std::uint16_t port) {
  return (std::int64_t{static_cast<std::uint16_t>(space)} << 16 | port) * kBytesOfPort;
}

/// A hash that is the same in each process: FNV-1a.
std::int64_t hash_of(ipoib::ConstBytes bytes) {
  std::uint32_t hash = 0x811c'9dc5;
  for (const std::uint8_t byte : bytes) hash = (hash ^ byte) * 0x0100'0193U;
  return kFirstAddress + (hash ^ hash >> 16) % (kBytesOfSection - kFirstAddress);
}

std::int64_t section_of(const rdma_cm::Address& address) {
  const auto* const ip = std::get_if<rdma_cm::IpEndpoint>(&address);
  if (ip == nullptr) return 2;
  return family(ip->address) == IpFamily::v4 ? 0 : 1;
}

std::int64_t byte_of(const rdma_cm::Address& address) {
  return std::visit(ipoib::Overloaded{
                        [](std::monostate) { return kAllAddresses; },
                        [](const rdma_cm::IpEndpoint& ip) {
                          return std::visit([](const auto& one) { return hash_of(one.bytes()); },
                                            ip.address);
                        },
                        [](const rdma_cm::IbEndpoint& ib) { return hash_of(ib.gid.bytes()); },
                    },
                    address);
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

ipoib::Result<void> PortLocks::lock_port(const rdma_cm::PortRequest& request, std::uint16_t port) {
  if (!open(ports_, fabric::kPortsName)) return rdma_cm::not_locked(EAGAIN, "the port");
  const auto lock = [&](std::int64_t offset, std::int64_t length = 1) {
    return request.reuses_address ? fabric::try_lock_shared(ports_.get(), offset, length)
                                  : fabric::try_lock(ports_.get(), offset, length);
  };
  Error not_available{EADDRNOTAVAIL, "another process has the port at all addresses"};
  const auto first = offset_of(request.space, port);
  const auto own = first + section_of(request.address) * kBytesOfSection;
  if (rdma_cm::is_wildcard(request.address)) {
    const bool is_locked = request.is_family_only ? lock(own, kBytesOfSection)
                                                  : lock(first, kSections * kBytesOfSection);
    if (!is_locked) return not_available;
    return {};
  }
  if (!lock(own + byte_of(request.address))) {
    if (fabric::is_locked(ports_.get(), own + kAllAddresses)) return not_available;
    return Error{EADDRINUSE, "another process has the port"};
  }
  for (std::int64_t section = 0; section < kSections && !request.is_family_only; ++section) {
    const auto other = first + section * kBytesOfSection;
    if (other == own) continue;
    if (!fabric::try_lock_shared(ports_.get(), other + kOtherKinds)) return not_available;
  }
  return {};
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
  return open(groups_, fabric::kGroupsName) && fabric::lock_group(groups_.get(), mgid, join_state);
}

bool PortLocks::release_group(const Gid& mgid, std::uint8_t join_state) {
  return groups_ && fabric::unlock_group(groups_.get(), mgid, join_state);
}

}  // namespace softib::ucma
