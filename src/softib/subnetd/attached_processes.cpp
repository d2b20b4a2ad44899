#include "softib/subnetd/attached_processes.hpp"

#include <cerrno>

#include "softib/fabric/file_lock.hpp"
#include "softib/fabric/shared_file.hpp"

namespace softib::subnetd {

std::vector<Occupant> occupants(const fabric::Fabric& fabric, const fabric::SubnetFolder& folder,
                                NodeIndex node) {
  std::vector<Occupant> found;
  const auto at = folder.open_node(node);
  if (!at) return found;
  for (auto places = fabric.occupied(node); places != 0; places &= places - 1) {
    const auto place = static_cast<std::uint32_t>(__builtin_ctzll(places));
    const auto lock =
        fabric::open_shared(at->get(), fabric::place_lock_name(place), fabric::IfMissing::fail);
    if (!lock || !fabric::is_locked(lock->get(), 0)) continue;
    found.push_back({place, fabric.epoch(node, place), fabric::read_holder(lock->get())});
  }
  return found;
}

int inhabitant(const fabric::SubnetFolder& folder, NodeIndex node) {
  const auto at = folder.open_node(node);
  for (std::uint32_t place = 0; at && place < QpnLayout::kSlots; ++place) {
    const auto lock =
        fabric::open_shared(at->get(), fabric::place_lock_name(place), fabric::IfMissing::fail);
    if (!lock || !fabric::is_locked(lock->get(), 0)) continue;
    const int pid = fabric::read_holder(lock->get());
    return pid > 0 ? pid : -1;
  }
  return 0;
}

ipoib::Result<ipoib::FileDescriptor> shut_gate(const fabric::SubnetFolder& folder) {
  auto file = fabric::open_shared(folder.fabric(), fabric::IfMissing::fail);
  if (file && !fabric::try_lock(file->get(), fabric::kGateOctet)) {
    return ipoib::Error{EBUSY, "a process is just coming to the subnet; try again"};
  }
  return file;
}

}  // namespace softib::subnetd
