#include "daemon/pump/pump.hpp"

#include <algorithm>
#include <utility>

#include "daemon/pump/pools.hpp"
#include "ipoib/log.hpp"
#include "wire/encapsulation.hpp"

namespace ipoib::daemon {

namespace {

/// The Ethernet view answers with what the link learns.
link::Config link_config(const Pump::Settings& settings) {
  link::Config config = settings.link;
  config.reports_neighbours = settings.ethernet;
  config.serves_stations = settings.ethernet && settings.stations > 0;
  return config;
}

}  // namespace

Pump::Pump(const Settings& settings, const Dependencies& dependencies)
    : dependencies_(dependencies),
      max_ip_mtu_(settings.max_ip_mtu),
      mode_(settings.mode),
      link_(link_config(settings),
            {.handles = dependencies.queue_pair,
             .messages = dependencies.messages,
             .packets = dependencies.host_frames.packets,
             .log = dependencies.link_log,
             .hash_key = settings.hash_key,
             .first_request = settings.first_request,
             .arp_policy = dependencies.arp_policy},
            dependencies.queue_pair.qpn(), settings.seed),
      host_(link_, dependencies.log, settings.hash_key,
            {.ethernet = settings.ethernet,
             .neighbours = settings.link.limits.neighbours,
             .stations = settings.stations,
             .strict_source = settings.strict_source,
             .solicitations = settings.link.limits.solicitations / 2}),
      coalescer_(dependencies.tun) {}

bool Pump::turn(TimePoint now) {
  bool busy = from_fabric(now);
  busy |= from_host(now);
  if (next_deadline() <= now) {
    dependencies_.trace.record("tick", now);
    link_.tick(now);
    if (serves_host()) host_.tick(now);
    drain(now);
    busy = true;  // it may have released frames
  }
  return busy;
}

bool Pump::from_fabric(TimePoint now) {
  const bool waited = !link_.sends().empty();
  const auto count = dependencies_.queue_pair.receive(datagrams_, kBatch);
  if (observed_.observer != nullptr) {
    observed_.observer->received(datagrams_, {link_, observed_.lid, observed_.pkey});
  }
  if (mode_ != PumpMode::active) leave_to_active_pump();
  if (count > 0) {
    dependencies_.trace.record("from fabric", now, count);
    link_.from_fabric(datagrams_, now);
    datagrams_.clear();
  }
  drain(now);
  return count > 0 || (waited && link_.sends().empty());
}

bool Pump::from_host(TimePoint now) {
  if (!link_.sends().empty()) return false;
  if (mode_ != PumpMode::active) return false;
  const auto& [small, large] = dependencies_.host_frames;
  const bool may_have_more =
      dependencies_.tun.read(dependencies_.host_frames, host_.headroom(), packets_, host_limit_);
  const auto count = packets_.size();
  host_limit_ = std::clamp(2 * count, std::size_t{1}, kBatch);
  // If there are no packets, they were of VLANs, or malformed, or there is no frame to read one
  // into.
  if (count == 0) return may_have_more && small.available() > 0 && large.available() > 0;
  dependencies_.trace.record("from host", now, count);
  dependencies_.routes.refresh(now);
  host_.send(packets_, now);
  packets_.clear();
  drain(now);
  return true;
}

/// Drops the datagrams that the active pump gets, too, or answers.
void Pump::leave_to_active_pump() {
  std::erase_if(datagrams_, [this](const Incoming& datagram) {
    if (mode_ == PumpMode::held || datagram.destination_gid.is_multicast()) return true;
    const auto type = wire::parse_encapsulation(datagram.frame.bytes());
    return type != wire::EtherType::ipv4 && type != wire::EtherType::ipv6;
  });
}

void Pump::on_host_changed(const HostChanged& message, TimePoint now) {
  if (serves_host()) return host_.on_changed(message.view, now, message.routes);
  link_.on_host_changed(message.view, now, message.routes);
}

TimePoint Pump::next_deadline() const {
  // The requests of a retired link would make peers send to its queue pair.
  if (mode_ == PumpMode::retired) return kNever;
  const auto of_host = serves_host() ? host_.next_deadline() : kNever;
  return std::min(link_.next_deadline(), of_host);
}

void Pump::set_mode(PumpMode mode, TimePoint now) {
  const auto before = std::exchange(mode_, mode);
  if (mode != PumpMode::active || before == PumpMode::active) return;
  if (link_.mtu() != 0) apply(link::SetMtu{link_.mtu()});
  apply(link::SetCarrier{link_.state() == link::LinkState::up});
  link_.announce(now);
  drain(now);
}

void Pump::drain(TimePoint now) {
  auto& received = serves_host() ? host_.received(now) : host_.received_in_standby(now);
  for (auto& packet : received) coalescer_.add(std::move(packet));
  received.clear();
  coalescer_.flush();
  send_pending(now);
  // A failed instruction is a stimulus, which may cause more instructions.
  while (!link_.events().empty()) {
    events_.swap(link_.events());
    for (const auto& event : events_) {
      std::visit([this](const auto& instruction) { apply(instruction); }, event);
    }
    events_.clear();
    if (std::exchange(setup_failed_, false)) {
      link_.on_setup_failed(now);
      not_attached_.clear();  // the link has given up all groups
    }
    for (const Gid& mgid : not_attached_) link_.on_attach_failed(mgid, now);
    not_attached_.clear();
    send_pending(now);
  }
}

void Pump::send_pending(TimePoint now) {
  auto& sends = link_.sends();
  if (mode_ == PumpMode::held || mode_ == PumpMode::standby) sends.clear();
  if (sends.empty()) return;
  auto* const observer = observed_.observer;
  if (observer != nullptr) observer->sending(sends, {link_, observed_.lid, observed_.pkey});
  const auto posted = dependencies_.queue_pair.send(sends);
  if (observer != nullptr) observer->sent(posted);
  dependencies_.trace.record("to fabric", now, posted, sends.size());
  sends.erase(sends.begin(), sends.begin() + static_cast<std::ptrdiff_t>(posted));
}

void Pump::apply(const link::ConfigureQueuePair& event) {
  if (auto done = dependencies_.queue_pair.configure({event.pkey_index, event.qkey}); !done) {
    dependencies_.log.error("{}", done.error().message);
    setup_failed_ = true;
  }
}

void Pump::apply(const link::AttachGroup& event) {
  if (auto done = dependencies_.queue_pair.attach(event.mgid, event.mlid); !done) {
    dependencies_.log.error("{}", done.error().message);
    not_attached_.push_back(event.mgid);
  }
}

void Pump::apply(const link::DetachGroup& event) {
  if (auto done = dependencies_.queue_pair.detach(event.mgid, event.mlid); !done) {
    dependencies_.log.warn("{}", done.error().message);
  }
}

void Pump::apply(const link::SetMtu& event) {
  if (mode_ != PumpMode::active) return;  // set_mode() sets it
  if (max_ip_mtu_ < link::kMaxIpMtu && event.bytes < max_ip_mtu_) {
    dependencies_.log.warn(
        "--mtu {}: the link carries {} bytes, by the MTU of the partition's broadcast group "
        "(OpenSM: mtu= in its partitions file)",
        max_ip_mtu_, event.bytes);
  }
  if (auto done = dependencies_.tun.set_mtu(allowed_mtu(event.bytes)); !done) {
    dependencies_.log.error("{}", done.error().message);
  }
}

void Pump::apply(const link::SetCarrier& event) {
  if (mode_ != PumpMode::active) return;  // set_mode() sets it
  if (auto done = dependencies_.tun.set_carrier(event.on); !done) {
    dependencies_.log.error("{}", done.error().message);
  }
}

}  // namespace ipoib::daemon
