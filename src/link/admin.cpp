// What operators see and change.
#include <cerrno>

#include "link/arp_input.hpp"
#include "link/link.hpp"
#include "link/link_impl.hpp"

namespace ipoib::link {

NeighbourPage Link::list(NeighbourCursor from, std::size_t limit, TimePoint now) const {
  return impl_->neighbours.list(from, limit, now);
}

std::optional<NeighbourInfo> Link::get(const IpAddress& address, TimePoint now) const {
  const Neighbour* const entry = impl_->neighbours.find(address);
  if (entry == nullptr) return std::nullopt;
  return entry->info(now);
}

Result<void> Link::set_permanent(const IpAddress& address, const HwAddress& hardware,
                                 TimePoint now) {
  Impl& p = *impl_;
  const std::string text = to_string(address);
  if (!p.host.can_be_neighbour(address)) {
    return Error{EINVAL, text + ": no neighbour can have this address"};
  }
  if (!is_endpoint(hardware)) {
    return Error{EINVAL, hardware.to_string() + ": not the address of a queue pair of a port"};
  }
  PathRef path = p.paths.acquire(hardware.gid);
  if (!path) return Error{ENOBUFS, text + ": the table of paths is full"};
  Neighbour* entry = p.neighbours.find(address);
  if (entry == nullptr) entry = p.neighbours.create(address, Purpose::packet);
  if (entry == nullptr) return Error{ENOBUFS, text + ": the table of neighbours is full"};
  p.neighbours.set_permanent(*entry, {hardware, std::move(path)}, now);
  return {};
}

bool Link::remove(const IpAddress& address) {
  Neighbour* const entry = impl_->neighbours.find(address);
  if (entry == nullptr) return false;
  impl_->neighbours.remove(*entry, Counter::drop_neighbour_removed);
  return true;
}

std::size_t Link::flush() { return impl_->neighbours.flush(); }

}  // namespace ipoib::link
