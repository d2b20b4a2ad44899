// Receiving: the checks of the port, the agent, and RMPP on the way up.
#include <algorithm>

#include "softib/core/mad_route.hpp"
#include "softib/umad/mad_layer.hpp"

namespace softib::umad {

using ipoib::wire::kMadHeaderSize;
using ipoib::wire::RmppHeader;
using ipoib::wire::RmppType;

namespace {

std::optional<RmppHeader> active_rmpp(const MadPacket& packet, const MadHeader& header) {
  if (!has_rmpp(header.management_class)) return std::nullopt;
  const auto rmpp = RmppHeader::parse(ConstBytes(packet.mad).subspan(kMadHeaderSize));
  return rmpp && rmpp->is_active() ? rmpp : std::nullopt;
}

std::optional<std::uint16_t> index_of(PKey pkey, const PortAttributes& port) {
  const auto entry = std::find_if(port.pkeys.begin(), port.pkeys.end(),
                                  [&](PKey ours) { return ours.admits(pkey); });
  if (entry == port.pkeys.end()) return std::nullopt;
  return static_cast<std::uint16_t>(entry - port.pkeys.begin());
}

}  // namespace

/// IBA 10.2.4, 10.9: QP1 has a Q_Key, and the P_Keys of its port; QP0 has neither.
void MadLayer::receive(const MadPacket& packet, const PortAttributes& port, ipoib::TimePoint now) {
  const auto header = MadHeader::parse(packet.mad);
  if (!header) return drop(fabric::PortCounter::drop_malformed);
  const bool is_gsi = packet.destination == ipoib::wire::kGsiQpn;
  if (is_gsi && packet.qkey != ipoib::wire::kGsiQKey) return drop(fabric::PortCounter::drop_qkey);
  const auto pkey_index = is_gsi ? index_of(packet.pkey, port) : std::uint16_t{0};
  if (!pkey_index) return drop(fabric::PortCounter::drop_pkey);
  const auto agent = agent_for(packet, *header);
  if (!agent) {
    return drop(is_response(*header) ? fabric::PortCounter::drop_mad_no_request
                                     : fabric::PortCounter::drop_mad_no_agent);
  }
  const Incoming in{packet, *header, *pkey_index, port.path_bits_of(packet.dlid), *agent};
  const auto rmpp = active_rmpp(packet, *header);
  if (rmpp && agents_.at(*agent).does_rmpp()) {
    receive_rmpp(in, *rmpp, now);
  } else {
    receive_whole(in, {packet.mad.begin(), packet.mad.end()});
  }
}

/// A response belongs to the agent that its transaction id names, a request to the one that has
/// registered for it.
std::optional<std::uint32_t> MadLayer::agent_for(const MadPacket& packet,
                                                 const MadHeader& header) const {
  if (is_response(header)) {
    const auto route = MadRoute::of(header.transaction_id);
    const auto agent = agents_.find(route.agent);
    const bool is_ours = route == route_of(route.agent) && agent != agents_.end() &&
                         agent->second.qpn() == packet.destination;
    return is_ours ? std::optional(route.agent) : std::nullopt;
  }
  const auto agent = std::find_if(agents_.begin(), agents_.end(), [&](const auto& one) {
    return one.second.qpn() == packet.destination && one.second.takes(header, packet.mad);
  });
  return agent == agents_.end() ? std::nullopt : std::optional(agent->first);
}

MadLayer::Transactions::iterator MadLayer::find(std::uint32_t agent, const MadHeader& header) {
  return std::find_if(transactions_.begin(), transactions_.end(), [&](const Transaction& one) {
    return one.agent == agent && one.header.transaction_id == header.transaction_id &&
           one.header.management_class == header.management_class &&
           is_response(one.header) != is_response(header);
  });
}

/// A MAD, or a message that RMPP has put together. A response ends its transaction.
void MadLayer::receive_whole(const Incoming& in, std::vector<std::uint8_t> mad) {
  if (is_response(in.header)) {
    const auto transaction = find(in.agent, in.header);
    if (transaction != transactions_.end()) {
      transactions_.erase(transaction);
    } else if (agents_.at(in.agent).does_rmpp() || !active_rmpp(in.packet, in.header)) {
      // An agent that does RMPP itself gets the later segments too; their transaction is over.
      return drop(fabric::PortCounter::drop_mad_no_request);
    }
  }
  const MadAddress peer{in.packet.slid, in.packet.sl, in.packet.source, in.pkey_index,
                        in.path_bits};
  arrived_.push_back({in.agent, 0, peer, std::move(mad)});
}

void MadLayer::receive_rmpp(const Incoming& in, const RmppHeader& rmpp, ipoib::TimePoint now) {
  switch (rmpp.type) {
    case RmppType::data:
      if (rmpp.version == 1) return reassemble(in, now);
      answer(in.packet, rmpp_abort(in.packet.mad, RmppStatus::unsupported_version));
      return drop(fabric::PortCounter::drop_malformed);
    case RmppType::ack:
      return control_sender(in, rmpp, now);
    case RmppType::stop:
    case RmppType::abort:
      // Either end may give up.
      if (const auto transfer = reassembly(in); transfer != reassemblies_.end()) {
        reassemblies_.erase(transfer);
      } else {
        control_sender(in, rmpp, now);
      }
      return;
    case RmppType::none:
      return drop(fabric::PortCounter::drop_malformed);
  }
}

MadLayer::Reassemblies::iterator MadLayer::reassembly(const Incoming& in) {
  return std::find_if(reassemblies_.begin(), reassemblies_.end(), [&](const Reassembly& one) {
    return one.agent == in.agent && one.from == in.packet.slid &&
           one.header.transaction_id == in.header.transaction_id &&
           one.header.management_class == in.header.management_class &&
           one.header.method == in.header.method;
  });
}

void MadLayer::reassemble(const Incoming& in, ipoib::TimePoint now) {
  auto transfer = reassembly(in);
  if (transfer == reassemblies_.end()) {
    if (is_response(in.header) && find(in.agent, in.header) == transactions_.end()) {
      return drop(fabric::PortCounter::drop_mad_no_request);
    }
    if (!make_room()) return drop(fabric::PortCounter::drop_mad_full);
    reassemblies_.push_back({in.agent, in.header, in.packet.slid, in.packet, {}, {}});
    transfer = std::prev(reassemblies_.end());
  }
  transfer->last = in.packet;
  if (!transfer->receiver.is_complete()) transfer->deadline = now + kReassemblyTimeout;
  // While segments come, the request is being answered.
  const auto request = find(in.agent, in.header);
  if (request != transactions_.end() && request->deadline != ipoib::kNever) {
    request->deadline = now + request->persistence.timeout;
  }
  switch (transfer->receiver.accept(in.packet.mad)) {
    case RmppReceiver::Outcome::nothing:
      return;
    case RmppReceiver::Outcome::acknowledge:
      return answer(in.packet, transfer->receiver.acknowledgement(in.packet.mad));
    case RmppReceiver::Outcome::abort:
      answer(in.packet, rmpp_abort(in.packet.mad, RmppStatus::bad_segment));
      reassemblies_.erase(transfer);
      return drop(fabric::PortCounter::drop_malformed);
    case RmppReceiver::Outcome::complete:
      answer(in.packet, transfer->receiver.acknowledgement(in.packet.mad));
      transfer->deadline = now + kReassemblyMemory;
      return receive_whole(in, transfer->receiver.take_message());
  }
}

/// At the bound, a transfer that is complete and only remembered makes room.
bool MadLayer::make_room() {
  if (reassemblies_.size() < kMaxReassemblies) return true;
  const auto complete = std::find_if(reassemblies_.begin(), reassemblies_.end(),
                                     [](const auto& one) { return one.receiver.is_complete(); });
  if (complete == reassemblies_.end()) return false;
  reassemblies_.erase(complete);
  return true;
}

/// ACK, STOP or ABORT for a message that we send.
void MadLayer::control_sender(const Incoming& in, const RmppHeader& rmpp, ipoib::TimePoint now) {
  const auto transaction = find(in.agent, in.header);
  if (transaction == transactions_.end()) return drop(fabric::PortCounter::drop_mad_no_request);
  auto& sender = transaction->sender;
  if (!sender || sender->is_done()) return drop(fabric::PortCounter::drop_mad_no_request);
  const auto verdict = sender->receive(rmpp);
  if (verdict.outcome == RmppSender::Outcome::nothing) return;
  if (verdict.outcome != RmppSender::Outcome::advances) {
    if (verdict.outcome == RmppSender::Outcome::nonsense) {
      answer(in.packet, rmpp_abort(in.packet.mad, verdict.status));
    }
    // The peer has given up, or talks nonsense: to the agent it is as if nobody had answered.
    transaction->retries_left = 0;
    (void)time_out(*transaction, now);
    transactions_.erase(transaction);
    return;
  }
  if (sender->is_done()) transaction->retries_left = transaction->persistence.retries;
  transmit(*transaction, now);
  if (transaction->deadline == ipoib::TimePoint()) transactions_.erase(transaction);
}

void MadLayer::answer(const MadPacket& packet, const Mad& mad) {
  MadPacket out = packet;
  std::swap(out.slid, out.dlid);
  std::swap(out.source, out.destination);
  out.mad = mad;
  outgoing_.push_back(out);
}

}  // namespace softib::umad
