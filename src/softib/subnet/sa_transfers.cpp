#include "softib/subnet/sa_transfers.hpp"

#include <algorithm>

#include "ipoib/fair_share.hpp"

namespace softib::subnet {

namespace {

MadPacket with(const MadPacket& address, const MadPacket::Bytes& mad) {
  MadPacket packet = address;
  packet.mad = mad;
  return packet;
}

}  // namespace

bool SaTransfers::start(NodeIndex requester, const MadPacket& address,
                        const ipoib::wire::SaHeader& header, ConstBytes data, ipoib::TimePoint now,
                        std::vector<MadPacket>& out) {
  if (find(address, header.mad.transaction_id) != transfers_.end()) return true;
  std::size_t held = 0;
  std::size_t held_bytes = 0;
  std::size_t free_bytes = kMaxBytes;
  for (const auto& transfer : transfers_) {
    const std::size_t size = transfer.sender.size();
    free_bytes -= size;
    if (transfer.requester != requester) continue;
    ++held;
    held_bytes += size;
  }
  if (!ipoib::has_fair_share_left(held, kMaxTransfers - transfers_.size())) return false;
  // As many bytes have to stay free as the port then has.
  if (held_bytes + 2 * data.size() > free_bytes) return false;

  std::vector<std::uint8_t> message(ipoib::wire::kSaHeaderSize);
  header.emit(message);
  message.insert(message.end(), data.begin(), data.end());
  Transfer transfer{.requester = requester,
                    .address = address,
                    .transaction_id = header.mad.transaction_id,
                    .sender = RmppSender(std::move(message), ipoib::wire::kSaHeaderSize)};
  send(transfer, now, out);
  transfers_.push_back(std::move(transfer));
  return true;
}

bool SaTransfers::receive(const MadPacket& packet, const ipoib::wire::SaHeader& header,
                          ipoib::TimePoint now, std::vector<MadPacket>& out) {
  MadPacket peer = packet;
  peer.reverse();
  const auto transfer = find(peer, header.mad.transaction_id);
  if (transfer == transfers_.end()) return false;
  const auto result = transfer->sender.receive(header.rmpp);
  switch (result.outcome) {
    case RmppSender::Outcome::ignored:  // does not reset the retries
      break;
    case RmppSender::Outcome::progress:
      transfer->retries = 0;
      send(*transfer, now, out);
      if (transfer->sender.is_done()) transfers_.erase(transfer);
      break;
    case RmppSender::Outcome::invalid:
      out.push_back(with(transfer->address, transfer->sender.abort(result.status)));
      [[fallthrough]];
    case RmppSender::Outcome::ended:
      give_up(transfer);
      break;
  }
  return true;
}

ipoib::TimePoint SaTransfers::next_deadline() const {
  ipoib::TimePoint first = ipoib::kNever;
  for (const auto& transfer : transfers_) first = std::min(first, transfer.deadline);
  return first;
}

void SaTransfers::on_time(ipoib::TimePoint now, std::vector<MadPacket>& out) {
  for (auto transfer = transfers_.begin(); transfer != transfers_.end();) {
    if (transfer->deadline > now) {
      ++transfer;
    } else if (transfer->retries == kMaxRetries) {
      const auto abort = transfer->sender.abort(RmppStatus::too_many_retries);
      out.push_back(with(transfer->address, abort));
      transfer = give_up(transfer);
    } else {
      ++transfer->retries;
      resent_ += transfer->sender.rewind();
      send(*transfer, now, out);
      ++transfer;
    }
  }
}

SaTransfers::Transfers::iterator SaTransfers::find(const MadPacket& peer,
                                                   std::uint64_t transaction_id) {
  return std::find_if(transfers_.begin(), transfers_.end(), [&](const Transfer& transfer) {
    return transfer.transaction_id == transaction_id && transfer.address.dlid == peer.dlid &&
           transfer.address.destination == peer.destination;
  });
}

void SaTransfers::send(Transfer& transfer, ipoib::TimePoint now, std::vector<MadPacket>& out) {
  for (const auto& mad : transfer.sender.sendable()) out.push_back(with(transfer.address, mad));
  transfer.deadline = now + kTimeout;
}

SaTransfers::Transfers::iterator SaTransfers::give_up(Transfers::iterator transfer) {
  ++given_up_;
  return transfers_.erase(transfer);
}

}  // namespace softib::subnet
