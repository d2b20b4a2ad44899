// Passes stimuli to the objects of a link, and carries out the decisions of bring-up.
#include "link/link.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/log_event.hpp"
#include "ipoib/overloaded.hpp"
#include "ipoib/well_known_groups.hpp"
#include "link/link_impl.hpp"
#include "wire/encapsulation.hpp"
#include "wire/mgid.hpp"

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
      own{.flags = 0, .qpn = qpn, .gid = {}},
      membership{config, port_gid, deps.handles, out, ids, random, log, parameters},
      groups(membership, deps.hash_key),
      routed(membership),
      send_groups(membership, parking, deps.hash_key),
      multicast(groups, send_groups, out),
      paths({config, deps.handles, out, ids, random, log}, deps.hash_key),
      reports(host, out),
      arp({host, own, groups.broadcast(), deps.messages, reports, out}),
      nd({config, host, own, multicast, deps.messages, out}),
      solicitor({config, arp, nd, out}),
      icmp(config, host, out),
      neighbours({config, paths, solicitor, icmp, deps.packets, out, parking, neighbour_statistics,
                  random, log},
                 deps.hash_key),
      next_hops(neighbours, deps.hash_key),
      announcer(config, host, arp, nd, out),
      dhcp(config, host, own.gid, out),
      pins(config.limits.pins),
      neighbour_input({config, own, host, pins, paths, arp, announcer, solicitor, neighbours,
                       reports, out, log},
                      deps.hash_key),
      unrouted(config),
      transmitter({config, bring_up, own, host, next_hops, groups, multicast, solicitor, icmp,
                   deps.packets, neighbours, dhcp, unrouted, out}),
      receiver({bring_up, own, groups, neighbours, neighbour_input, dhcp, reports, out}) {
  host.set_policy_source(deps.arp_policy);
}

Link::Link(const Config& config, const Dependencies& deps, Qpn qpn, std::uint64_t seed)
    : impl_(std::make_unique<Impl>(config, deps, qpn, seed)) {
  assert(deps.messages.slot_size() >= kMessageSize);
}

Link::~Link() = default;

// --- Port, queue pair, host ----------------------------------------------------------------------

void Link::on_port(const PortStatus& port, TimePoint now) {
  Impl& p = *impl_;
  const LinkState before = p.bring_up.state();
  const BringUp::Step step = p.bring_up.on_port(port);
  if (before != p.bring_up.state()) {
    const auto mark =
        before == LinkState::up ? message_id(events::kInterfaceDown) : spdlog::source_loc{};
    p.log.log(mark, spdlog::level::info, "{} -> {}", name(before), name(p.bring_up.state()));
  }
  switch (step) {
    case BringUp::Step::none:
      break;
    case BringUp::Step::join:
      p.take_port();
      p.join();
      break;
    case BringUp::Step::go_down:
      p.go_down(now);
      break;
    case BringUp::Step::restart:
      p.go_down(now);
      p.take_port();
      p.join();
      break;
    case BringUp::Step::confirm:
      p.take_port();
      p.confirm_registration("the port has another LID");
      if (p.bring_up.is_up()) p.announcer.start_all(now);
      break;
  }
}

void Link::on_client_reregister(TimePoint /*now*/) {
  if (impl_->bring_up.is_running()) impl_->confirm_registration("register again");
}

void Link::on_queue_pair(Qpn qpn, TimePoint now) {
  Impl& p = *impl_;
  p.own.qpn = qpn;
  p.configured.reset();
  if (!p.parameters) return;
  p.configure_queue_pair();
  if (p.bring_up.is_up()) p.announcer.start_all(now);
}

void Link::on_setup_failed(TimePoint now) {
  Impl& p = *impl_;
  if (!p.bring_up.is_running()) return;
  p.join_later("the queue pair could not be configured or attached", now);
}

void Link::on_attach_failed(const Gid& mgid, TimePoint now) {
  Impl& p = *impl_;
  if (mgid == p.groups.broadcast().mgid()) return on_setup_failed(now);
  p.groups.on_attach_failed(mgid, now);
}

void Link::reply_to_arp(const wire::Arp& request, TimePoint now) {
  Impl& p = *impl_;
  if (!p.bring_up.is_up()) return;
  const bool is_probe = request.sender_protocol.is_unspecified();
  if (is_probe) return p.neighbour_input.reply_to_probe(request, now);
  const bool is_valid = p.host.can_be_neighbour(request.sender_protocol);
  if (is_valid) p.neighbour_input.reply_to_arp(request, now);
}

void Link::on_notice(const wire::Notice& notice, TimePoint now) {
  switch (notice.trap_number) {
    case wire::trap::kInService:
      return impl_->paths.on_in_service(notice.gid, now);
    case wire::trap::kOutOfService:
      return impl_->paths.on_out_of_service(notice.gid, now);
    case wire::trap::kGroupCreated:
    case wire::trap::kGroupDeleted:
      impl_->routed.on_notice(notice);
      impl_->update_routed_groups(now);
      impl_->groups.on_notice(notice.gid);
      return impl_->send_groups.on_notice(notice.gid);
    default:
      return;
  }
}

void Link::shut_down(TimePoint now) {
  Impl& p = *impl_;
  if (p.bring_up.state() == LinkState::stopped) return;
  p.go_down(now);
  p.neighbours.clear(Counter::drop_link_down);
  p.out.sends.clear();
  p.out.to_host.clear();
  p.bring_up.stop();
}

void Link::Impl::take_port() {
  port_gid = {bring_up.port().gid, bring_up.port().gid_index};
  own.gid = port_gid.gid;
  const auto& port = bring_up.port();
  paths.set_source({port_gid, port.lmc, port.grh_required});
  groups.on_lid(port.lid);
}

void Link::Impl::join() {
  std::optional<wire::McMemberRecord> creation;
  if (const GroupCreation& wanted = config.creation; wanted.allowed) {
    creation.emplace();
    creation->qkey = wanted.qkey;
    creation->mtu = wanted.mtu;
    creation->rate = wanted.rate;
    creation->sl = wanted.sl;
    creation->flow_label = wanted.flow_label;
    creation->hop_limit = wanted.hop_limit;
    creation->traffic_class = wanted.traffic_class;
  }
  groups.join_broadcast(creation);
}

/// Takes the link down, since the broadcast group cannot be used now, and joins again later.
void Link::Impl::join_later(std::string_view why, TimePoint now) {
  go_down(now);
  bring_up.on_setup_failed();
  groups.on_setup_failed(why, now);
  groups.on_lid(bring_up.port().lid);
  log.log(message_id(events::kInterfaceDown), spdlog::level::warn, "{}; joining again later", why);
}

/// Takes the link down. On a port that is down, no leave would be received, and the SM removes its
/// memberships.
void Link::Impl::go_down(TimePoint now) {
  set_carrier(false);
  configured.reset();
  parameters.reset();
  const bool can_leave = bring_up.port().active;
  if (can_leave) groups.leave();
  groups.on_lost();
  routed.on_down();
  update_routed_groups(now);
  send_groups.clear(Counter::drop_link_down, can_leave);
  announcer.stop();
  unrouted.drop(Counter::drop_link_down, out.counters);
  neighbours.link_down(now);
  paths.invalidate_all("link down");
}

void Link::Impl::confirm_registration(std::string_view why) {
  groups.on_reregister();
  send_groups.on_reregister();
  routed.on_reregister();
  paths.invalidate_all(why);
}

// --- Responses of the SA -------------------------------------------------------------------------

void Link::on_response(const wire::SaResponse& response, TimePoint now) {
  Impl& p = *impl_;
  if (auto resolution = p.paths.on_response(response, now)) {
    return p.neighbours.path_resolved(std::move(*resolution), now);
  }
  if (p.send_groups.on_response(response, now)) return;
  if (p.routed.on_response(response, now)) return p.update_routed_groups(now);
  if (Group* const group = p.groups.on_response(response, now)) {
    if (group == &p.groups.broadcast()) {
      p.broadcast_joined(now);
    } else {
      group->attach();
    }
  }
  if (p.parameters && p.groups.broadcast().record() == nullptr) {
    return p.join_later("the broadcast group can no longer be used", now);
  }
  p.complete_bring_up(now);
}

/// RFC 4391, 5: Q_Key and MTU of the link are those of the broadcast group.
void Link::Impl::broadcast_joined(TimePoint now) {
  Group& broadcast = groups.broadcast();
  const bool has_changed = parameters && !has_same_parameters(*parameters, *broadcast.record());
  parameters = *broadcast.record();
  configure_queue_pair();
  broadcast.attach();
  constexpr auto kHeader = static_cast<std::uint32_t>(wire::kEncapsulationSize);
  set_mtu(wire::mtu_bytes(broadcast.record()->mtu) - kHeader);
  if (has_changed) {
    log.info("the broadcast group has other parameters; joining the other groups again");
    groups.on_new_parameters(now);
    send_groups.on_new_parameters();
  }
  if (!bring_up.is_up()) groups.join_others(now);
}

void Link::Impl::complete_bring_up(TimePoint now) {
  if (bring_up.is_up() || !parameters || !groups.all_nodes_settled()) return;
  bring_up.on_joined();
  set_carrier(true);
  log.log(message_id(events::kInterfaceUp), spdlog::level::info, "up as {}, MTU {}",
          own.to_string(), transmitter.mtu());
  announcer.start_all(now);
  routed.on_up(groups.broadcast().mgid());
}

void Link::Impl::set_carrier(bool on) {
  if (std::exchange(carrier, on) == on) return;
  out.events.emplace_back(SetCarrier{on});
  if (!on) out.counters.add(Counter::carrier_losses);
}

void Link::Impl::configure_queue_pair() {
  const auto index = bring_up.port().pkey_index;
  assert(index.has_value());
  const ConfigureQueuePair wanted{.pkey_index = index.value_or(0), .qkey = parameters->qkey};
  if (configured == wanted) return;
  configured = wanted;
  out.events.emplace_back(wanted);
}

void Link::Impl::set_mtu(std::uint32_t bytes) {
  if (transmitter.set_mtu(bytes)) out.events.emplace_back(SetMtu{bytes});
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
  p.groups.tick(now);
  p.send_groups.tick(now);
  p.routed.tick(now);
  p.announcer.tick(now);
  p.neighbours.tick(now);
  p.paths.tick(now);
  p.reports.tick(now);
  if (p.unrouted.next_deadline() <= now) p.transmitter.retry(now);
}

TimePoint Link::next_deadline() const {
  const Impl& p = *impl_;
  return std::min({p.groups.next_deadline(), p.send_groups.next_deadline(),
                   p.routed.next_deadline(), p.announcer.next_deadline(),
                   p.neighbours.next_deadline(), p.paths.next_deadline(), p.reports.next_deadline(),
                   p.unrouted.next_deadline()});
}

std::vector<Outgoing>& Link::sends() { return impl_->out.sends; }
std::vector<Frame>& Link::to_host() { return impl_->out.to_host; }
std::vector<Event>& Link::events() { return impl_->out.events; }
std::vector<KnownNeighbour>& Link::known_neighbours() { return impl_->out.known_neighbours; }

LinkState Link::state() const { return impl_->bring_up.state(); }

std::string Link::waiting_for() const {
  switch (state()) {
    case LinkState::port_down:
    case LinkState::port_polling:
    case LinkState::port_init:
    case LinkState::port_armed:
    case LinkState::no_gid: {
      const auto inactive = impl_->bring_up.port().inactive;
      return std::string("the port, which is ").append(text_of(inactive)) +
             std::string(" (").append(remedy_of(inactive)) + ")";
    }
    case LinkState::no_subnet_manager:
      return "a subnet manager: the port is ACTIVE, but knows of none (" +
             std::string(kSubnetManagerRemedy) + ")";
    case LinkState::no_pkey:
      return "the P_Key to appear in the port's table (put the port into the partition, in the "
             "configuration of the subnet manager)";
    case LinkState::joining:
      return impl_->groups.waiting_for() + " (saquery MCMemberRecord shows the groups)";
    case LinkState::up:
      return "nothing: the link is up";
    case LinkState::stopped:
      return "nothing: the link is shut down";
  }
  return {};
}

HwAddress Link::hardware_address() const { return impl_->own; }
std::uint32_t Link::mtu() const { return impl_->transmitter.mtu(); }
QKey Link::qkey() const { return impl_->configured.value_or(ConfigureQueuePair{}).qkey; }
std::vector<GroupInfo> Link::groups() const {
  std::vector<GroupInfo> all;
  impl_->groups.append_info(all);
  impl_->send_groups.append_info(all);
  for (GroupInfo& group : all) impl_->groups.add_address(group);
  return all;
}
std::size_t Link::neighbour_count() const { return impl_->neighbours.size(); }
std::size_t Link::unrouted_count() const { return impl_->unrouted.size(); }
const NeighbourStatistics& Link::neighbour_statistics() const {
  return impl_->neighbour_statistics;
}
const Counters& Link::counters() const { return impl_->out.counters; }

}  // namespace ipoib::link
