#include "softib/endpoint/endpoint.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "softib/core/bit_errors.hpp"
#include "softib/core/large_packet.hpp"
#include "softib/fabric/attached_processes.hpp"
#include "wire/mad.hpp"

namespace softib::endpoint {

namespace {

/// Different for each process of a node.
std::uint32_t qpn_seed(const transport::ProcessSlot& slot) {
  return QpnLayout::make(slot.epoch(), slot.index(), 0).value();
}

PortAttributes disconnected(PortAttributes port) {
  port.state = PortState::down;
  port.lid = Lid();
  return port;
}

}  // namespace

Endpoint::Endpoint(fabric::SubnetFolder folder, fabric::Fabric fabric, NodeIndex node,
                   const subnet::Node& record, transport::ProcessSlot slot)
    : folder_(std::move(folder)),
      fabric_(std::move(fabric)),
      node_(node),
      name_(record.name),
      hca_generation_(record.port.generation),
      slot_(std::move(slot)),
      wire_(folder_, fabric_, this),
      router_(
          folder_, fabric_, wire_, node_,
          [this](transport::WirePacket packet, ipoib::Duration wait) {
            FaultyLink& link = *port_with(packet.port).link;
            link.hold(std::move(packet), wait);
          },
          qpn_seed(slot_)),
      ports_(make_ports(record)),
      live_captures_(folder_, {node_, slot_.index(), slot_.epoch()}),
      network_(make_network(record.port)),
      engine_(slot_.listener(), *this) {
  set_faults();
  slot_.occupy(fabric_);
  // The first packets are captured, too.
  {
    const std::lock_guard lock(delivery_mutex_);
    follow_captures();
  }
  // Nobody has woken the engine for changes before the slot was occupied.
  engine_.wake();
}

Endpoint::~Endpoint() {
  // Stop the engine before the listener that it uses is closed.
  engine_.stop();
  for (const Port& port : ports_) port.link->stop();
  wire_.disconnect();  // tells the engine
  if (!belongs_to_parent() && !detached_) slot_.leave(folder_, fabric_);
}

void Endpoint::detach() {
  if (belongs_to_parent() || std::exchange(detached_, true)) return;
  engine_.stop();
  turn_done();  // reports what the engine has not reported
  set_lost();   // even if the HCA is restored later
  (void)live_captures_.follow(0);
  for (const Port& port : ports_) port.link->stop();
  wire_.disconnect();
  slot_.leave(folder_, fabric_);
}

std::vector<Endpoint::Port> Endpoint::make_ports(const subnet::Node& first) {
  std::vector<Port> ports;
  ports.push_back(make_port(node_, first.port));
  const auto second =
      first.other_port != subnet::kNoOtherPort ? fabric_.node(first.other_port) : std::nullopt;
  if (second && second->name == first.name && second->port.number != first.port.number) {
    ports.push_back(make_port(first.other_port, second->port));
  }
  return ports;
}

Endpoint::Port Endpoint::make_port(NodeIndex node, const PortAttributes& port) {
  const auto count_event = [this, node](FaultyLink::Event event) {
    count(node,
          event == FaultyLink::Event::lost ? fabric::PortCounter::drop_link_fault
                                           : fabric::PortCounter::link_duplicates,
          1);
  };
  const std::uint64_t seed = std::uint64_t{node} << 32 | qpn_seed(slot_);
  auto link = std::make_unique<FaultyLink>([this](const WirePacket& packet) { send_now(packet); },
                                           count_event, seed);
  return {.node = node, .number = port.number, .last = port, .link = std::move(link)};
}

/// The first one if no port of this number has a cable.
const Endpoint::Port& Endpoint::port_with(std::uint8_t number) const {
  const auto& last = ports_.back();
  return last.number == number ? last : ports_.front();
}

NodeIndex Endpoint::node_of(std::uint8_t port) const { return port_with(port).node; }

bool Endpoint::is_lost() const { return lost_ || !read(ports_.front()).serves(hca_generation_); }

PortAttributes Endpoint::read(const Port& port) const {
  const auto record = fabric_.node(port.node);
  if (record && !lost_) {
    const bool is_served = record->port.serves(hca_generation_);
    return is_served ? record->port : disconnected(record->port);
  }
  const std::lock_guard lock(port_mutex_);
  return lost_ || fabric_.port_state(port.node) == PortState::down ? disconnected(port.last)
                                                                   : port.last;
}

HcaPorts Endpoint::ports() const {
  HcaPorts ports(read(ports_.front()));
  if (ports_.size() > 1) ports.set(read(ports_.back()));
  return ports;
}

transport::SendMode Endpoint::send_mode() const {
  return engine_.is_current_thread() ? transport::SendMode::non_blocking
                                     : transport::SendMode::blocking;
}

void Endpoint::set_lost() {
  lost_ = true;
  is_special_ = true;
}

void Endpoint::set_faults() {
  bool any = false;
  for (const Port& port : ports_) {
    port.link->set(port.last.faults);
    any |= port.last.faults.any();
  }
  is_special_ = lost_ || any;
}

void Endpoint::send(std::span<const OutgoingPacket> batch) {
  if (belongs_to_parent()) return;
  if (auto* const observer = this->observer()) observer->sent(batch);
  if (is_special_) return send_over_faulty_link(batch);
  router_.send(batch, send_mode());
}

TrySent Endpoint::try_send(std::span<const OutgoingPacket> batch) {
  if (belongs_to_parent()) return batch.size();
  if (auto* const observer = this->observer()) {
    return observer->try_send(batch, [&] { return try_send_unobserved(batch); });
  }
  return try_send_unobserved(batch);
}

TrySent Endpoint::try_send_unobserved(std::span<const OutgoingPacket> batch) {
  if (!is_special_) return router_.try_send(batch);
  send_over_faulty_link(batch);
  return batch.size();
}

bool Endpoint::has_untaken(std::uint8_t port, Lid dlid, Qpn destination) {
  return !is_inactive() && router_.has_untaken(port, dlid, destination);
}

/// Large packets are segmented first: each segment has faults of its own. A datagram to QP0 or QP1
/// is a MAD from here on.
void Endpoint::send_over_faulty_link(std::span<const OutgoingPacket> batch) {
  if (lost_) return;
  for (const auto& packet : batch) {
    for_each_packet(packet, [&](ConstBytes bytes) {
      WirePacket copy;
      const bool is_mad = packet.destination <= ipoib::wire::kGsiQpn;
      copy.kind = is_mad ? WirePacket::Kind::mad : WirePacket::Kind::datagram;
      copy.bytes.assign(bytes.begin(), bytes.end());
      copy.dlid = packet.dlid;
      copy.destination = packet.destination;
      copy.purpose = packet.purpose;
      copy.checksums_valid = packet.checksums_valid || packet.gso.size != 0;
      copy.port = packet.port;
      port_with(packet.port).link->send(std::move(copy));
    });
  }
}

void Endpoint::send_now(const WirePacket& packet) {
  if (is_inactive()) return;
  const bool has_icrc = !packet.with_icrc.empty();
  const transport::MadOnWire on_wire{has_icrc ? packet.with_icrc : packet.bytes, has_icrc};
  if (packet.has_passed_switches) return router_.deliver_late(packet);
  switch (packet.kind) {
    case WirePacket::Kind::datagram: {
      OutgoingPacket out;
      out.add(on_wire.bytes);
      out.has_icrc = has_icrc;
      out.checksums_valid = packet.checksums_valid;
      out.dlid = packet.dlid;
      out.destination = packet.destination;
      out.purpose = packet.purpose;
      out.port = packet.port;
      // A connection sends again what there was no room for.
      const auto mode =
          packet.purpose == Purpose::datagram ? send_mode() : transport::SendMode::as_room_permits;
      return router_.send({&out, 1}, mode);
    }
    case WirePacket::Kind::mad:
      return router_.send_mad(packet.port, packet.bytes, on_wire);
    case WirePacket::Kind::mad_to_node:
      return router_.send_mad_to(packet.node, on_wire);
  }
}

void Endpoint::send_mad(std::uint8_t port, ConstBytes packet) {
  if (auto* const observer = this->observer()) observer->mad_sent(packet);
  if (is_inactive()) return;
  if (!is_special_) return router_.send_mad(port, packet);
  port_with(port).link->send({.kind = WirePacket::Kind::mad,
                              .bytes = {packet.begin(), packet.end()},
                              .dlid = Lid(),
                              .destination = Qpn(),
                              .port = port});
}

void Endpoint::send_mad_to(NodeIndex node, ConstBytes packet) {
  if (auto* const observer = this->observer()) observer->mad_sent(packet);
  if (is_inactive()) return;
  if (!is_special_) return router_.send_mad_to(node, {packet});
  ports_.front().link->send({.kind = WirePacket::Kind::mad_to_node,
                             .bytes = {packet.begin(), packet.end()},
                             .dlid = Lid(),
                             .destination = Qpn(),
                             .node = node});
}

void Endpoint::set_deadline(ipoib::TimePoint when) {
  if (is_inactive()) return;
  const std::lock_guard lock(deadline_mutex_);
  deadline_ = when;
  update_deadline();
}

void Endpoint::set_mad_deadline(MadReceiver& receiver, ipoib::TimePoint when) {
  if (is_inactive()) return;
  const std::lock_guard lock(deadline_mutex_);
  mad_deadlines_[&receiver] = when;
  update_deadline();
}

void Endpoint::update_deadline() {
  auto next = deadline_;
  for (const auto& [receiver, when] : mad_deadlines_) next = std::min(next, when);
  engine_.set_deadline(next);
}

bool Endpoint::wake_processes(NodeIndex node) {
  return is_inactive() || router_.wake_processes(node);
}

template <class Change>
void Endpoint::with_delivery_lock(Change change) {
  if (belongs_to_parent()) return;
  if (engine_.is_current_thread()) return change();
  const std::lock_guard lock(delivery_mutex_);
  change();
}

void Endpoint::observe(std::unique_ptr<PacketObserver> observer) {
  with_delivery_lock([&] {
    own_observer_ = std::move(observer);
    live_captures_.set_next(own_observer_.get());
    if (this->observer() != &live_captures_) observer_ = own_observer_.get();
  });
}

/// What has seen packets once exists as long as this object: a thread may be using it.
void Endpoint::follow_captures() {
  const auto captures = fabric_.captures(node_);
  if (captures == std::exchange(last_captures_, captures)) return;
  const bool is_on = live_captures_.follow(lost_ ? 0 : captures);
  observer_.store(is_on ? &live_captures_ : own_observer_.get(), std::memory_order_release);
}

/// Wakes the engine, which then reports the port's current state to the new receiver.
void Endpoint::set_receiver(PacketReceiver* receiver) {
  with_delivery_lock([&] {
    receiver_ = receiver;
    for (Port& port : ports_) port.is_reported = false;
  });
  if (receiver != nullptr && !belongs_to_parent()) engine_.wake();
}

void Endpoint::add_mad_receiver(MadReceiver& receiver, ManagementClasses classes) {
  with_delivery_lock([&] { mad_receivers_.add(receiver, std::move(classes)); });
  if (!belongs_to_parent()) engine_.wake();
}

void Endpoint::remove_mad_receiver(MadReceiver& receiver) {
  if (belongs_to_parent()) return;
  with_delivery_lock([&] { mad_receivers_.remove(receiver); });
  const std::lock_guard lock(deadline_mutex_);
  mad_deadlines_.erase(&receiver);
}

void Endpoint::set_process_watcher(ProcessWatcher* watcher) {
  with_delivery_lock([&] { watcher_ = watcher; });
}

bool Endpoint::is_running(const RemoteProcess& process) const {
  return fabric::is_attached(fabric_, folder_, {process.node, process.slot}, process.epoch);
}

bool Endpoint::watch(int socket, transport::Process process) {
  return engine_.watch(socket, process);
}

void Endpoint::connection_ended(transport::Process process) { engine_.connection_ended(process); }

void Endpoint::connections_ended(std::span<const transport::Process> processes) {
  const std::lock_guard lock(delivery_mutex_);
  if (watcher_ == nullptr) return;
  for (const auto& [address, epoch] : processes) {
    watcher_->connection_ended({address.node, address.slot, epoch});
  }
}

ObjectPage Endpoint::objects(const ObjectRequest& request) {
  const std::lock_guard lock(delivery_mutex_);
  return receiver_ != nullptr ? receiver_->objects(request) : ObjectPage();
}

void Endpoint::hung_up(int fd) {
  if (network_) engine_.set_source(*network_, [&] { network_->lender_gone(fd); });
  const std::lock_guard lock(delivery_mutex_);
  if (watcher_ != nullptr) watcher_->hung_up(fd);
}

void Endpoint::count(fabric::PortCounter counter, std::uint64_t by) { count(node_, counter, by); }

void Endpoint::count(NodeIndex at, fabric::PortCounter counter, std::uint64_t by) {
  const bool is_of_port = network_ != nullptr && node_ == kSubnetNode;
  if (by != 0) fabric_.count(is_of_port ? kRoceNode : at, counter, by);
}

fabric::PortCounterValues Endpoint::counters() const { return fabric_.counters(node_); }

void Endpoint::count_violations(std::uint8_t port, CheckedKey key, const KeyViolations& more) {
  fabric_.note_violations(node_of(port), key, more);
}

void Endpoint::arrived(std::span<const ArrivedPacket> packets) {
  if (ports_.size() == 1) return arrived_at_port(packets);
  while (!packets.empty()) {
    const auto is_other = [&](const auto& packet) { return packet.port != packets.front().port; };
    const auto end = std::ranges::find_if(packets, is_other);
    const auto together = packets.first(static_cast<std::size_t>(end - packets.begin()));
    packets = packets.subspan(together.size());
    arrived_at_port(together);
  }
}

/// Drops packets unless the port is active. mad_arrived() need not: the sender of a MAD has checked
/// the port (Router::send_mad()).
void Endpoint::arrived_at_port(std::span<const ArrivedPacket> packets) {
  const auto number = count_packets(packets);
  const NodeIndex node = node_of(packets.front().port);
  if (lost_ || fabric_.port_state(node) != PortState::active) {
    return count(node, fabric::PortCounter::drop_port_not_active, number);
  }
  std::uint64_t bytes = 0;
  bool has_icrcs = false;
  for (const auto& packet : packets) {
    bytes += segmented_size(packet);
    has_icrcs |= packet.has_icrc;
  }
  count_received(node, number, bytes);
  if (has_icrcs) packets = check_icrcs(packets);
  const std::lock_guard lock(delivery_mutex_);
  if (auto* const observer = this->observer()) observer->received(packets, ports());
  if (receiver_ != nullptr) {
    receiver_->receive(packets);
  } else {
    count(node, fabric::PortCounter::drop_no_receiver, count_packets(packets));
  }
}

std::span<const ArrivedPacket> Endpoint::check_icrcs(std::span<const ArrivedPacket> packets) {
  checked_.clear();
  for (auto packet : packets) {
    if (packet.has_icrc && !has_valid_icrc(packet.bytes)) continue;
    if (std::exchange(packet.has_icrc, false)) packet.bytes = without_icrc(packet.bytes);
    checked_.push_back(packet);
  }
  count(fabric::PortCounter::drop_icrc, packets.size() - checked_.size());
  return checked_;
}

void Endpoint::mad_arrived(const transport::MadOnWire& mad) {
  const NodeIndex node = node_of(mad.port);
  if (lost_) return count(node, fabric::PortCounter::drop_port_not_active, 1);
  count_received(node, 1, mad.bytes.size());
  if (mad.has_icrc && !has_valid_icrc(mad.bytes)) {
    return count(node, fabric::PortCounter::drop_icrc, 1);
  }
  const auto bytes = mad.has_icrc ? without_icrc(mad.bytes) : mad.bytes;
  const std::lock_guard lock(delivery_mutex_);
  if (auto* const observer = this->observer()) observer->mad_received(bytes);
  auto packet = MadPacket::parse(bytes);
  if (!packet) return count(node, fabric::PortCounter::drop_malformed, 1);
  packet->port = port_with(mad.port).number;
  if (watcher_ != nullptr) router_.watch_sender(*packet);
  if (!mad_receivers_.deliver(*packet)) count(node, fabric::PortCounter::drop_mad_no_agent, 1);
}

void Endpoint::count_received(NodeIndex at, std::size_t packets, std::uint64_t bytes) {
  count(at, fabric::PortCounter::received_packets, packets);
  count(at, fabric::PortCounter::received_bytes, bytes);
}

/// The subnet of a RoCE port has one HCA, whose messages of communication management come to the
/// process of the port.
std::unique_ptr<roce::Port> Endpoint::make_network(const PortAttributes& port) {
  if (!port.is_ethernet()) return nullptr;
  roce::Receiver::Handler& self = *this;
  auto network = std::make_unique<roce::Port>(self);
  router_.set_uplink(*network, node_ == kSubnetNode ? kRoceNode : node_);
  return network;
}

void Endpoint::use_sockets(roce::BorrowedSockets sockets) {
  const int lender = sockets.lender.get();
  engine_.set_source(*network_, [&] { network_->set_sockets(std::move(sockets)); });
  if (lender >= 0) (void)engine_.watch_hangup(lender);
}

ipoib::Result<void> Endpoint::borrow_sockets() {
  auto sockets = roce::borrow_sockets(folder_, slot_.index());
  if (!sockets) return sockets.error();
  use_sockets(std::move(*sockets));
  return {};
}

ipoib::Result<void> Endpoint::set_groups(std::span<const Gid> groups) {
  ipoib::Result<void> result;
  if (belongs_to_parent() || !network_) return result;
  engine_.set_source(*network_, [&] { result = network_->set_groups(groups); });
  return result;
}

/// Packets from the network. Most are for this process, since the kernel hands each to the process
/// that its QPN names.
void Endpoint::packets_arrived(std::span<const ArrivedPacket> packets, Qpn destination) {
  const bool names_slot =
      destination == ipoib::kMulticastQpn || QpnLayout::slot(destination) == slot_.index();
  const bool is_own =
      destination > ipoib::wire::kGsiQpn && !lost_ && names_slot && node_ != kSubnetNode;
  if (is_own) return arrived(packets);
  for (const auto& packet : packets) router_.deliver_from_network(packet.bytes, destination);
}

void Endpoint::icrc_failed() { count(fabric::PortCounter::drop_icrc, 1); }

void Endpoint::set_waiter(std::size_t entry, std::uint32_t waiter) {
  if (!belongs_to_parent()) engine_.set_waiter(entry, waiter);
}

ipoib::Result<transport::WakeupSocket> Endpoint::make_wakeup_socket() {
  if (is_inactive()) return transport::WakeupSocket::make();
  const std::lock_guard lock(wakeup_name_mutex_);
  return transport::WakeupSocket::make_shared(folder_, node_, slot_.index());
}

std::uint32_t Endpoint::add_wakeup_fd(const transport::WakeupSocket& socket) {
  return belongs_to_parent() ? transport::Waiter::kEngine : engine_.add_wakeup_fd(socket);
}

void Endpoint::remove_wakeup_fd(std::uint32_t number) {
  if (!belongs_to_parent()) engine_.remove_wakeup_fd(number);
}

void Endpoint::malformed() { count(fabric::PortCounter::drop_malformed, 1); }

void Endpoint::accept_paused() { count(fabric::PortCounter::accept_paused, 1); }

/// Detects changes by comparing the record of each port with the last one that was read.
void Endpoint::turn_done() {
  const bool is_gone = !lost_ && fabric_.node_version(node_) == 0 && fabric_.is_lost();
  const auto has_changed = [&](const Port& port) {
    return is_gone || fabric_.node_version(port.node) != port.last_version;
  };
  // The process of the port changes its sockets itself.
  const Port& first = ports_.front();
  if (network_ && node_ != kSubnetNode && has_changed(first) &&
      read(first).gids != first.last.gids) {
    (void)borrow_sockets();
  }
  const std::lock_guard lock(delivery_mutex_);
  for (Port& port : ports_) {
    if (!has_changed(port)) continue;
    port.last_version = fabric_.node_version(port.node);
    const PortAttributes now = read(port);
    {
      const std::lock_guard port_lock(port_mutex_);
      if (std::exchange(port.last, now) != now) port.is_reported = false;
    }
    if (!now.serves(hca_generation_) || is_gone) set_lost();
    set_faults();
  }
  for (Port& port : ports_) {
    if (receiver_ != nullptr && !std::exchange(port.is_reported, true)) {
      receiver_->port_changed(port.last);
    }
  }
  if (lost_) mad_receivers_.report_loss();
  follow_captures();
}

/// Each deadline that has passed is over.
void Endpoint::deadline(ipoib::TimePoint now) {
  std::vector<MadReceiver*> due;
  bool is_due = false;
  {
    const std::lock_guard lock(deadline_mutex_);
    is_due = deadline_ <= now;
    if (is_due) deadline_ = ipoib::kNever;
    for (auto& [receiver, when] : mad_deadlines_) {
      if (when <= now) due.push_back(receiver);
    }
    for (auto* const receiver : due) mad_deadlines_.erase(receiver);
    update_deadline();
  }
  const std::lock_guard lock(delivery_mutex_);
  for (auto* const receiver : due) {
    if (mad_receivers_.has(*receiver)) receiver->mad_deadline(now);
  }
  if (is_due && receiver_ != nullptr) receiver_->deadline(now);
}

}  // namespace softib::endpoint
