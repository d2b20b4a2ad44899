#include "daemon/pump/host_side.hpp"

#include <string>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/log_event.hpp"

namespace ipoib::daemon {

static_assert(ethernet::View::kHeadroom >= link::kHeadroom);
static_assert(ethernet::View::kHeadroom >= wire::EthernetHeader::kSize);
static_assert((ethernet::View::kHeadroom - link::kHeadroom) % 8 == 0, "see View::kHeadroom");
static_assert(link::kHostHeadroom >= wire::EthernetHeader::kSize);

namespace {

std::shared_ptr<SharedView> make_view(const HostSide::Settings& settings, const HashKey& key) {
  if (!settings.ethernet) return nullptr;
  return std::make_shared<SharedView>(
      ethernet::View::Limits{settings.neighbours, settings.stations, settings.strict_source,
                             settings.solicitations},
      key);
}

}  // namespace

HostSide::HostSide(link::Link& link, Logger& log, const HashKey& key, const Settings& settings)
    : link_(link), log_(log), shared_(make_view(settings, key)) {
  if (!shared_) return;
  view_ = &shared_->view();
  shared_->add(link_, {});  // which has been told nothing yet
}

void HostSide::share_view_of(const HostSide& other, TimePoint now) {
  if (!shared_) return;
  shared_ = other.shared_;
  view_ = &shared_->view();
  shared_->add(link_, now);
}

void HostSide::leave_view() {
  if (shared_) shared_->remove(link_);
  view_ = nullptr;
  shared_.reset();
}

std::size_t HostSide::headroom() const {
  return view_ ? ethernet::View::kHeadroom : link::kHeadroom;
}

void HostSide::send(std::vector<Frame>& packets, TimePoint now) {
  if (!view_) return link_.from_host(packets, now);
  view_->on_link_address(link_.hardware_address());
  view_->from_host(packets, hops_, now);
  carry_out(now);
  link_.from_host(packets, now, hops_);
}

/// What the link has learnt comes first: it may be needed to translate a packet.
std::vector<Frame>& HostSide::received(TimePoint now) {
  if (!view_) return link_.to_host();
  for (const auto& known : link_.known_neighbours()) {
    view_->on_neighbour(known.address, known.hardware, known.is_permanent, now);
  }
  link_.known_neighbours().clear();
  for (const wire::Arp& request : link_.station_requests()) view_->on_request(request, now);
  link_.station_requests().clear();
  carry_out(now);
  view_->to_host(link_.to_host(), now);
  return link_.to_host();
}

/// What this link learns may be older than what the other one has learnt.
std::vector<Frame>& HostSide::received_in_standby(TimePoint now) {
  if (!view_) return link_.to_host();
  link_.known_neighbours().clear();
  link_.station_requests().clear();
  view_->to_host(link_.to_host(), now);
  return link_.to_host();
}

void HostSide::on_changed(const HostView& view, TimePoint now,
                          std::shared_ptr<link::HostRoutes> routes) {
  if (view_) view_->on_host_changed(view, now);
  link_.on_host_changed(view, now, std::move(routes));
  carry_out(now);
}

void HostSide::tick(TimePoint now) {
  if (!view_) return;
  view_->tick(now);
  carry_out(now);
}

TimePoint HostSide::next_deadline() const { return view_ ? view_->next_deadline() : kNever; }

/// What the view wants of the link. Addresses are served before their replies are sent.
void HostSide::carry_out(TimePoint now) {
  if (!view_) return;
  if (ethernet::Stations* const stations = view_->stations()) {
    shared_->tell_links(*stations, now);
    for (const wire::Arp& request : stations->replies()) link_.reply_to_arp(request, now);
    stations->replies().clear();
    for (const IpAddress& address : stations->searches()) link_.search(address, now);
    stations->searches().clear();
    if (const auto left_out = stations->multicast().take_left_out()) log(*left_out, now);
    for (const auto& event : std::exchange(stations->events(), {})) {
      log(event, now);
      shared_->events().push_back(event);
    }
  }
  for (const IpAddress& address : view_->wanted()) link_.solicit(address, now);
  view_->wanted().clear();
}

void HostSide::log(const ethernet::GroupsLeftOut& left_out, TimePoint now) {
  if (!groups_left_out_.take(now)) return;
  using Groups = ethernet::StationGroups;
  log_.warn(
      "station {} listens to too many multicast groups: {} are left out ({} at most, {} of all "
      "stations)",
      left_out.station.to_string(), left_out.count, Groups::kShare, Groups::kMax);
}

void HostSide::log(const ethernet::StationEvent& event, TimePoint now) {
  using Kind = ethernet::StationEvent::Kind;
  const std::string address = to_string(event.address);
  const std::string mac = event.mac.to_string();
  const std::string rival =
      event.rival ? std::visit([](const auto& any) { return any.to_string(); }, *event.rival) : "";
  switch (event.kind) {
    case Kind::appeared:
      return log_.debug("station {} has {}", mac, address);
    case Kind::left:
      return log_.debug("station {} with {} no longer answers", mac, address);
    case Kind::moved:
      return log_.info("{} has moved to station {}", address, mac);
    case Kind::moved_out:
      return log_.info("{} has moved from station {} to {}", address, mac, rival);
    case Kind::duplicate:
      if (!duplicates_.take(now)) return;
      return log_.log(message_id(events::kDuplicateAddress), spdlog::level::warn,
                      "duplicate address: station {} has {}, which {} claims", mac, address, rival);
  }
}

}  // namespace ipoib::daemon
