#include "tests/sim/host.hpp"

#include <spdlog/sinks/null_sink.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "daemon/interfaces/ipv6_identity.hpp"
#include "daemon/options/options.hpp"
#include "daemon/pump/sa_requests.hpp"
#include "ipoib/log.hpp"
#include "ipoib/random.hpp"
#include "ipoib/trace.hpp"
#include "tests/on_link.hpp"
#include "wire/ethernet.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/neighbour_discovery.hpp"

namespace ipoib::sim {
namespace {

constexpr auto kFirstRequest = daemon::first_link_request(daemon::InterfaceNumber(1));

std::uint64_t seed_of(const HostOptions& options) {
  return std::hash<std::string>{}(options.hca) ^ options.slot << 8 ^ options.epoch;
}

/// One for all hosts: they run in one thread, and a ring is larger than the rest of a host.
TraceRing& shared_trace() {
  static TraceRing ring("sim");
  return ring;
}

/// Converts port attributes as verbs would report them.
verbs::PortSnapshot snapshot_of(const softib::PortAttributes& port) {
  verbs::PortSnapshot out;
  out.active = port.state == softib::PortState::active;
  out.lid = port.lid;
  out.lmc = port.lmc;
  out.sm_lid = port.sm_lid;
  out.sm_sl = port.sm_sl;
  out.gid = port.gid();
  out.grh_required = port.grh_required;
  out.pkeys.assign(port.pkeys.begin(), port.pkeys.end());
  return out;
}

}  // namespace

Logger& silent_logger() {
  static Logger logger("sim", std::make_shared<spdlog::sinks::null_sink_st>());
  return logger;
}

MemoryTun::Packet ip_packet(Ipv4Address from, Ipv4Address to, std::uint32_t number,
                            std::size_t size) {
  MemoryTun::Packet packet(size);
  ByteWriter out(packet);
  out.u8(0x45);
  out.u8(0);
  out.u16(static_cast<std::uint16_t>(size));
  out.u16(0);
  out.u16(0x4000);  // DF, as most packets have
  out.u8(64);
  out.u8(253);  // protocol for experiments (RFC 3692)
  out.u16(0);
  out.bytes(from.bytes());
  out.bytes(to.bytes());
  out.u32(number);
  return packet;
}

MemoryTun::Packet ip_packet(const Ipv6Address& from, const Ipv6Address& to, std::uint32_t number) {
  constexpr std::uint8_t kForExperiments = 253;
  MemoryTun::Packet packet(wire::Ipv6Header::kSize + sizeof number);
  wire::Ipv6Header{.source = from,
                   .destination = to,
                   .payload_length = sizeof number,
                   .next_header = kForExperiments,
                   .hop_limit = 64}
      .emit(packet);
  store_be(packet.data() + wire::Ipv6Header::kSize, number);
  return packet;
}

Host::Host(World& world, const HostOptions& options)
    : world_(world),
      pkey_(options.link.pkey),
      takes_reports_(options.takes_reports),
      port_view_(options.log),
      view_{.addresses = {options.address}, .tables = test::all_on_link()},
      tun_(options.hca),
      frames_(options.frames, 4096 + 64),
      subscriptions_(options.log, seed_of(options)) {
  const softib::NodeIndex node = world_.subnet().add_hca(options.hca).value();
  const softib::PortAttributes port = world_.subnet().node(node)->port;
  if (options.ipv6) {
    const Guid guid = port.gid().guid();
    view_.addresses.emplace_back(*daemon::ipv6_identity(false, guid, pkey_).link_local, 64);
    view_.groups = {ipv6().solicited_node()};
  }
  hca_ = std::make_unique<softib::hca::Hca>(options.epoch, options.slot, softib::HcaPorts(port));
  port_ = std::make_unique<HcaPort>(*hca_, world_, std::vector{&frames_}, options.queue_depth);
  sa_ = std::make_unique<sa::SaClient>(sa::Config{}, *this, options.log, seed_of(options),
                                       [random = Random(~seed_of(options))]() mutable {
                                         return static_cast<std::uint32_t>(random.next());
                                       });
  routes_ = std::make_unique<daemon::RouteFollower>(nullptr);
  pump_ = std::make_unique<daemon::Pump>(
      daemon::Pump::Settings{.link = options.link,
                             .max_ip_mtu = daemon::Options::kMaxIpMtu,
                             .seed = seed_of(options),
                             .hash_key = {seed_of(options), options.epoch},
                             .first_request = kFirstRequest,
                             .ethernet = options.mac.has_value(),
                             .stations = options.stations},
      daemon::Pump::Dependencies{.tun = tun_,
                                 .queue_pair = *port_,
                                 .host_frames = {frames_, frames_},
                                 .messages = frames_,
                                 .routes = *routes_,
                                 .trace = shared_trace(),
                                 .log = options.log,
                                 .link_log = options.log});
  if (options.mac) {
    tun_.link_header = wire::EthernetHeader::kSize;
    view_.mac = options.mac;
  } else {
    tun_.kernel = [this](ConstBytes packet) { return take_as_kernel(packet); };
  }
  pump_->host().on_changed(view_, world_.now());
  reregister_count_ = port.reregister_count;
  node_ = world_.add(*this, options.hca);
  port_changed(port);
  turn();
  world_.wake(*this, next_deadline());
}

Host::~Host() {
  world_.remove(*this);
  pump_.reset();
  port_.reset();
}

std::string Host::state_of(const IpAddress& address) const {
  const auto info = link().get(address, world_.now());
  return info ? std::string(name(info->state)) : "gone";
}

void Host::send(Ipv4Address to, std::uint32_t first, std::uint32_t count, std::size_t size) {
  for (std::uint32_t i = 0; i < count; ++i) {
    tun_.to_fabric.push_back(ip_packet(ip(), to, first + i, size));
  }
  turn();
  world_.wake(*this, next_deadline());
}

void Host::send(const Ipv6Address& to, std::uint32_t number) {
  send(ip_packet(ipv6(), to, number));
}

void Host::send(MemoryTun::Packet packet) {
  tun_.to_fabric.push_back(std::move(packet));
  turn();
  world_.wake(*this, next_deadline());
}

void Host::send_datagram(const AddressVector& to, Qpn qpn, ConstBytes datagram) {
  Outgoing one{port_->create_address_handle(to).value(), qpn, frames_.take()};
  one.frame.window(0, datagram.size());
  std::ranges::copy(datagram, one.frame.bytes().begin());
  (void)port_->send({&one, 1});
}

std::size_t Host::received_from(const IpAddress& from) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(tun_.from_fabric, [&from](const MemoryTun::Packet& packet) {
        if (const auto ipv4 = wire::Ipv4Header::parse(packet))
          return from == IpAddress(ipv4->source);
        return from == IpAddress(wire::Ipv6Header::parse(packet)->source);
      }));
}

void Host::add_address(const IpPrefix& prefix) {
  view_.addresses.push_back(prefix);
  host_changed();
}

void Host::remove_addresses() {
  view_.addresses.clear();
  host_changed();
}

void Host::set_groups(std::vector<IpAddress> groups) {
  view_.groups = std::move(groups);
  host_changed();
}

void Host::route_multicast(bool on) {
  view_.routes_ipv4_multicast = on;
  host_changed();
}

void Host::host_changed() {
  pump_->host().on_changed(view_, world_.now());
  turn();
  world_.wake(*this, next_deadline());
}

void Host::shut_down() {
  link().shut_down(world_.now());
  drain();
}

// --- Stimuli ------------------------------------------------------------------------------------

void Host::port_changed(const softib::PortAttributes& port) {
  hca_->set_port(port);
  hca_->clear_events();
  const TimePoint now = world_.now();
  const bool changed = port_view_.update(snapshot_of(port), tun_.name());
  const bool reregister =
      std::exchange(reregister_count_, port.reregister_count) != port.reregister_count;
  if (changed) {
    sa_->set_sm(daemon::sa_destination(port_view_.snapshot()), now);
    link().on_port(daemon::port_status(port_view_.snapshot(), pkey_), now);
  }
  if (reregister) link().on_client_reregister(now);
  if (changed || reregister) renew_subscriptions();
}

void Host::renew_subscriptions() {
  if (takes_reports_ && daemon::sa_destination(port_view_.snapshot())) {
    subscriptions_.renew();
  } else {
    subscriptions_.suspend();
  }
}

TimePoint Host::next_deadline() const {
  const bool waits = !tun_.to_fabric.empty() || !mads_.empty();
  return std::min({pump_->next_deadline(), sa_->next_deadline(), subscriptions_.next_deadline(),
                   waits ? world_.now() + std::chrono::microseconds(1) : kNever});
}

/// Runs the pump and the SA client, like the threads of ipoibd, until they have no more work.
void Host::turn() {
  const TimePoint now = world_.now();
  if (!mads_.empty()) sa_->on_readable(now);
  sa_->on_time(now);
  subscriptions_.on_time(now);
  exchange_with_sa();
  while (pump_->turn(now)) {
  }
  send_requests();
  exchange_with_sa();
}

/// Sends the requests of the subscriptions, and distributes responses and reports.
void Host::exchange_with_sa() {
  const TimePoint now = world_.now();
  for (const auto& request : std::exchange(subscriptions_.requests(), {})) {
    sa_->request(request, now);
  }
  for (const auto& response : std::exchange(sa_->responses(), {})) {
    if (response.id < kFirstRequest) {
      subscriptions_.on_response(response, now);
    } else {
      link().on_response(response, now);
    }
    drain();
  }
  for (const wire::Notice& notice : std::exchange(sa_->notices(), {})) {
    link().on_notice(notice, now);
    drain();
  }
}

/// Answers neighbour solicitations for the host's addresses, without link-layer addresses, which
/// the kernel does not know (RFC 4861, 7.2.4). Returns whether the packet was Neighbour Discovery.
bool Host::take_as_kernel(ConstBytes packet) {
  if (!wire::is_neighbour_discovery(packet, wire::upper_layer(packet))) return false;
  const auto solicitation = wire::NdMessage::parse(packet);
  if (!solicitation || solicitation->type != wire::NdType::neighbour_solicitation ||
      std::ranges::find(view_.addresses, IpAddress(solicitation->target), &IpPrefix::address) ==
          view_.addresses.end()) {
    return true;
  }
  wire::NdMessage advertisement;
  advertisement.type = wire::NdType::neighbour_advertisement;
  advertisement.source = advertisement.target = solicitation->target;
  advertisement.destination = solicitation->source;
  advertisement.is_solicited = advertisement.overrides = true;
  MemoryTun::Packet bytes(wire::NdMessage::kMaxEmitted);
  bytes.resize(advertisement.emit(bytes));
  tun_.to_fabric.push_back(std::move(bytes));
  return true;
}

// --- Requests of the link -----------------------------------------------------------------------

void Host::drain() {
  pump_->drain(world_.now());
  send_requests();
}

void Host::send_requests() {
  for (const daemon::ToControl& message : std::exchange(pump_->to_control(), {})) {
    std::visit([this](const auto& request) { apply(request); }, message);
  }
}

void Host::apply(const wire::SaRequest& request) { sa_->request(request, world_.now()); }

// --- MadPort ------------------------------------------------------------------------------------

Result<void> Host::send(const MadDestination& to, ConstBytes mad, Duration timeout) {
  return world_.send_mad(*this, to, mad, timeout);
}

std::optional<ReceivedMad> Host::receive() {
  if (mads_.empty()) return std::nullopt;
  ReceivedMad mad = std::move(mads_.front());
  mads_.pop_front();
  return mad;
}

MadSource Host::source() {
  const verbs::PortSnapshot& port = port_view_.snapshot();
  return {port.gid.prefix(), port.pkeys};
}

}  // namespace ipoib::sim
