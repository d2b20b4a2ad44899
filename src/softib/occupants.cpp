#include "softib/occupants.hpp"

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

}  // namespace softib
