#include "softib/cli/capture_order.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "erf/capture_messages.hpp"

namespace softib::cli {

namespace {

bool is_later(const CaptureOrder::Packet& one, const CaptureOrder::Packet& other) {
  return std::tie(one.when, one.number) > std::tie(other.when, other.number);
}

/// What a packet costs besides its bytes.
constexpr std::size_t kOverhead = sizeof(CaptureOrder::Packet);

}  // namespace

bool CaptureOrder::add(ipoib::ConstBytes message) {
  ipoib::erf::CaptureMessageReader reader(message);
  if (!reader.ok()) return false;
  lost_ += reader.lost();
  while (const auto record = reader.next()) {
    const auto size = record->packet.size();
    if (size < kLeastPacket || size > kMostPacket) return false;
    waiting_.push_back({record->nanoseconds,
                        added_++,
                        record->is_received,
                        {record->packet.begin(), record->packet.end()}});
    std::ranges::push_heap(waiting_, is_later);
    bytes_ += size + kOverhead;
  }
  return reader.ok();
}

void CaptureOrder::take(std::int64_t until, const std::function<bool(const Packet&)>& visit) {
  while (!waiting_.empty() && (waiting_.front().when < until || bytes_ > kMaxWaitingBytes)) {
    std::ranges::pop_heap(waiting_, is_later);
    const Packet packet = std::move(waiting_.back());
    waiting_.pop_back();
    bytes_ -= packet.bytes.size() + kOverhead;
    if (!visit(packet)) return;
  }
}

}  // namespace softib::cli
