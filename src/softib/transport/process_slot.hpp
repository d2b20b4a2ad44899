// A process's slot on a node, to which 1/256 of the HCA's queue pair numbers belong.
#pragma once

#include <cstdint>

#include "ipoib/result.hpp"
#include "softib/fabric/fabric.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/transport/fork_guard.hpp"

namespace softib::transport {

/// A slot that this process holds, by a lock on the slot's file. The kernel releases the lock when
/// the process dies.
class ProcessSlot {
 public:
  /// Takes the lowest free slot of a node, in an order that others rely on: lock, listen, advance
  /// the epoch. Nobody sends to the slot before occupy(). Neither the node nor the subnet's folder
  /// is removed while a slot is held. Fails with ESTALE or ENOENT if they have just been removed.
  [[nodiscard]] static ipoib::Result<ProcessSlot> take(const fabric::SubnetFolder& folder,
                                                       fabric::Fabric& fabric, NodeIndex node);

  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] std::uint32_t epoch() const { return epoch_; }
  [[nodiscard]] int listener() const { return listener_.get(); }
  /// Publishes the slot, so that senders find this process.
  void occupy(fabric::Fabric& fabric) const { fabric.set_occupied(node_, index_, true); }
  /// Withdraws the slot, removes its socket and releases the lock.
  void leave(const fabric::SubnetFolder& folder, fabric::Fabric& fabric);

 private:
  NodeIndex node_ = 0;
  std::uint32_t index_ = 0;
  std::uint32_t epoch_ = 0;
  GuardedFd lock_;
  GuardedFd listener_;
};

/// Withdraws a slot whose process was killed. Does nothing if a running process holds it.
void reclaim_slot(const fabric::SubnetFolder& folder, fabric::Fabric& fabric, NodeIndex node,
                  std::uint32_t slot);

}  // namespace softib::transport
