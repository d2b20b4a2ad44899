#include "softib/occupants.hpp"

#include <fcntl.h>

#include "ipoib/file_descriptor.hpp"
#include "softib/file_lock.hpp"

namespace softib {

std::vector<Occupant> occupants(const Fabric& fabric, const SubnetFolder& folder, NodeIndex node) {
  std::vector<Occupant> found;
  for (auto places = fabric.occupied(node); places != 0; places &= places - 1) {
    const auto place = static_cast<std::uint32_t>(__builtin_ctzll(places));
    const ipoib::FileDescriptor lock(
        ::open(folder.place_lock(node, place).c_str(), O_RDWR | O_CLOEXEC));
    if (!lock || !is_locked(lock.get(), 0)) continue;
    found.push_back({place, fabric.epoch(node, place), read_holder(lock.get())});
  }
  return found;
}

}  // namespace softib
