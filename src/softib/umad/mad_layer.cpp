// Agents, sending, and time.
#include "softib/umad/mad_layer.hpp"

#include <algorithm>
#include <cerrno>

#include "softib/core/mad_route.hpp"

namespace softib::umad {

using ipoib::Error;
using ipoib::Result;
using ipoib::wire::kMadHeaderSize;
using ipoib::wire::kMadSize;
using ipoib::wire::kRmppHeaderSize;
using ipoib::wire::RmppHeader;

namespace {

constexpr std::uint64_t kLowHalf = 0xffff'ffff;

bool is_rmpp_active(std::uint8_t management_class, ConstBytes mad) {
  if (!has_rmpp(management_class)) return false;
  const auto rmpp = RmppHeader::parse(mad.subspan(kMadHeaderSize));
  return rmpp && rmpp->is_active();
}

std::size_t longest_message(std::uint8_t management_class) {
  const std::size_t header = header_size(management_class);
  return header + kMaxRmppSegments * (kMadSize - header);
}

MadPacket make_packet(const Registration& registration, const MadAddress& to,
                      const PortAttributes& port) {
  MadPacket packet;
  packet.slid = port.source_lid(to.path_bits);
  packet.dlid = to.lid;
  packet.sl = to.sl;
  packet.pkey = port.pkeys[to.pkey_index];
  packet.source = registration.qpn();
  packet.destination = to.qpn;
  // The caller's Q_Key is not asked: between GSIs there is only one (IBA 3.5.3).
  packet.qkey = registration.qpn() == ipoib::wire::kGsiQpn ? ipoib::wire::kGsiQKey : QKey();
  return packet;
}

}  // namespace

Result<std::uint32_t> MadLayer::add_agent(const Registration& registration) {
  if (const auto checked = registration.check(); !checked) return checked.error();
  if (agents_.size() >= kMaxAgents) return Error{ENOMEM, "too many agents in this process"};
  while (agents_.contains(next_agent_)) next_agent_ = (next_agent_ + 1) % kMaxAgents;
  agents_.emplace(next_agent_, registration);
  return std::exchange(next_agent_, (next_agent_ + 1) % kMaxAgents);
}

void MadLayer::remove_agent(std::uint32_t agent) {
  agents_.erase(agent);
  std::erase_if(transactions_, [&](const auto& one) { return one.agent == agent; });
  std::erase_if(reassemblies_, [&](const auto& one) { return one.agent == agent; });
}

Result<void> MadLayer::send(std::uint32_t agent, const MadAddress& to, ConstBytes mad,
                            const Persistence& persistence, const PortAttributes& port,
                            ipoib::TimePoint now) {
  const auto registration = agents_.find(agent);
  const auto header = MadHeader::parse(mad);
  if (registration == agents_.end() || !header || mad.size() < kMadHeaderSize + kRmppHeaderSize) {
    return Error{EINVAL, "no such agent, or no MAD"};
  }
  const bool with_rmpp = registration->second.does_rmpp() &&
                         is_rmpp_active(header->management_class, mad) &&
                         mad.size() >= header_size(header->management_class);
  if (mad.size() > (with_rmpp ? longest_message(header->management_class) : kMadSize)) {
    return Error{EINVAL, "too long for a MAD"};
  }
  if (to.pkey_index >= port.pkeys.size() || !port.pkeys[to.pkey_index].is_valid()) {
    return Error{EINVAL, "no P_Key at this index"};
  }

  Transaction transaction;
  transaction.agent = agent;
  transaction.header = *header;
  if (!is_response(*header)) {
    transaction.header.transaction_id =
        std::uint64_t{route_of(agent).high_half()} << 32 | (header->transaction_id & kLowHalf);
  }
  if (is_duplicate(agent, transaction.header, to.lid)) {
    return Error{EINVAL, "a request with this transaction id is waiting already"};
  }
  if (transactions_.size() >= kMaxTransactions) return Error{ENOMEM, "too many requests wait"};
  transaction.to = to;
  transaction.packet = make_packet(registration->second, to, port);
  transaction.persistence = persistence;
  transaction.retries_left = with_rmpp ? kRmppRetries : persistence.retries;
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
  return route;
}

/// Two requests, or two responses to one place, of the same class and transaction id: whoever
/// answers could not be told which one is meant.
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

/// Sends what may be sent now, and sets the deadline: none for what nothing is awaited for.
void MadLayer::transmit(Transaction& transaction, ipoib::TimePoint now) {
  const auto timeout = transaction.persistence.timeout;
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

void MadLayer::on_time(ipoib::TimePoint now) {
  // Those that end leave the list before the agents hear of it.
  for (std::size_t i = 0; i < transactions_.size();) {
    if (transactions_[i].deadline <= now && time_out(transactions_[i], now)) {
      transactions_.erase(transactions_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  std::erase_if(reassemblies_, [&](const Reassembly& transfer) {
    if (transfer.deadline > now) return false;
    if (!transfer.receiver.is_complete()) {
      answer(transfer.last, rmpp_abort(transfer.last.mad, RmppStatus::total_time_too_long));
    }
    return true;
  });
}

/// Repeats a transaction, or gives it up: true.
bool MadLayer::time_out(Transaction& transaction, ipoib::TimePoint now) {
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
  arrived_.push_back({transaction.agent, ETIMEDOUT, transaction.to, std::move(header)});
  return true;
}

ipoib::TimePoint MadLayer::next_deadline() const {
  ipoib::TimePoint first = ipoib::kNever;
  for (const auto& transaction : transactions_) first = std::min(first, transaction.deadline);
  for (const auto& transfer : reassemblies_) first = std::min(first, transfer.deadline);
  return first;
}

}  // namespace softib::umad
