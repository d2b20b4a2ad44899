// What the administrator sees and changes.
#include <cerrno>

#include "link/arp_input.hpp"
#include "link/link.hpp"
#include "link/link_parts.hpp"

namespace ipoib::link {
namespace {

/// The entries are of IPv4 so far; those of IPv6 are to be found beside them.
const Ipv4Address* as_ipv4(const IpAddress& address) { return std::get_if<Ipv4Address>(&address); }

}  // namespace

NeighbourPage Link::list(NeighbourCursor from, std::size_t limit, TimePoint now) const {
  return parts_->neighbours.list(from, limit, now);
}

std::optional<NeighbourInfo> Link::get(const IpAddress& address, TimePoint now) const {
  const Ipv4Address* const ipv4 = as_ipv4(address);
  if (ipv4 == nullptr) return std::nullopt;
  const Neighbour* const entry = parts_->neighbours.find(*ipv4);
  if (entry == nullptr) return std::nullopt;
  return entry->info(now);
}

Result<void> Link::set_permanent(const IpAddress& address, const HwAddress& hardware,
                                 TimePoint now) {
  Parts& p = *parts_;
  const std::string text = to_string(address);
  const Ipv4Address* const ipv4 = as_ipv4(address);
  if (ipv4 == nullptr) return Error{EAFNOSUPPORT, text + ": entries are of IPv4 only"};
  if (!p.host.is_neighbour(*ipv4)) {
    return Error{EINVAL, text + ": no neighbour can have this address"};
  }
  if (!is_endpoint(hardware)) {
    return Error{EINVAL, hardware.to_string() + ": not the address of a queue pair of a port"};
  }
  neighbour_state::Route route{hardware, p.paths.acquire(hardware.gid)};
  if (!route.path) return Error{ENOBUFS, text + ": the table of paths is full"};
  Neighbour* entry = p.neighbours.find(*ipv4);
  if (entry == nullptr) entry = p.neighbours.create(*ipv4);
  if (entry == nullptr) return Error{ENOBUFS, text + ": the table of neighbours is full"};
  p.neighbours.set_permanent(*entry, std::move(route), now);
  return {};
}

bool Link::remove(const IpAddress& address) {
  const Ipv4Address* const ipv4 = as_ipv4(address);
  Neighbour* const entry = ipv4 != nullptr ? parts_->neighbours.find(*ipv4) : nullptr;
  if (entry == nullptr) return false;
  parts_->neighbours.remove(*entry, Counter::drop_neighbour_removed);
  return true;
}

std::size_t Link::flush() { return parts_->neighbours.flush(); }

void Link::Parts::drop_own_entries() {
  const auto drop = [this](Ipv4Address address) {
    if (Neighbour* const entry = neighbours.find(address)) {
      neighbours.remove(*entry, Counter::drop_bad_destination);
    }
  };
  for (const Ipv4Prefix& prefix : host.all()) {
    drop(prefix.address);
    if (const auto broadcast = prefix.broadcast()) drop(*broadcast);
  }
}

}  // namespace ipoib::link
