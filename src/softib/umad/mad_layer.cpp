#include "softib/umad/mad_layer.hpp"

#include <algorithm>
#include <cerrno>

#include "softib/core/mad_route.hpp"
#include "softib/fabric/gsi_checks.hpp"

namespace softib::umad {

using ipoib::Error;
using ipoib::Result;
using ipoib::wire::kMadHeaderSize;
using ipoib::wire::kMadSize;
using ipoib::wire::kRmppHeaderSize;
using ipoib::wire::RmppHeader;
using ipoib::wire::RmppType;

namespace {

constexpr std::uint64_t kLowHalf = 0xffff'ffff;

/// The RMPP header of a MAD; nullopt if RMPP is not active in it.
std::optional<RmppHeader> active_rmpp(ConstBytes mad, const MadHeader& header) {
  if (!has_rmpp(header.management_class)) return std::nullopt;
  const auto rmpp = RmppHeader::parse(mad.subspan(kMadHeaderSize));
  return rmpp && rmpp->is_active() ? rmpp : std::nullopt;
}

std::size_t longest_message(std::uint8_t management_class) {
  const std::size_t header = header_size(management_class);
  return header + kMaxRmppSegments * (kMadSize - header);
}

MadPacket make_packet(const Registration& registration, const MadAddress& to,
                      const PortAttributes& port) {
  MadPacket packet;
  packet.port = port.number;
  packet.slid = port.source_lid(to.path_bits);
  packet.dlid = to.lid;
  packet.sl = to.sl;
  packet.pkey = port.pkeys[to.pkey_index];
  packet.source = registration.qpn();
  packet.destination = to.qpn;
  // Ignores the Q_Key of the caller: GSIs use a well-known one (IBA 3.5.3).
  const bool is_gsi = registration.qpn() == ipoib::wire::kGsiQpn;
  packet.qkey = is_gsi ? ipoib::wire::kGsiQKey : QKey();
  if (is_gsi && to.global) {
    packet.grh.emplace();
    packet.grh->traffic_class = to.global->traffic_class;
    packet.grh->flow_label = to.global->flow_label;
    packet.grh->hop_limit = to.global->hop_limit;
    packet.grh->sgid = port.gid();
    packet.grh->dgid = to.global->dgid;
  }
  return packet;
}

/// The route back to the sender of a GRH. The only entry of the GID table is that of the port.
ipoib::GlobalRoute route_back(const ipoib::wire::Grh& grh) {
  return {.dgid = grh.sgid,
          .sgid_index = 0,
          .flow_label = grh.flow_label,
          .hop_limit = grh.hop_limit,
          .traffic_class = grh.traffic_class};
}

}  // namespace

Result<std::uint32_t> MadLayer::add_agent(const Registration& registration, const AgentPort& port) {
  if (const auto checked = registration.check(); !checked) return checked.error();
  if (agents_.size() >= kMaxAgents) {
    return Error{ENOMEM,
                 "a process can have " + std::to_string(kMaxAgents) + " agents: unregister some"};
  }
  while (agents_.contains(next_agent_)) next_agent_ = (next_agent_ + 1) % kMaxAgents;
  agents_.emplace(next_agent_, Agent{registration, port});
  return std::exchange(next_agent_, (next_agent_ + 1) % kMaxAgents);
}

void MadLayer::remove_agent(std::uint32_t agent) {
  agents_.erase(agent);
  std::erase_if(transactions_, [&](const auto& one) { return one.agent == agent; });
  reassemblies_.erase_agent(agent);
}

Result<void> MadLayer::send(std::uint32_t agent, const MadAddress& to, ConstBytes mad,
                            const RetryPolicy& retry, const PortAttributes& port,
                            ipoib::TimePoint now) {
  const auto found = agents_.find(agent);
  const auto header = MadHeader::parse(mad);
  if (found == agents_.end() || !header || mad.size() < kMadHeaderSize + kRmppHeaderSize) {
    return Error{EINVAL,
                 "no agent has this number, or the MAD is shorter than its headers of 36 bytes"};
  }
  const Registration& registration = found->second.registration;
  const bool with_rmpp = registration.does_rmpp() && active_rmpp(mad, *header) &&
                         mad.size() >= header_size(header->management_class);
  if (mad.size() > (with_rmpp ? longest_message(header->management_class) : kMadSize)) {
    return Error{EINVAL, "the MAD is longer than 256 bytes, and does not use RMPP"};
  }
  if (to.pkey_index >= port.pkeys.size() || !port.pkeys[to.pkey_index].is_valid()) {
    return Error{EINVAL,
                 "the P_Key table has no valid key at this index: smpquery pkeys prints it"};
  }
  const bool needs_grh = port.grh_required && registration.qpn() == ipoib::wire::kGsiQpn;
  if (to.global ? to.global->sgid_index != 0 : needs_grh) {
    return Error{EINVAL, "no GID at this index, or the port requires a GRH"};
  }

  Transaction transaction;
  transaction.agent = agent;
  transaction.header = *header;
  if (!is_response(*header)) {
    transaction.header.transaction_id =
        std::uint64_t{route_of(agent).high_half()} << 32 | (header->transaction_id & kLowHalf);
  }
  if (is_duplicate(agent, transaction.header, to.lid)) {
    return Error{EINVAL,
                 "a request with this transaction ID waits for its response: use another ID"};
  }
  if (transactions_.size() >= kMaxTransactions) {
    return Error{ENOMEM, "the process has " + std::to_string(kMaxTransactions) +
                             " requests without response, the maximum: wait for some"};
  }
  transaction.to = to;
  transaction.packet = make_packet(registration, to, port);
  transaction.retry = retry;
  transaction.retries_left = with_rmpp ? kRmppRetries : retry.retries;
  std::vector<std::uint8_t> message(mad.begin(), mad.end());
  transaction.header.emit(message);
  if (with_rmpp) {
    transaction.sender.emplace(std::move(message), header_size(header->management_class));
  } else {
    std::copy(message.begin(), message.end(), transaction.packet.mad.begin());
  }
  transmit(transaction, now);
  if (transaction.deadline != ipoib::TimePoint()) transactions_.push_back(std::move(transaction));
  return {};
}

MadRoute MadLayer::route_of(std::uint32_t agent) const {
  MadRoute route = self_;
  route.agent = agent;
  if (const auto found = agents_.find(agent); found != agents_.end()) {
    route.node = found->second.port.node;
  }
  return route;
}

/// Whether a request, or a response to the same LID, of this class and transaction id is pending. A
/// reply could not be attributed to one of the two.
bool MadLayer::is_duplicate(std::uint32_t agent, const MadHeader& header, Lid to) const {
  return std::any_of(transactions_.begin(), transactions_.end(), [&](const Transaction& other) {
    if (other.agent != agent || other.header.transaction_id != header.transaction_id ||
        other.header.management_class != header.management_class ||
        is_response(other.header) != is_response(header)) {
      return false;
    }
    return !is_response(header) || other.to.lid == to;
  });
}

/// Sends what may be sent now and sets the deadline: TimePoint() if no reply is expected.
void MadLayer::transmit(Transaction& transaction, ipoib::TimePoint now) {
  const auto timeout = transaction.retry.timeout;
  if (transaction.sender && !transaction.sender->is_done()) {
    MadPacket packet = transaction.packet;
    for (const auto& segment : transaction.sender->sendable()) {
      packet.mad = segment;
      outgoing_.push_back(packet);
    }
    transaction.deadline = now + kRmppAckTimeout;
    return;
  }
  if (!transaction.sender) outgoing_.push_back(transaction.packet);
  if (timeout == ipoib::Duration::zero() || is_response(transaction.header)) {
    transaction.deadline = ipoib::TimePoint();
  } else {
    transaction.deadline = timeout < ipoib::Duration::zero() ? ipoib::kNever : now + timeout;
  }
}

void MadLayer::receive(const MadPacket& packet, const PortAttributes& port, ipoib::TimePoint now) {
  const auto header = MadHeader::parse(packet.mad);
  if (!header) return drop(fabric::PortCounter::drop_malformed);
  const bool is_gsi = packet.destination == ipoib::wire::kGsiQpn;
  const auto pkey_index = is_gsi ? fabric::pkey_index_for(packet, port) : std::uint16_t{0};
  // The table has changed since the packet was admitted.
  if (!pkey_index) return drop(fabric::PortCounter::drop_pkey);
  const auto agent = agent_for(packet, *header);
  if (!agent) {
    return drop(is_response(*header) ? fabric::PortCounter::drop_mad_no_request
                                     : fabric::PortCounter::drop_mad_no_agent);
  }
  const Incoming in{packet, *header, *pkey_index, port.path_bits_of(packet.dlid), port.lmc, *agent};
  const auto rmpp = active_rmpp(packet.mad, *header);
  if (rmpp && agents_.at(*agent).registration.does_rmpp()) {
    receive_rmpp(in, *rmpp, now);
  } else {
    deliver(in, {packet.mad.begin(), packet.mad.end()});
  }
}

/// Whether a packet has arrived at the port and the QP of an agent.
bool MadLayer::is_at(const Agent& agent, const MadPacket& packet) {
  return agent.port.number == packet.port && agent.registration.qpn() == packet.destination;
}

/// The agent of a MAD: of a response the one named in its transaction id, of a request the one that
/// registered for it.
std::optional<std::uint32_t> MadLayer::agent_for(const MadPacket& packet,
                                                 const MadHeader& header) const {
  if (is_response(header)) {
    const auto route = MadRoute::of(header.transaction_id);
    const auto agent = agents_.find(route.agent);
    const bool is_ours =
        route == route_of(route.agent) && agent != agents_.end() && is_at(agent->second, packet);
    return is_ours ? std::optional(route.agent) : std::nullopt;
  }
  const auto agent = std::find_if(agents_.begin(), agents_.end(), [&](const auto& one) {
    return is_at(one.second, packet) && one.second.registration.takes(header, packet.mad);
  });
  return agent == agents_.end() ? std::nullopt : std::optional(agent->first);
}

/// The request or message that a MAD replies to. It must have gone to the sender of the MAD, since
/// others may know the transaction id, too. (Subnet management packets may have no LIDs.)
MadLayer::Transactions::iterator MadLayer::find(const Incoming& in) {
  const auto& header = in.header;
  return std::find_if(transactions_.begin(), transactions_.end(), [&](const Transaction& one) {
    return one.agent == in.agent && one.header.transaction_id == header.transaction_id &&
           one.header.management_class == header.management_class &&
           is_response(one.header) != is_response(header) &&
           (is_smp(header.management_class) || is_same_port(one.to.lid, in.packet.slid, in.lmc));
  });
}

/// Delivers a MAD or a reassembled RMPP message. A response ends its transaction.
void MadLayer::deliver(const Incoming& in, std::vector<std::uint8_t> mad) {
  bool solicited = false;
  if (is_response(in.header)) {
    const auto transaction = find(in);
    solicited = transaction != transactions_.end();
    if (solicited) {
      transactions_.erase(transaction);
    } else if (agents_.at(in.agent).registration.does_rmpp() ||
               !active_rmpp(in.packet.mad, in.header)) {
      // An agent that does RMPP itself also gets the segments after the first one, which has ended
      // the transaction.
      return drop(fabric::PortCounter::drop_mad_no_request);
    }
  }
  MadAddress peer{in.packet.slid, in.packet.sl, in.packet.source, in.pkey_index, in.path_bits};
  if (in.packet.grh) peer.global = route_back(*in.packet.grh);
  received_.push_back({in.agent, 0, solicited, peer, std::move(mad)});
}

void MadLayer::receive_rmpp(const Incoming& in, const RmppHeader& rmpp, ipoib::TimePoint now) {
  switch (rmpp.type) {
    case RmppType::data:
      if (rmpp.version == 1) return reassemble(in, rmpp.data1 == 1, now);
      reply(in.packet, rmpp_abort(in.packet.mad, RmppStatus::unsupported_version));
      return drop(fabric::PortCounter::drop_malformed);
    case RmppType::ack:
      return receive_rmpp_control(in, rmpp, now);
    case RmppType::stop:
    case RmppType::abort:
      // The packet is from the sender or from the receiver of a transfer.
      if (const auto* const transfer = reassembly(in)) {
        reassemblies_.erase(*transfer);
      } else {
        receive_rmpp_control(in, rmpp, now);
      }
      return;
    case RmppType::none:
      return drop(fabric::PortCounter::drop_malformed);
  }
}

Reassembly* MadLayer::reassembly(const Incoming& in) {
  return reassemblies_.find(in.agent, in.header, in.packet.slid);
}

/// Handles a segment. Only the first one begins a transfer.
void MadLayer::reassemble(const Incoming& in, bool is_first, ipoib::TimePoint now) {
  auto* transfer = reassembly(in);
  if (transfer == nullptr) {
    const bool requested = is_response(in.header);
    if (!is_first || (requested && find(in) == transactions_.end())) {
      return drop(fabric::PortCounter::drop_mad_no_request);
    }
    transfer = reassemblies_.begin(in.agent, in.header, in.packet, requested, in.lmc, now);
    if (transfer == nullptr) return drop(fabric::PortCounter::drop_mad_full);
  }
  transfer->last = in.packet;
  const auto before = transfer->receiver.received();
  const auto outcome = transfer->receiver.accept(in.packet.mad);
  if (transfer->receiver.received() != before) on_progress(*transfer, in, now);
  switch (outcome) {
    case RmppReceiver::Outcome::nothing:
      return;
    case RmppReceiver::Outcome::acknowledge:
      return reply(in.packet, transfer->receiver.acknowledgement(in.packet.mad));
    case RmppReceiver::Outcome::abort:
      reply(in.packet, rmpp_abort(in.packet.mad, RmppStatus::bad_segment));
      reassemblies_.erase(*transfer);
      return drop(fabric::PortCounter::drop_malformed);
    case RmppReceiver::Outcome::complete:
      reply(in.packet, transfer->receiver.acknowledgement(in.packet.mad));
      transfer->deadline = now + kReassemblyRetention;
      return deliver(in, transfer->receiver.take_message());
  }
}

/// To call when a segment was accepted that is no duplicate, which anybody can repeat for ever.
void MadLayer::on_progress(Reassembly& transfer, const Incoming& in, ipoib::TimePoint now) {
  if (!transfer.requested) return;  // its sender could keep it for ever
  transfer.deadline = now + kReassemblyTimeout;
  const auto request = find(in);
  if (request != transactions_.end() && request->deadline != ipoib::kNever) {
    request->deadline = now + request->retry.timeout;
  }
}

/// Processes an ACK, STOP or ABORT for a message that is being sent.
void MadLayer::receive_rmpp_control(const Incoming& in, const RmppHeader& rmpp,
                                    ipoib::TimePoint now) {
  const auto transaction = find(in);
  if (transaction == transactions_.end()) return drop(fabric::PortCounter::drop_mad_no_request);
  auto& sender = transaction->sender;
  if (!sender || sender->is_done()) return drop(fabric::PortCounter::drop_mad_no_request);
  const auto result = sender->receive(rmpp);
  if (result.outcome == RmppSender::Outcome::ignored) return;
  if (result.outcome != RmppSender::Outcome::progress) {
    if (result.outcome == RmppSender::Outcome::invalid) {
      reply(in.packet, rmpp_abort(in.packet.mad, result.status));
    }
    // The peer has aborted, or its packet is invalid: report a timeout to the agent.
    transaction->retries_left = 0;
    (void)retry_or_fail(*transaction, now);
    transactions_.erase(transaction);
    return;
  }
  if (sender->is_done()) transaction->retries_left = transaction->retry.retries;
  transmit(*transaction, now);
  if (transaction->deadline == ipoib::TimePoint()) transactions_.erase(transaction);
}

void MadLayer::reply(const MadPacket& packet, const Mad& mad) {
  MadPacket out = packet;
  out.reverse();
  out.mad = mad;
  outgoing_.push_back(out);
}

void MadLayer::on_time(ipoib::TimePoint now) {
  for (std::size_t i = 0; i < transactions_.size();) {
    if (transactions_[i].deadline <= now && retry_or_fail(transactions_[i], now)) {
      transactions_.erase(transactions_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  for (const auto& transfer : reassemblies_.take_expired(now)) {
    if (transfer.receiver.is_complete()) continue;
    reply(transfer.last, rmpp_abort(transfer.last.mad, RmppStatus::total_time_too_long));
  }
}

/// Retries a transaction; without retries left, reports ETIMEDOUT to the agent and returns true.
bool MadLayer::retry_or_fail(Transaction& transaction, ipoib::TimePoint now) {
  if (transaction.retries_left > 0) {
    --transaction.retries_left;
    if (transaction.sender && transaction.sender->is_done()) {
      transaction.sender->restart();
    } else if (transaction.sender) {
      (void)transaction.sender->rewind();
    }
    transmit(transaction, now);
    return false;
  }
  std::vector<std::uint8_t> header(kMadHeaderSize);
  transaction.header.emit(header);
  received_.push_back({transaction.agent, ETIMEDOUT, true, transaction.to, std::move(header)});
  return true;
}

ipoib::TimePoint MadLayer::next_deadline() const {
  ipoib::TimePoint first = reassemblies_.next_deadline();
  for (const auto& transaction : transactions_) first = std::min(first, transaction.deadline);
  return first;
}

}  // namespace softib::umad
