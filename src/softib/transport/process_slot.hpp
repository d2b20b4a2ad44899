// The taking of a place: which of the 64 parts of an HCA's queue pair numbers this process has.
#pragma once

#include <cstdint>

#include "ipoib/result.hpp"
#include "softib/fabric/fabric.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/transport/fork_guard.hpp"

namespace softib::transport {

/// A place that this process holds. The kernel lets go of it when the process dies.
class Place {
 public:
  /// Takes the lowest free place of a node, and listens there. The order is what others rely on:
  /// lock, listen, advance the epoch. Nobody sends to the place before occupy(). While a place is
  /// held, its node and the subnet's folder are not taken away. ESTALE, ENOENT: they have been.
  [[nodiscard]] static ipoib::Result<Place> take(const fabric::SubnetFolder& folder,
                                                 fabric::Fabric& fabric, NodeIndex node);

  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] std::uint32_t epoch() const { return epoch_; }
  [[nodiscard]] int listener() const { return listener_.get(); }
  void occupy(fabric::Fabric& fabric) const { fabric.set_occupied(node_, index_, true); }
  /// The end of it, in good order: nobody is led here any more, and the place is free.
  void leave(const fabric::SubnetFolder& folder, fabric::Fabric& fabric);

 private:
  NodeIndex node_ = 0;
  std::uint32_t index_ = 0;
  std::uint32_t epoch_ = 0;
  GuardedFd lock_;
  GuardedFd listener_;
};

/// Takes back what a killed process has left in its place. Nothing, if somebody lives there.
void clean_place(const fabric::SubnetFolder& folder, fabric::Fabric& fabric, NodeIndex node,
                 std::uint32_t place);

}  // namespace softib::transport
