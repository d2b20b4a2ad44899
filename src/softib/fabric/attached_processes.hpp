// The processes that are attached to an HCA: those that hold the lock of one of its process slots.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "softib/fabric/fabric.hpp"
#include "softib/fabric/folder.hpp"

namespace softib::fabric {

struct AttachedProcess {
  std::uint32_t slot = 0;
  std::uint32_t epoch = 0;
  int pid = 0;  ///< as the process wrote it into its lock file; 0 if it did not
};

/// A process slot of a node.
struct SlotAddress {
  NodeIndex node = 0;
  std::uint32_t slot = 0;
  friend bool operator==(const SlotAddress&, const SlotAddress&) = default;
};

/// The attached processes of a node, in the order of their slots.
[[nodiscard]] std::vector<AttachedProcess> attached_processes(const Fabric& fabric,
                                                              const SubnetFolder& folder,
                                                              NodeIndex node);

/// The process in the first slot of a node whose lock is held, whether the fabric file marks the
/// slot as occupied or not. Returns 0 if there is none, and -1 if it did not write its pid. Ignores
/// the slot `own`. The result is valid only while block_attach() is in force.
[[nodiscard]] int first_attached_pid(const SubnetFolder& folder, NodeIndex node,
                                     std::optional<SlotAddress> own = std::nullopt);

/// Whether the process still runs that had a slot in this epoch.
[[nodiscard]] bool is_attached(const Fabric& fabric, const SubnetFolder& folder, SlotAddress slot,
                               std::uint32_t epoch);

/// Whether an attached process of a node can have a queue pair of this number, or for Qpn() any.
[[nodiscard]] bool may_have_qp(const Fabric& fabric, const SubnetFolder& folder, NodeIndex node,
                               Qpn qpn);

/// Keeps processes from attaching (kAttachLockOffset) for the lifetime of the descriptor. EBUSY if
/// a process is attaching at this moment.
[[nodiscard]] ipoib::Result<ipoib::FileDescriptor> block_attach(const SubnetFolder& folder);

}  // namespace softib::fabric
