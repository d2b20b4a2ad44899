#include "softib/occupants.hpp"

#include <cerrno>

#include "softib/file_lock.hpp"
#include "softib/shared_file.hpp"

namespace softib {

std::vector<Occupant> occupants(const Fabric& fabric, const SubnetFolder& folder, NodeIndex node) {
  std::vector<Occupant> found;
  const auto at = folder.open_node(node);
  if (!at) return found;
  for (auto places = fabric.occupied(node); places != 0; places &= places - 1) {
    const auto place = static_cast<std::uint32_t>(__builtin_ctzll(places));
    const auto lock = open_shared(at->get(), place_lock_name(place), IfMissing::fail);
    if (!lock || !is_locked(lock->get(), 0)) continue;
    found.push_back({place, fabric.epoch(node, place), read_holder(lock->get())});
  }
  return found;
}

int inhabitant(const SubnetFolder& folder, NodeIndex node) {
  const auto at = folder.open_node(node);
  for (std::uint32_t place = 0; at && place < QpnLayout::kPlaces; ++place) {
    const auto lock = open_shared(at->get(), place_lock_name(place), IfMissing::fail);
    if (!lock || !is_locked(lock->get(), 0)) continue;
    const int pid = read_holder(lock->get());
    return pid > 0 ? pid : -1;
  }
  return 0;
}

ipoib::Result<ipoib::FileDescriptor> shut_gate(const SubnetFolder& folder) {
  auto file = open_shared(folder.fabric(), IfMissing::fail);
  if (file && !try_lock(file->get(), kGateOctet)) {
    return ipoib::Error{EBUSY, "a process is just coming to the subnet; try again"};
  }
  return file;
}

}  // namespace softib
