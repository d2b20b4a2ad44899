#include "softib/subnetd/attached_processes.hpp"

#include <cerrno>

#include "softib/fabric/file_lock.hpp"
#include "softib/fabric/shared_file.hpp"

namespace softib::subnetd {

std::vector<AttachedProcess> attached_processes(const fabric::Fabric& fabric,
                                                const fabric::SubnetFolder& folder,
                                                NodeIndex node) {
  std::vector<AttachedProcess> found;
  const auto at = folder.open_node(node);
  if (!at) return found;
  for (auto slots = fabric.occupied(node); slots != 0; slots &= slots - 1) {
    const auto slot = static_cast<std::uint32_t>(__builtin_ctzll(slots));
    const auto lock =
        fabric::open_shared(at->get(), fabric::slot_lock_name(slot), fabric::IfMissing::fail);
    if (!lock || !fabric::is_locked(lock->get(), 0)) continue;
    found.push_back({slot, fabric.epoch(node, slot), fabric::read_holder(lock->get())});
  }
  return found;
}

int first_attached_pid(const fabric::SubnetFolder& folder, NodeIndex node) {
  const auto at = folder.open_node(node);
  for (std::uint32_t slot = 0; at && slot < QpnLayout::kSlots; ++slot) {
    const auto lock =
        fabric::open_shared(at->get(), fabric::slot_lock_name(slot), fabric::IfMissing::fail);
    if (!lock || !fabric::is_locked(lock->get(), 0)) continue;
    const int pid = fabric::read_holder(lock->get());
    return pid > 0 ? pid : -1;
  }
  return 0;
}

ipoib::Result<ipoib::FileDescriptor> block_attach(const fabric::SubnetFolder& folder) {
  auto file = fabric::open_shared(folder.fabric(), fabric::IfMissing::fail);
  if (file && !fabric::try_lock(file->get(), fabric::kAttachLockOffset)) {
    return ipoib::Error{EBUSY, "a process is attaching to the subnet; try again"};
  }
  return file;
}

}  // namespace softib::subnetd
