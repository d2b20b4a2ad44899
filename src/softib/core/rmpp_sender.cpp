#include "softib/core/rmpp_sender.hpp"

#include <algorithm>
#include <cassert>

namespace softib {

namespace {

using ipoib::wire::RmppHeader;
using ipoib::wire::RmppType;
using ipoib::wire::SaHeader;

/// IBA table 13-13, RMPPStatus.
constexpr std::uint8_t kUnsupportedType = 121;  // BadT
constexpr std::uint8_t kWindowTooSmall = 122;   // W2S: NewWindowLast before the window
constexpr std::uint8_t kSegmentTooBig = 123;    // S2B: acknowledges what was not sent
constexpr std::uint8_t kUnsupportedVersion = 125;
constexpr std::uint8_t kTooManyRetries = 126;
constexpr std::uint8_t kUnspecified = 127;

/// What of the SA header each segment repeats, and PayloadLength counts.
constexpr std::size_t kClassHeader =
    ipoib::wire::kSaHeaderSize - ipoib::wire::kMadHeaderSize - ipoib::wire::kRmppHeaderSize;

std::uint32_t segment_count(std::size_t octets) {
  const std::size_t full = (octets + ipoib::wire::kSaDataSize - 1) / ipoib::wire::kSaDataSize;
  return static_cast<std::uint32_t>(std::max<std::size_t>(full, 1));
}

}  // namespace

bool RmppSender::start(const MadPacket& address, const SaHeader& header,
                       std::vector<std::uint8_t> data, ipoib::TimePoint now,
                       std::vector<MadPacket>& out) {
  if (find(address, header.mad.transaction_id) != transfers_.end()) return true;
  std::size_t octets = data.size();
  for (const auto& transfer : transfers_) octets += transfer.data.size();
  if (transfers_.size() == kMaxTransfers || octets > kMaxOctets) return false;

  Transfer transfer;
  transfer.address = address;
  transfer.header = header;
  transfer.segments = segment_count(data.size());
  transfer.data = std::move(data);
  send_window(transfer, now, out);
  transfers_.push_back(std::move(transfer));
  return true;
}

bool RmppSender::receive(const MadPacket& packet, const SaHeader& header, ipoib::TimePoint now,
                         std::vector<MadPacket>& out) {
  MadPacket peer = packet;
  std::swap(peer.slid, peer.dlid);
  std::swap(peer.source, peer.destination);
  const auto transfer = find(peer, header.mad.transaction_id);
  if (transfer == transfers_.end()) return false;

  const RmppHeader& rmpp = header.rmpp;
  const auto give_up = [&](std::uint8_t status) {
    out.push_back(abort(*transfer, status));
    transfers_.erase(transfer);
    ++given_up_;
  };
  if (rmpp.type == RmppType::stop || rmpp.type == RmppType::abort) {
    transfers_.erase(transfer);
    ++given_up_;
  } else if (rmpp.version != 1) {
    give_up(kUnsupportedVersion);
  } else if (rmpp.type != RmppType::ack) {
    give_up(kUnsupportedType);
  } else if (rmpp.data1 > transfer->sent) {
    give_up(kSegmentTooBig);
  } else if (rmpp.data2 < rmpp.data1) {
    give_up(kWindowTooSmall);
  } else if (rmpp.data2 > rmpp.data1 + kMaxWindow) {
    give_up(kUnspecified);
  } else if (rmpp.data1 >= transfer->segments) {
    transfers_.erase(transfer);
  } else {
    // Acknowledgements may overtake each other: one that brings nothing new changes nothing, and
    // so cannot keep a transfer alive.
    const bool advances = rmpp.data1 > transfer->acknowledged;
    const bool opens = rmpp.data2 > transfer->window_last;
    if (advances) transfer->retries = 0;
    if (advances) transfer->acknowledged = rmpp.data1;
    if (opens) transfer->window_last = rmpp.data2;
    if (advances || opens) send_window(*transfer, now, out);
  }
  return true;
}

ipoib::TimePoint RmppSender::next_deadline() const {
  ipoib::TimePoint first = ipoib::kNever;
  for (const auto& transfer : transfers_) first = std::min(first, transfer.deadline);
  return first;
}

void RmppSender::on_time(ipoib::TimePoint now, std::vector<MadPacket>& out) {
  for (auto transfer = transfers_.begin(); transfer != transfers_.end();) {
    if (transfer->deadline > now) {
      ++transfer;
    } else if (transfer->retries == kMaxRetries) {
      out.push_back(abort(*transfer, kTooManyRetries));
      transfer = transfers_.erase(transfer);
      ++given_up_;
    } else {
      ++transfer->retries;
      resent_ += transfer->sent - transfer->acknowledged;
      transfer->sent = transfer->acknowledged;
      send_window(*transfer, now, out);
      ++transfer;
    }
  }
}

RmppSender::Transfers::iterator RmppSender::find(const MadPacket& peer,
                                                 std::uint64_t transaction_id) {
  return std::find_if(transfers_.begin(), transfers_.end(), [&](const Transfer& transfer) {
    return transfer.header.mad.transaction_id == transaction_id &&
           transfer.address.dlid == peer.dlid && transfer.address.destination == peer.destination;
  });
}

void RmppSender::send_window(Transfer& transfer, ipoib::TimePoint now,
                             std::vector<MadPacket>& out) {
  const std::uint32_t last = std::min(transfer.window_last, transfer.segments);
  while (transfer.sent < last) out.push_back(segment(transfer, ++transfer.sent));
  transfer.deadline = now + kTimeout;
}

MadPacket RmppSender::segment(const Transfer& transfer, std::uint32_t number) {
  assert(number >= 1 && number <= transfer.segments);
  const std::size_t begin = (number - 1) * ipoib::wire::kSaDataSize;
  const std::size_t size = std::min(transfer.data.size() - begin, ipoib::wire::kSaDataSize);

  SaHeader header = transfer.header;
  header.rmpp = RmppHeader{};
  header.rmpp.type = RmppType::data;
  header.rmpp.flags = RmppHeader::kActive;
  header.rmpp.data1 = number;
  if (number == transfer.segments) {
    header.rmpp.flags |= RmppHeader::kLast;
    header.rmpp.data2 = static_cast<std::uint32_t>(kClassHeader + size);
  }
  if (number == 1) {
    header.rmpp.flags |= RmppHeader::kFirst;
    header.rmpp.data2 =
        static_cast<std::uint32_t>(transfer.segments * kClassHeader + transfer.data.size());
  }
  MadPacket packet = transfer.address;
  packet.mad = {};
  header.emit(packet.mad);
  std::copy_n(transfer.data.begin() + static_cast<std::ptrdiff_t>(begin), size,
              packet.mad.begin() + ipoib::wire::kSaHeaderSize);
  return packet;
}

MadPacket RmppSender::abort(const Transfer& transfer, std::uint8_t status) {
  SaHeader header = transfer.header;
  header.rmpp = RmppHeader{};
  header.rmpp.type = RmppType::abort;
  header.rmpp.flags = RmppHeader::kActive;
  header.rmpp.status = status;
  MadPacket packet = transfer.address;
  packet.mad = {};
  header.emit(packet.mad);
  return packet;
}

}  // namespace softib
