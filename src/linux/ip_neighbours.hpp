// Looks up IPv6 neighbours of a network device in the kernel's neighbour table.
//
// Entries are created with NTF_USE, which makes the kernel solicit the neighbour as if it had a
// packet for it.
#pragma once

#include <cstdint>
#include <memory>

#include "ipoib/ip_neighbour_port.hpp"
#include "ipoib/result.hpp"
#include "linux/netlink_sockets.hpp"

namespace ipoib::linux {

class IpNeighbours final : public IpNeighbourPort {
 public:
  /// Opens its sockets in the network namespace of the calling thread.
  [[nodiscard]] static Result<std::unique_ptr<IpNeighbours>> open();

  void use(std::uint32_t interface_index) { interface_index_ = interface_index; }
  void resolve(const Gid& gid) override;
  [[nodiscard]] State state(const Gid& gid) override;

  /// Readable when the state of some neighbour has changed.
  [[nodiscard]] int descriptor() const;
  void take_events();

 private:
  explicit IpNeighbours(NetlinkSockets sockets)
      : events_(std::move(sockets.events)), queries_(std::move(sockets.queries)) {}

  NetlinkSockets::Socket events_;
  NetlinkSockets::Socket queries_;
  std::uint32_t interface_index_ = 0;
};

}  // namespace ipoib::linux
