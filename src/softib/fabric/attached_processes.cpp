#include "softib/fabric/attached_processes.hpp"

#include <cerrno>

#include "softib/fabric/file_lock.hpp"
#include "softib/fabric/shared_file.hpp"

namespace softib::fabric {

std::vector<AttachedProcess> attached_processes(const Fabric& fabric, const SubnetFolder& folder,
                                                NodeIndex node) {
  std::vector<AttachedProcess> found;
  const auto at = folder.open_node(node);
  if (!at) return found;
  const SlotSet slots = fabric.occupied(node);
  for (auto bit = slots._Find_first(); bit < slots.size(); bit = slots._Find_next(bit)) {
    const auto slot = static_cast<std::uint32_t>(bit);
    const auto lock = open_shared(at->get(), slot_lock_name(slot), IfMissing::fail);
    if (!lock || !is_locked(lock->get(), 0)) continue;
    found.push_back({slot, fabric.epoch(node, slot), read_holder(lock->get())});
  }
  return found;
}

int first_attached_pid(const SubnetFolder& folder, NodeIndex node, std::optional<SlotAddress> own) {
  const auto at = folder.open_node(node);
  if (!at) return 0;
  for (const auto& file : folder.slot_files(node)) {
    if (!file.is_lock() || own == SlotAddress{node, file.slot}) continue;
    const auto lock = open_shared(at->get(), file.name, IfMissing::fail);
    if (!lock || !is_locked(lock->get(), 0)) continue;
    const int pid = read_holder(lock->get());
    return pid > 0 ? pid : -1;
  }
  return 0;
}

bool is_attached(const Fabric& fabric, const SubnetFolder& folder, SlotAddress slot,
                 std::uint32_t epoch) {
  if (fabric.epoch(slot.node, slot.slot) != epoch) return false;
  const auto at = folder.open_node(slot.node);
  if (!at) return false;
  const auto lock = open_shared(at->get(), slot_lock_name(slot.slot), IfMissing::fail);
  return lock && is_locked(lock->get(), 0);
}

bool may_have_qp(const Fabric& fabric, const SubnetFolder& folder, NodeIndex node, Qpn qpn) {
  if (qpn == Qpn()) return first_attached_pid(folder, node) != 0;
  const auto slot = QpnLayout::slot(qpn);
  return fabric.is_occupied(node, slot) && fabric.epoch(node, slot) == QpnLayout::epoch(qpn);
}

ipoib::Result<ipoib::FileDescriptor> block_attach(const SubnetFolder& folder) {
  auto file = open_shared(folder.fabric(), IfMissing::fail);
  if (file && !try_lock(file->get(), kAttachLockOffset)) {
    return ipoib::Error{EBUSY, "a process is attaching to the subnet: try again"};
  }
  return file;
}

}  // namespace softib::fabric
