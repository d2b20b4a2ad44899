// Joins IPv6 multicast groups on a network device while this object lives.
//
// Memberships belong to sockets (ipv6(7), IPV6_ADD_MEMBERSHIP); the kernel announces them to
// routers and switches (MLD). net.core.optmem_max limits a socket to some hundreds, so several are
// used.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/ip_group_port.hpp"

namespace ipoib::linux {

class IpGroups final : public IpGroupPort {
 public:
  static constexpr std::size_t kPerSocket = 128;
  static constexpr std::size_t kMaxGroups = 4096;

  /// Selects the device, in the network namespace of the calling thread. Leaves the groups joined
  /// on another one.
  void use(std::uint32_t interface_index);

  [[nodiscard]] Result<void> join(const Gid& mgid) override;
  void leave(const Gid& mgid) override;

 private:
  struct Socket {
    FileDescriptor descriptor;
    std::size_t groups = 0;
  };
  [[nodiscard]] std::shared_ptr<Socket> socket_with_room() const;

  std::uint32_t interface_index_ = 0;
  std::map<Gid, std::shared_ptr<Socket>> groups_;
};

}  // namespace ipoib::linux
