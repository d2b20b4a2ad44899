// The methods of Link by which operators see and change neighbours.
#include <cerrno>
#include <optional>
#include <string_view>
#include <vector>

#include "link/arp_input.hpp"
#include "link/link.hpp"
#include "link/link_impl.hpp"

namespace ipoib::link {

namespace {

/// The cursors of pins begin here, above all slots of the table.
constexpr std::uint64_t kFirstPin = std::uint64_t{1} << 32;

constexpr std::string_view kDeleted = "deleted by the operator";

}  // namespace

/// Lists first the entries that are not pinned, then the pins with their entries: an entry of a pin
/// may come and go meanwhile.
NeighbourPage Link::list(NeighbourCursor from, std::size_t limit, TimePoint now) const {
  const Impl& p = *impl_;
  NeighbourPage page;
  if (from.position < kFirstPin) {
    std::optional slot(static_cast<std::uint32_t>(from.position));
    page.entries = p.neighbours.list(slot, limit, now);
    if (p.pins.size() > 0) {
      std::erase_if(page.entries, [&p](const NeighbourInfo& info) {
        return p.pins.find(info.address) != nullptr;
      });
    }
    if (slot) {
      page.next = NeighbourCursor{*slot};
    } else if (p.pins.size() > 0) {
      page.next = NeighbourCursor{kFirstPin};
    }
    return page;
  }
  auto number = static_cast<Pins::Number>(from.position - kFirstPin);
  while (page.entries.size() < limit) {
    const auto address = p.pins.next(number);
    if (!address) return page;
    page.entries.push_back(*get(*address, now));
  }
  page.next = NeighbourCursor{kFirstPin + number};
  return page;
}

std::optional<NeighbourInfo> Link::get(const IpAddress& address, TimePoint now) const {
  const Neighbour* const entry = impl_->neighbours.find(address);
  const Gid* const pinned = impl_->pins.find(address);
  if (entry == nullptr && pinned == nullptr) return std::nullopt;
  NeighbourInfo info;
  info.address = address;
  info.state = NeighbourState::pinned;
  if (entry != nullptr) info = entry->info(now);
  if (pinned != nullptr) info.pinned = *pinned;
  return info;
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
  p.pins.erase(address);
  return {};
}

Result<void> Link::pin(const IpAddress& address, const Gid& gid) {
  Impl& p = *impl_;
  const std::string text = to_string(address);
  if (!p.host.can_be_neighbour(address)) {
    return Error{EINVAL, text + ": no neighbour can have this address"};
  }
  if (gid.is_zero() || gid.is_multicast()) {
    return Error{EINVAL, gid.to_string() + ": not the GID of a port"};
  }
  const bool is_known = get(address, {}).has_value();
  if (!p.pins.set(address, gid)) return Error{ENOBUFS, text + ": too many addresses are pinned"};
  const Neighbour* const entry = p.neighbours.find(address);
  const Route* const route = entry != nullptr ? entry->route() : nullptr;
  const bool is_permanent = entry != nullptr && entry->state_name() == NeighbourState::permanent;
  if (is_permanent || (route != nullptr && route->path->gid() != gid)) remove_entry(address);
  using Kind = NeighbourChange::Kind;
  p.report_pin(is_known ? Kind::changed : Kind::created, *get(address, {}));
  return {};
}

/// Whether an address is on the link. On a TAP the host decides that. IPv6 addresses of the link
/// always are (RFC 4861, 5.1).
bool Link::Impl::is_on_link(const IpAddress& address) {
  const auto* const ipv6 = std::get_if<Ipv6Address>(&address);
  if (config.reports_neighbours || (ipv6 != nullptr && ipv6->is_link_local())) return true;
  Flow flow{.source = Ipv4Address(), .destination = address};
  if (ipv6 != nullptr) flow.source = Ipv6Address();
  return next_hops.covers(flow) && next_hops.find(flow) == address;
}

/// The path of an entry that has an address already is requested when it is used.
Result<void> Link::resolve(const IpAddress& address, TimePoint now) {
  Impl& p = *impl_;
  const auto refuse = [&](int code, const char* why) {
    return Error{code, to_string(address) + ": " + why};
  };
  if (!p.host.can_be_neighbour(address))
    return refuse(EINVAL, "no neighbour can have this address");
  if (!p.is_on_link(address)) return refuse(ENETUNREACH, "not on this link by its routes");
  const Neighbour* const entry = p.neighbours.find(address);
  if (entry != nullptr && entry->route() != nullptr) {
    const auto path = p.paths.use(*entry->route()->path, now);
    if (path == PathTable::Condition::failed) return refuse(EHOSTUNREACH, "there is no path to it");
    return {};
  }
  p.transmitter.solicit(address, now);
  if (p.neighbours.find(address) == nullptr) return refuse(ENOBUFS, "too many are being resolved");
  return {};
}

bool Link::remove(const IpAddress& address) {
  const auto before = get(address, {});
  const bool was_pinned = impl_->pins.erase(address);
  if (remove_entry(address)) return true;
  if (was_pinned) impl_->report_pin(NeighbourChange::Kind::removed, *before);
  return was_pinned;
}

void Link::Impl::report_pin(NeighbourChange::Kind kind, const NeighbourInfo& neighbour) {
  if (!out.changes.wants_neighbours()) return;
  const bool is_removed = kind == NeighbourChange::Kind::removed;
  out.changes.add(kind, NeighbourInfo(neighbour), is_removed ? kDeleted : "pinned by the operator");
}

bool Link::remove_entry(const IpAddress& address) {
  Neighbour* const entry = impl_->neighbours.find(address);
  if (entry == nullptr) return false;
  impl_->neighbours.remove(*entry, Counter::drop_neighbour_removed, kDeleted);
  return true;
}

std::size_t Link::flush() { return impl_->neighbours.flush(); }

Changes& Link::changes() { return impl_->out.changes; }

/// Takes changes, and adds to them what only the link knows.
ChangePage Link::take_changes(std::size_t limit, TimePoint now) {
  auto page = impl_->out.changes.take(limit, now);
  for (Change& change : page.changes) {
    if (auto* const neighbour = std::get_if<NeighbourChange>(&change)) {
      const Gid* const pinned = impl_->pins.find(neighbour->neighbour.address);
      if (pinned != nullptr) neighbour->neighbour.pinned = *pinned;
    } else {
      impl_->groups.add_address(std::get<GroupChange>(change).group);
    }
  }
  return page;
}

}  // namespace ipoib::link
