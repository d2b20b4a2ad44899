#include "daemon/host_side.hpp"

namespace ipoib::daemon {

static_assert(ethernet::View::kHeadroom >= link::kHeadroom);
static_assert(link::kHostHeadroom >= wire::EthernetHeader::kSize);

HostSide::HostSide(link::Link& link, FramePool& messages, const HashKey& key,
                   const Settings& settings)
    : link_(link) {
  if (settings.ethernet) view_.emplace(settings.neighbours, key, messages);
}

std::size_t HostSide::headroom() const {
  return view_ ? ethernet::View::kHeadroom : link::kHeadroom;
}

void HostSide::send(std::vector<Frame>& packets, TimePoint now) {
  if (!view_) return link_.from_host(packets, now);
  view_->from_host(packets, hops_, now);
  for (const IpAddress& address : view_->wanted()) link_.solicit(address, now);
  view_->wanted().clear();
  link_.from_host(packets, now, hops_);
}

/// What the link has learnt comes first: it may be needed to translate a packet.
std::vector<Frame>& HostSide::received() {
  if (!view_) return link_.to_host();
  for (const auto& known : link_.known_neighbours()) {
    view_->on_neighbour(known.address, known.hardware, known.is_permanent);
  }
  link_.known_neighbours().clear();
  view_->to_host(link_.to_host());
  return link_.to_host();
}

void HostSide::on_changed(const HostView& view, TimePoint now) {
  if (view_) view_->on_host_changed(view);
  link_.on_host_changed(view, now);
}

}  // namespace ipoib::daemon
