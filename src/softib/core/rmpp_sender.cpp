#include "softib/core/rmpp_sender.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace softib {

using ipoib::wire::kMadHeaderSize;
using ipoib::wire::kMadSize;
using ipoib::wire::kRmppHeaderSize;
using ipoib::wire::RmppHeader;
using ipoib::wire::RmppType;

RmppSender::RmppSender(std::vector<std::uint8_t> message, std::size_t header_size)
    : message_(std::move(message)), header_size_(header_size) {
  assert(header_size_ >= kMadHeaderSize + kRmppHeaderSize && message_.size() >= header_size_);
  const std::size_t data = message_.size() - header_size_;
  const std::size_t each = kMadSize - header_size_;
  segments_ = static_cast<std::uint32_t>(std::max<std::size_t>((data + each - 1) / each, 1));
}

std::vector<RmppSender::Mad> RmppSender::sendable() {
  std::vector<Mad> out;
  const std::uint32_t last = std::min(window_last_, segments_);
  while (sent_ < last) out.push_back(segment(++sent_));
  furthest_ = std::max(furthest_, sent_);
  return out;
}

RmppSender::ReceiveResult RmppSender::receive(const RmppHeader& rmpp) {
  if (rmpp.type == RmppType::stop || rmpp.type == RmppType::abort) return {Outcome::ended};
  if (rmpp.version != 1) return {Outcome::invalid, RmppStatus::unsupported_version};
  if (rmpp.type != RmppType::ack) return {Outcome::invalid, RmppStatus::unsupported_type};
  const std::uint32_t segment = rmpp.data1;
  const std::uint32_t window_last = rmpp.data2;
  if (segment > furthest_) return {Outcome::invalid, RmppStatus::segment_too_big};
  if (window_last < segment) return {Outcome::invalid, RmppStatus::window_too_small};
  if (window_last - segment > kMaxWindow) return {Outcome::invalid, RmppStatus::unspecified};
  if (segment <= acknowledged_ && window_last <= window_last_) return {Outcome::ignored};
  acknowledged_ = std::max(acknowledged_, segment);
  sent_ = std::max(sent_, acknowledged_);
  window_last_ = std::max(window_last_, window_last);
  return {Outcome::progress};
}

std::uint32_t RmppSender::rewind() {
  const std::uint32_t before = std::exchange(sent_, acknowledged_);
  return before - acknowledged_;
}

void RmppSender::restart() {
  sent_ = acknowledged_ = 0;
  window_last_ = 1;
}

/// PayloadLength counts the bytes after the RMPP header, including the class-specific header
/// (IBA 13.6.2.2): of all segments in the first one, of itself in the last one.
RmppSender::Mad RmppSender::segment(std::uint32_t number) const {
  assert(number >= 1 && number <= segments_);
  const std::size_t each = kMadSize - header_size_;
  const std::size_t begin = header_size_ + (number - 1) * each;
  const std::size_t size = std::min(message_.size() - begin, each);
  const std::size_t class_header = header_size_ - kMadHeaderSize - kRmppHeaderSize;
  RmppHeader rmpp;
  rmpp.type = RmppType::data;
  rmpp.data1 = number;
  if (number == segments_) {
    rmpp.flags |= RmppHeader::kLast;
    rmpp.data2 = static_cast<std::uint32_t>(class_header + size);
  }
  if (number == 1) {
    rmpp.flags |= RmppHeader::kFirst;
    const std::size_t data = message_.size() - header_size_;
    rmpp.data2 = static_cast<std::uint32_t>(segments_ * class_header + data);
  }
  Mad mad = with_header(rmpp);
  std::copy_n(message_.begin() + static_cast<std::ptrdiff_t>(begin), size,
              mad.begin() + static_cast<std::ptrdiff_t>(header_size_));
  return mad;
}

RmppSender::Mad RmppSender::abort(RmppStatus status) const {
  RmppHeader rmpp;
  rmpp.type = RmppType::abort;
  rmpp.status = static_cast<std::uint8_t>(status);
  return with_header(rmpp);
}

/// Makes a segment with the message's headers and without data.
RmppSender::Mad RmppSender::with_header(const RmppHeader& rmpp) const {
  Mad mad{};
  std::copy_n(message_.begin(), header_size_, mad.begin());
  const auto rmpp_bytes = std::span(mad).subspan(kMadHeaderSize, kRmppHeaderSize);
  RmppHeader header = rmpp;
  header.flags |= RmppHeader::kActive;
  // The caller sets the response time in the message's RMPP header.
  if (const auto given = RmppHeader::parse(rmpp_bytes)) header.response_time = given->response_time;
  header.emit(rmpp_bytes);
  return mad;
}

}  // namespace softib
