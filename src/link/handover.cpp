// Saves the cache of a link for the link of another daemon, and takes over such a cache.
#include <algorithm>
#include <array>
#include <utility>

#include "link/arp_input.hpp"
#include "link/link.hpp"
#include "link/link_impl.hpp"
#include "wire/mgid.hpp"
#include "wire/sa_values.hpp"

namespace ipoib::link {

namespace {

/// Whether both MGIDs have the same flags, scope and P_Key.
bool is_of_same_link(const Gid& mgid, const Gid& broadcast) {
  const auto& own = broadcast.bytes();
  const auto& others = mgid.bytes();
  return wire::is_ipoib_mgid(mgid) && std::equal(own.begin(), own.begin() + 2, others.begin()) &&
         std::equal(own.begin() + 4, own.begin() + 6, others.begin() + 4);
}

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

void Link::announce(TimePoint now) {
  if (impl_->bring_up.is_up()) impl_->announcer.start_all(now);
}

SavedPage Link::save(NeighbourCursor from, std::size_t limit, TimePoint now) const {
  const Impl& p = *impl_;
  SavedPage page;
  page.mtu = p.transmitter.mtu();
  if (from.position == 0) page.send_groups = p.send_groups.joined();
  std::optional slot(static_cast<std::uint32_t>(from.position));
  page.neighbours = p.neighbours.save(slot, limit, now);
  if (slot) page.next = NeighbourCursor{*slot};
  return page;
}

std::size_t Link::restore(const SavedPage& saved, TimePoint now) {
  Impl& p = *impl_;
  if (!p.bring_up.is_up()) return 0;
  std::size_t added = 0;
  for (const SavedNeighbour& each : saved.neighbours) {
    if (!is_endpoint(each.hardware) || !p.host.can_be_neighbour(each.address) ||
        !p.pins.permit(each.address, each.hardware.gid) || !is_valid(each.path, p.paths.source())) {
      continue;
    }
    PathRef path = p.paths.acquire(each.hardware.gid);
    if (!path || !p.paths.restore(*path, each.path)) continue;
    if (p.neighbours.find(each.address) != nullptr) continue;  // permanent
    if (p.neighbours.size() >= p.config.limits.neighbours) break;
    Neighbour* const entry = p.neighbours.create(each.address, Purpose::reply);
    if (entry == nullptr) continue;
    p.neighbours.restore(*entry, each, std::move(path), now);
    ++added;
  }
  for (const Gid& mgid : saved.send_groups) {
    if (is_of_same_link(mgid, p.groups.broadcast().mgid())) p.send_groups.restore(mgid);
  }
  return added;
}

bool Link::is_settled() const {
  const Impl& p = *impl_;
  if (!p.bring_up.is_up()) return !p.bring_up.is_running();
  return p.groups.all_settled() && p.send_groups.is_settled();
}

}  // namespace ipoib::link
