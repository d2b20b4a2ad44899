#include "softib/umad/rmpp.hpp"

#include <algorithm>
#include <cassert>

namespace softib::umad {

using ipoib::wire::kMadHeaderSize;
using ipoib::wire::kMadSize;
using ipoib::wire::kRmppHeaderSize;
using ipoib::wire::RmppHeader;
using ipoib::wire::RmppType;

namespace {

/// PayloadLength counts the bytes after the RMPP header, including the header of the class
/// (IBA 13.6.2.2).
constexpr std::size_t kAfterRmpp = kMadSize - kMadHeaderSize - kRmppHeaderSize;

std::uint8_t class_of(ConstBytes mad) { return mad[1]; }

std::span<std::uint8_t> rmpp_part(Mad& mad) {
  return std::span(mad).subspan(kMadHeaderSize, kRmppHeaderSize);
}

/// A MAD with the headers of `segment`, the response bit toggled, and this RMPP header.
Mad reply(const Mad& segment, const RmppHeader& rmpp) {
  Mad mad{};
  constexpr std::size_t kMethodOffset = 3;
  std::copy_n(segment.begin(), header_size(class_of(segment)), mad.begin());
  mad[kMethodOffset] ^= ipoib::wire::method::kResponse;
  rmpp.emit(rmpp_part(mad));
  return mad;
}

}  // namespace

Mad rmpp_abort(const Mad& segment, RmppStatus status) {
  RmppHeader rmpp;
  rmpp.type = RmppType::abort;
  rmpp.flags = RmppHeader::kActive;
  rmpp.status = static_cast<std::uint8_t>(status);
  return reply(segment, rmpp);
}

RmppReceiver::Outcome RmppReceiver::accept(const Mad& segment) {
  const auto rmpp = RmppHeader::parse(ConstBytes(segment).subspan(kMadHeaderSize));
  if (!rmpp || rmpp->data1 == 0) return Outcome::abort;
  const bool is_first = (rmpp->flags & RmppHeader::kFirst) != 0;
  if (is_first != (rmpp->data1 == 1) || rmpp->data1 > max_segments_) return Outcome::abort;
  // A duplicate: the ACK was lost.
  if (rmpp->data1 <= received_) return Outcome::acknowledge;
  if (complete_ || rmpp->data1 != received_ + 1) return Outcome::nothing;
  append(segment, *rmpp);
  received_ = rmpp->data1;
  if ((rmpp->flags & RmppHeader::kLast) != 0) {
    complete_ = true;
    return Outcome::complete;
  }
  if (received_ < window_last_) return Outcome::nothing;
  window_last_ += kRmppWindow;
  return Outcome::acknowledge;
}

/// Uses the payload length of the last segment only; the others are full.
void RmppReceiver::append(const Mad& segment, const RmppHeader& rmpp) {
  const std::size_t header = header_size(class_of(segment));
  std::size_t size = kMadSize - header;
  if ((rmpp.flags & RmppHeader::kLast) != 0) {
    const std::size_t class_header = header - kMadHeaderSize - kRmppHeaderSize;
    // As in the Linux kernel, an invalid length means the whole segment.
    if (rmpp.data2 >= class_header && rmpp.data2 <= kAfterRmpp) size = rmpp.data2 - class_header;
  }
  if (rmpp.data1 == 1)
    message_.assign(segment.begin(), segment.begin() + static_cast<long>(header));
  const auto data = segment.begin() + static_cast<long>(header);
  message_.insert(message_.end(), data, data + static_cast<long>(size));
}

Mad RmppReceiver::acknowledgement(const Mad& segment) const {
  RmppHeader rmpp;
  rmpp.type = RmppType::ack;
  rmpp.flags = RmppHeader::kActive;
  rmpp.data1 = received_;
  rmpp.data2 = std::max(window_last_, received_);
  return reply(segment, rmpp);
}

}  // namespace softib::umad
