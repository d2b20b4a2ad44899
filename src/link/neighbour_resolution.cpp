#include "link/neighbour_resolution.hpp"

#include <cerrno>

#include "link/arp_input.hpp"
#include "wire/sa_values.hpp"

namespace ipoib::link {

namespace {

/// The cursors of pins begin here, above all slots of the table.
constexpr std::uint64_t kFirstPin = std::uint64_t{1} << 32;

constexpr std::string_view kDeleted = "deleted by the operator";

/// Whether the path can begin at our port, and its values fit into their fields.
bool is_valid(const SavedPath& path, const PathSource& source) {
  constexpr unsigned kMaxSl = 15;
  constexpr unsigned kMaxFlow = 0xfffff;
  const auto& to = path.attributes;
  const bool has_route = to.hop_limit > 0;
  return wire::mtu_code(path.mtu) != 0 && to.sl.value() <= kMaxSl && to.flow_label <= kMaxFlow &&
         to.source_path_bits < (1U << source.lmc) && (has_route || !source.grh_required) &&
         (!has_route || to.sgid_index == source.port.index);
}

}  // namespace

NeighbourResolution::NeighbourResolution(const Dependencies& deps, const HashKey& key)
    : deps_(deps),
      paths_({deps.config, deps.handles, deps.out, deps.ids, deps.random, deps.log}, key),
      reports_(deps.host, deps.out),
      arp_({deps.host, deps.own, deps.broadcast, deps.messages, reports_, deps.out}),
      nd_({deps.config, deps.host, deps.own, deps.multicast, deps.messages, deps.out}),
      solicitor_({deps.config, arp_, nd_, deps.out}),
      icmp_(deps.config, deps.host, deps.out),
      table_({deps.config, paths_, solicitor_, icmp_, deps.packets, deps.out, deps.parking,
              statistics_, deps.random, deps.log},
             key),
      announcer_(deps.config, deps.host, arp_, nd_, deps.out),
      pins_(deps.config.limits.pins),
      input_({deps.config, deps.own, deps.host, pins_, paths_, arp_, announcer_, solicitor_, table_,
              reports_, deps.out, deps.log},
             key) {}

void NeighbourResolution::go_down(TimePoint now) {
  announcer_.stop();
  table_.link_down(now);
  paths_.invalidate_all("link down");
}

bool NeighbourResolution::on_response(const wire::SaResponse& response, TimePoint now) {
  auto resolution = paths_.on_response(response, now);
  if (!resolution) return false;
  table_.path_resolved(std::move(*resolution), now);
  return true;
}

void NeighbourResolution::reply_to_arp(const wire::Arp& request, TimePoint now) {
  const bool is_probe = request.sender_protocol.is_unspecified();
  if (is_probe) return input_.reply_to_probe(request, now);
  const bool is_valid = deps_.host.can_be_neighbour(request.sender_protocol);
  if (is_valid) input_.reply_to_arp(request, now);
}

void NeighbourResolution::on_host_changed() {
  for (const IpPrefix& prefix : deps_.host.all()) {
    remove_own(prefix.address);
    if (const auto broadcast = prefix.broadcast()) remove_own(*broadcast);
  }
}

void NeighbourResolution::remove_own(const IpAddress& address) {
  if (Neighbour* const entry = table_.find(address)) {
    table_.remove(*entry, Counter::drop_bad_destination, "an address of this host");
  }
}

void NeighbourResolution::tick(TimePoint now) {
  announcer_.tick(now);
  table_.tick(now);
  paths_.tick(now);
  reports_.tick(now);
}

// --- Administration ------------------------------------------------------------------------------

/// Lists first the entries that are not pinned, then the pins with their entries: an entry of a pin
/// may come and go meanwhile.
NeighbourPage NeighbourResolution::list(NeighbourCursor from, std::size_t limit,
                                        TimePoint now) const {
  NeighbourPage page;
  if (from.position < kFirstPin) {
    std::optional slot(static_cast<std::uint32_t>(from.position));
    page.entries = table_.list(slot, limit, now);
    if (pins_.size() > 0) {
      std::erase_if(page.entries, [this](const NeighbourInfo& info) {
        return pins_.find(info.address) != nullptr;
      });
    }
    if (slot) {
      page.next = NeighbourCursor{*slot};
    } else if (pins_.size() > 0) {
      page.next = NeighbourCursor{kFirstPin};
    }
    return page;
  }
  auto number = static_cast<Pins::Number>(from.position - kFirstPin);
  while (page.entries.size() < limit) {
    const auto address = pins_.next(number);
    if (!address) return page;
    page.entries.push_back(*get(*address, now));
  }
  page.next = NeighbourCursor{kFirstPin + number};
  return page;
}

std::optional<NeighbourInfo> NeighbourResolution::get(const IpAddress& address,
                                                      TimePoint now) const {
  const Neighbour* const entry = table_.find(address);
  const Gid* const pinned = pins_.find(address);
  if (entry == nullptr && pinned == nullptr) return std::nullopt;
  NeighbourInfo info;
  info.address = address;
  info.state = NeighbourState::pinned;
  if (entry != nullptr) info = entry->info(now);
  if (pinned != nullptr) info.pinned = *pinned;
  return info;
}

Result<void> NeighbourResolution::set_permanent(const IpAddress& address, const HwAddress& hardware,
                                                TimePoint now) {
  const std::string text = to_string(address);
  if (!deps_.host.can_be_neighbour(address)) {
    return Error{EINVAL, text + ": no neighbour can have this address"};
  }
  if (!is_endpoint(hardware)) {
    return Error{EINVAL, hardware.to_string() + ": not the address of a queue pair of a port"};
  }
  PathRef path = paths_.acquire(hardware.gid);
  if (!path) {
    return Error{ENOBUFS,
                 text + ": the table of paths is full: delete entries, or raise --neighbours"};
  }
  Neighbour* entry = table_.find(address);
  if (entry == nullptr) entry = table_.create(address, Purpose::packet);
  if (entry == nullptr) {
    return Error{ENOBUFS,
                 text + ": the table of neighbours is full: delete entries, or raise --neighbours"};
  }
  table_.set_permanent(*entry, {hardware, std::move(path)}, now);
  pins_.erase(address);
  return {};
}

Result<void> NeighbourResolution::pin(const IpAddress& address, const Gid& gid) {
  const std::string text = to_string(address);
  if (!deps_.host.can_be_neighbour(address)) {
    return Error{EINVAL, text + ": no neighbour can have this address"};
  }
  if (gid.is_zero() || gid.is_multicast()) {
    return Error{EINVAL, gid.to_string() + ": not the GID of a port"};
  }
  const bool is_known = get(address, {}).has_value();
  if (!pins_.set(address, gid)) {
    return Error{ENOBUFS, text + ": too many addresses are pinned: delete one"};
  }
  const Neighbour* const entry = table_.find(address);
  const Route* const route = entry != nullptr ? entry->route() : nullptr;
  const bool is_permanent = entry != nullptr && entry->state_name() == NeighbourState::permanent;
  if (is_permanent || (route != nullptr && route->path->gid() != gid)) remove_entry(address);
  using Kind = NeighbourChange::Kind;
  report_pin(is_known ? Kind::changed : Kind::created, *get(address, {}));
  return {};
}

std::optional<PathTable::Condition> NeighbourResolution::use_path(const IpAddress& address,
                                                                  TimePoint now) {
  const Neighbour* const entry = table_.find(address);
  if (entry == nullptr || entry->route() == nullptr) return std::nullopt;
  return paths_.use(*entry->route()->path, now);
}

bool NeighbourResolution::remove(const IpAddress& address) {
  const auto before = get(address, {});
  const bool was_pinned = pins_.erase(address);
  if (remove_entry(address)) return true;
  if (was_pinned) report_pin(NeighbourChange::Kind::removed, *before);
  return was_pinned;
}

bool NeighbourResolution::remove_entry(const IpAddress& address) {
  Neighbour* const entry = table_.find(address);
  if (entry == nullptr) return false;
  table_.remove(*entry, Counter::drop_neighbour_removed, kDeleted);
  return true;
}

void NeighbourResolution::report_pin(NeighbourChange::Kind kind, const NeighbourInfo& neighbour) {
  auto& changes = deps_.out.changes;
  if (!changes.wants_neighbours()) return;
  const bool is_removed = kind == NeighbourChange::Kind::removed;
  changes.add(kind, NeighbourInfo(neighbour), is_removed ? kDeleted : "pinned by the operator");
}

void NeighbourResolution::add_pin(NeighbourInfo& neighbour) const {
  const Gid* const pinned = pins_.find(neighbour.address);
  if (pinned != nullptr) neighbour.pinned = *pinned;
}

std::size_t NeighbourResolution::restore(std::span<const SavedNeighbour> saved, TimePoint now) {
  std::size_t added = 0;
  for (const SavedNeighbour& each : saved) {
    if (!is_endpoint(each.hardware) || !deps_.host.can_be_neighbour(each.address) ||
        !pins_.permit(each.address, each.hardware.gid) || !is_valid(each.path, paths_.source())) {
      continue;
    }
    PathRef path = paths_.acquire(each.hardware.gid);
    if (!path || !paths_.restore(*path, each.path)) continue;
    if (table_.find(each.address) != nullptr) continue;  // permanent
    if (table_.size() >= deps_.config.limits.neighbours) break;
    Neighbour* const entry = table_.create(each.address, Purpose::reply);
    if (entry == nullptr) continue;
    table_.restore(*entry, each, std::move(path), now);
    ++added;
  }
  return added;
}

}  // namespace ipoib::link
