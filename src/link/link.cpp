// Passes stimuli to the owners that a link consists of, and connects what one decides with what the
// others have to do.
#include "link/link.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/log_event.hpp"
#include "link/link_impl.hpp"
#include "wire/encapsulation.hpp"

namespace ipoib::link {
namespace {

static_assert(kHeadroom == wire::kEncapsulationSize);
static_assert(kMessageSize == wire::kEncapsulationSize + wire::NdMessage::kMaxEmitted);
static_assert(kMessageSize >= wire::kEncapsulationSize + wire::Arp::kSize);

}  // namespace

Link::Impl::Impl(const Config& settings, const Dependencies& deps, Qpn qpn, std::uint64_t seed)
    : config(settings),
      log(deps.log),
      ids(deps.first_request),
      random(seed),
      parking{.bytes_per_neighbour = settings.limits.parked_bytes_per_neighbour,
              .first_packets = settings.limits.parked_first,
              .frames = settings.limits.parked,
              .bytes = settings.limits.parked_bytes,
              .replies = settings.limits.parked_replies},
      setup(qpn, out, log),
      memberships(
          {config, setup.port_gid(), deps.handles, out, ids, random, log, setup.parameters()},
          parking, deps.hash_key),
      neighbours({config, setup.own(), host, memberships.broadcast(), memberships.output(),
                  deps.handles, deps.messages, deps.packets, parking, out, ids, random, log},
                 deps.hash_key),
      next_hops(neighbours.table(), deps.hash_key),
      dhcp(config, host, setup.own().gid, out),
      unrouted(config),
      transmitter({config, setup.bring_up(), setup.own(), host, next_hops, memberships.groups(),
                   memberships.output(), neighbours.solicitor(), neighbours.icmp(), deps.packets,
                   neighbours.table(), dhcp, unrouted, out}),
      receiver({setup.bring_up(), setup.own(), memberships.groups(), neighbours.table(),
                neighbours.input(), dhcp, neighbours.reports(), out}) {
  host.set_policy_source(deps.arp_policy);
}

Link::Link(const Config& config, const Dependencies& deps, Qpn qpn, std::uint64_t seed)
    : impl_(std::make_unique<Impl>(config, deps, qpn, seed)) {
  assert(deps.messages.slot_size() >= kMessageSize);
}

Link::~Link() = default;

// --- Port and queue pair -------------------------------------------------------------------------

void Link::on_port(const PortStatus& port, TimePoint now) {
  Impl& p = *impl_;
  switch (p.setup.on_port(port)) {
    case BringUp::Step::none:
      break;
    case BringUp::Step::join:
      p.take_port();
      p.memberships.join_broadcast();
      break;
    case BringUp::Step::go_down:
      p.go_down(now);
      break;
    case BringUp::Step::restart:
      p.go_down(now);
      p.take_port();
      p.memberships.join_broadcast();
      break;
    case BringUp::Step::confirm:
      p.take_port();
      p.confirm_registration("the port has another LID");
      announce(now);
      break;
  }
}

void Link::on_client_reregister(TimePoint /*now*/) {
  if (impl_->setup.is_running()) impl_->confirm_registration("register again");
}

void Link::on_queue_pair(Qpn qpn, TimePoint now) {
  impl_->setup.on_queue_pair(qpn);
  announce(now);
}

void Link::on_setup_failed(TimePoint now) {
  Impl& p = *impl_;
  if (!p.setup.is_running()) return;
  p.join_later("the queue pair could not be configured or attached", now);
}

void Link::on_attach_failed(const Gid& mgid, TimePoint now) {
  Impl& p = *impl_;
  if (mgid == p.memberships.broadcast().mgid()) return on_setup_failed(now);
  p.memberships.on_attach_failed(mgid, now);
}

void Link::announce(TimePoint now) {
  if (impl_->setup.is_up()) impl_->neighbours.announce(now);
}

void Link::shut_down(TimePoint now) {
  Impl& p = *impl_;
  if (p.setup.state() == LinkState::stopped) return;
  p.go_down(now);
  p.neighbours.clear();
  p.out.sends.clear();
  p.out.to_host.clear();
  p.setup.stop();
}

void Link::Impl::take_port() {
  setup.take_port();
  neighbours.set_source(setup.path_source());
  memberships.on_lid(setup.port().lid);
}

/// Takes the link down, since the broadcast group cannot be used now, and joins again later.
void Link::Impl::join_later(std::string_view why, TimePoint now) {
  go_down(now);
  setup.on_setup_failed();
  memberships.on_setup_failed(why, now);
  memberships.on_lid(setup.port().lid);
  log.log(message_id(events::kInterfaceDown), spdlog::level::warn, "{}; joining again later", why);
}

/// Takes the link down. On a port that is down, no leave would be received, and the SM removes its
/// memberships.
void Link::Impl::go_down(TimePoint now) {
  setup.go_down();
  memberships.go_down(setup.port().active, now);
  unrouted.drop(Counter::drop_link_down, out.counters);
  neighbours.go_down(now);
}

void Link::Impl::confirm_registration(std::string_view why) {
  memberships.on_reregister();
  neighbours.invalidate_paths(why);
}

// --- The SA --------------------------------------------------------------------------------------

void Link::on_notice(const wire::Notice& notice, TimePoint now) {
  switch (notice.trap_number) {
    case wire::trap::kInService:
      return impl_->neighbours.on_in_service(notice.gid, now);
    case wire::trap::kOutOfService:
      return impl_->neighbours.on_out_of_service(notice.gid, now);
    case wire::trap::kGroupCreated:
    case wire::trap::kGroupDeleted:
      return impl_->memberships.on_notice(notice, now);
    default:
      return;
  }
}

void Link::on_response(const wire::SaResponse& response, TimePoint now) {
  Impl& p = *impl_;
  if (p.neighbours.on_response(response, now)) return;
  switch (p.memberships.on_response(response, now)) {
    case Memberships::Response::other:
      return;
    case Memberships::Response::broadcast_joined:
      p.broadcast_joined(now);
      break;
    case Memberships::Response::group:
      break;
  }
  if (p.setup.parameters() && p.memberships.broadcast().record() == nullptr) {
    return p.join_later("the broadcast group can no longer be used", now);
  }
  p.complete_bring_up(now);
}

/// RFC 4391, 5: Q_Key and MTU of the link are those of the broadcast group.
void Link::Impl::broadcast_joined(TimePoint now) {
  const wire::McMemberRecord& record = *memberships.broadcast().record();
  const bool has_changed = setup.on_broadcast_joined(record);
  memberships.attach_broadcast();
  const auto mtu =
      static_cast<std::uint32_t>(wire::mtu_bytes(record.mtu) - wire::kEncapsulationSize);
  if (transmitter.set_mtu(mtu)) out.events.emplace_back(SetMtu{mtu});
  if (has_changed) {
    log.info("the broadcast group has other parameters; joining the other groups again");
    memberships.on_new_parameters(now);
  }
  if (!setup.is_up()) memberships.join_others(now);
}

void Link::Impl::complete_bring_up(TimePoint now) {
  if (setup.is_up() || !setup.parameters() || !memberships.all_nodes_settled()) return;
  setup.on_joined();
  log.log(message_id(events::kInterfaceUp), spdlog::level::info, "up as {}, MTU {}",
          setup.own().to_string(), transmitter.mtu());
  neighbours.announce(now);
  memberships.on_up();
}

// --- The host, and stations behind it ------------------------------------------------------------

void Link::on_host_changed(const HostView& view, TimePoint now,
                           std::shared_ptr<HostRoutes> routes) {
  Impl& p = *impl_;
  const auto added = p.host.update(view);
  if (routes) {
    p.next_hops.update(std::move(routes));
  } else {
    p.next_hops.update(view);
  }
  p.unrouted.set_known(true);
  p.memberships.on_host_changed(view, now);
  p.neighbours.on_host_changed();
  p.transmitter.retry(now);
  if (!p.setup.is_up()) return;
  for (const IpAddress& address : added) p.neighbours.announce(address, now);
}

void Link::on_routes_changed(std::span<const RouteChange> changes, TimePoint now) {
  Impl& p = *impl_;
  for (const RouteChange& change : changes) {
    if (std::holds_alternative<RoutesUnknown>(change)) p.unrouted.set_known(false);
    p.next_hops.apply(change);
  }
  p.transmitter.retry(now);
}

void Link::reply_to_arp(const wire::Arp& request, TimePoint now) {
  if (impl_->setup.is_up()) impl_->neighbours.reply_to_arp(request, now);
}

void Link::serve(const IpAddress& address, bool is_router, TimePoint now) {
  Impl& p = *impl_;
  if (p.host.is_own(address)) return;
  const bool is_new = p.host.serve(address, is_router);
  if (is_new) p.neighbours.remove_own(address);
  if (!p.setup.is_up()) return;
  if (is_new) {
    p.neighbours.announce(address, now);
  } else {
    p.neighbours.announce_again(address, now);
  }
}

void Link::withdraw(const IpAddress& address) { (void)impl_->host.withdraw(address); }

void Link::search(const IpAddress& address, TimePoint now) {
  if (impl_->setup.is_up()) impl_->neighbours.solicitor().search(address, now);
}

void Link::set_station_groups(std::vector<IpAddress> groups, TimePoint now) {
  impl_->memberships.set_station_groups(std::move(groups), now);
}

// --- Packets -------------------------------------------------------------------------------------

void Link::from_host(std::span<Frame> batch, TimePoint now,
                     std::span<const std::optional<IpAddress>> hops) {
  impl_->transmitter.transmit(batch, hops, now);
}

void Link::solicit(const IpAddress& address, TimePoint now) {
  impl_->transmitter.solicit(address, now);
}

void Link::from_fabric(std::span<Incoming> batch, TimePoint now) {
  impl_->receiver.receive(batch, now);
}

// --- Time, output, state -------------------------------------------------------------------------

void Link::tick(TimePoint now) {
  Impl& p = *impl_;
  p.memberships.tick(now);
  p.neighbours.tick(now);
  if (p.unrouted.next_deadline() <= now) p.transmitter.retry(now);
}

TimePoint Link::next_deadline() const {
  const Impl& p = *impl_;
  return std::min(
      {p.memberships.next_deadline(), p.neighbours.next_deadline(), p.unrouted.next_deadline()});
}

std::vector<Outgoing>& Link::sends() { return impl_->out.sends; }
std::vector<Frame>& Link::to_host() { return impl_->out.to_host; }
std::vector<Event>& Link::events() { return impl_->out.events; }
std::vector<KnownNeighbour>& Link::known_neighbours() { return impl_->out.known_neighbours; }

std::vector<wire::Arp>& Link::station_requests() { return impl_->out.station_requests; }

LinkState Link::state() const { return impl_->setup.state(); }

std::string Link::waiting_for() const {
  const Impl& p = *impl_;
  if (p.setup.state() != LinkState::joining) return p.setup.waiting_for();
  return p.memberships.waiting_for() + " (saquery MCMemberRecord shows the groups)";
}

HwAddress Link::hardware_address() const { return impl_->setup.own(); }
std::uint32_t Link::mtu() const { return impl_->transmitter.mtu(); }
QKey Link::qkey() const { return impl_->setup.qkey(); }
std::uint8_t Link::group_rate() const {
  const auto* const record = impl_->memberships.broadcast().record();
  return record == nullptr ? std::uint8_t{0} : record->rate;
}
std::vector<GroupInfo> Link::groups() const { return impl_->memberships.info(); }
std::size_t Link::neighbour_count() const { return impl_->neighbours.size(); }
std::size_t Link::unrouted_count() const { return impl_->unrouted.size(); }
const NeighbourStatistics& Link::neighbour_statistics() const {
  return impl_->neighbours.statistics();
}
const Counters& Link::counters() const { return impl_->out.counters; }

// --- Administration ------------------------------------------------------------------------------

NeighbourPage Link::list(NeighbourCursor from, std::size_t limit, TimePoint now) const {
  return impl_->neighbours.list(from, limit, now);
}

std::optional<NeighbourInfo> Link::get(const IpAddress& address, TimePoint now) const {
  return impl_->neighbours.get(address, now);
}

Result<void> Link::set_permanent(const IpAddress& address, const HwAddress& hardware,
                                 TimePoint now) {
  return impl_->neighbours.set_permanent(address, hardware, now);
}

Result<void> Link::pin(const IpAddress& address, const Gid& gid) {
  return impl_->neighbours.pin(address, gid);
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
  if (const auto path = p.neighbours.use_path(address, now)) {
    if (path == PathTable::Condition::failed) return refuse(EHOSTUNREACH, "there is no path to it");
    return {};
  }
  p.transmitter.solicit(address, now);
  if (!p.neighbours.has(address)) return refuse(ENOBUFS, "too many are being resolved");
  return {};
}

bool Link::remove(const IpAddress& address) { return impl_->neighbours.remove(address); }
bool Link::remove_entry(const IpAddress& address) {
  return impl_->neighbours.remove_entry(address);
}
std::size_t Link::flush() { return impl_->neighbours.flush(); }

Changes& Link::changes() { return impl_->out.changes; }

/// Takes changes, and adds to them what only the link knows.
ChangePage Link::take_changes(std::size_t limit, TimePoint now) {
  auto page = impl_->out.changes.take(limit, now);
  for (Change& change : page.changes) {
    if (auto* const neighbour = std::get_if<NeighbourChange>(&change)) {
      impl_->neighbours.add_pin(neighbour->neighbour);
    } else {
      impl_->memberships.add_address(std::get<GroupChange>(change).group);
    }
  }
  return page;
}

// --- Handover ------------------------------------------------------------------------------------

SavedPage Link::save(NeighbourCursor from, std::size_t limit, TimePoint now) const {
  const Impl& p = *impl_;
  SavedPage page;
  page.mtu = p.transmitter.mtu();
  if (from.position == 0) page.send_groups = p.memberships.save();
  std::optional slot(static_cast<std::uint32_t>(from.position));
  page.neighbours = p.neighbours.save(slot, limit, now);
  if (slot) page.next = NeighbourCursor{*slot};
  return page;
}

std::size_t Link::restore(const SavedPage& saved, TimePoint now) {
  Impl& p = *impl_;
  if (!p.setup.is_up()) return 0;
  const std::size_t added = p.neighbours.restore(saved.neighbours, now);
  p.memberships.restore(saved.send_groups);
  return added;
}

bool Link::is_settled() const {
  const Impl& p = *impl_;
  return p.setup.is_up() ? p.memberships.is_settled() : !p.setup.is_running();
}

}  // namespace ipoib::link
