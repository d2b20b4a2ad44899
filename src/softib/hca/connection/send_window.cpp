#include "softib/hca/connection/send_window.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

#include "softib/core/packet_run.hpp"
#include "softib/hca/limits.hpp"

namespace softib::hca {

namespace {

std::uint32_t window_of(std::uint32_t mtu) { return std::min(kWindowPackets, kWindowBytes / mtu); }

std::size_t ring_size(std::uint32_t limit) { return std::bit_ceil(std::max(limit, 1U)); }

}  // namespace

SendWindow::SendWindow(WorkQueue<SendRequest>& sends, std::uint32_t limit)
    : sends_(sends),
      requests_(ring_size(limit)),
      mask_(static_cast<std::uint32_t>(requests_.size() - 1)) {}

void SendWindow::start(Psn first) {
  assert(sends_.waiting() == 0);
  started_ = sends_.next_position();
  cursor_ = {started_, 0, first};
  unacked_ = end_ = asked_ = first;
  congestion_ = {};
  reads_.clear();
  read_ends_.clear();
  is_recovering_ = false;
  retries = rnr_retries = 0;
  pause_ = {};
  paused_until_ = {};
  deadline_ = ipoib::kNever;
}

std::size_t SendWindow::plan(std::span<RequestPacket> out, const ConnectionAttributes& with,
                             bool may_start) {
  // Acknowledgements of what was sent before it went back may have overtaken the cursor.
  if (cursor_.psn - unacked_ < 0) move_cursor_to_unacked();
  const auto mtu = with.mtu();
  const auto window = congestion_.limit(window_of(mtu));
  const bool is_limited = window < window_of(mtu);
  auto next = cursor_;
  auto reads = reads_.size();
  std::size_t count = 0;
  std::size_t sent = 0;
  while (sent < kSendBatch && count < out.size()) {
    if (next.position == started_ && !(may_start && start_next(next.psn, mtu, reads != 0))) break;
    const auto& request = at(next.position);
    const auto room = this->room(next.psn, window);
    const auto left = request.packets - next.index;
    // Several acknowledgements for each window keep the packets flowing.
    const auto share = std::max(window / 4, 1U);
    auto packets = std::min({left, kRunBytes / mtu, share, room});
    if (request.has_response()) {
      if (reads >= with.max_sent_reads) break;
      packets =
          std::min({left, kReadBytes / mtu, is_limited ? room : window, left_of_read(next.psn)});
      ++reads;
    }
    if (packets == 0 || packets > room) break;
    const auto end = next.index + packets;
    const bool is_last = end == request.packets;
    const bool fills_window = is_limited && packets == room;
    out[count] = {next.position, next.index,
                  packets,       next.psn,
                  is_last,       is_last || fills_window || end / share != next.index / share};
    sent += request.has_response() ? 1 : packets;
    next = after(out[count++]);
  }
  return count;
}

/// The packets that may be sent from `next` on. When a window has become smaller, what is in flight
/// need not have requested an acknowledgement; then one more packet may, which requests it.
std::uint32_t SendWindow::room(Psn next, std::uint32_t window) const {
  const auto in_flight = static_cast<std::uint32_t>(next - unacked_);
  if (in_flight < window) return window - in_flight;
  return next == end_ && asked_ - unacked_ <= 0 ? 1 : 0;
}

/// The PSNs from `next` to the end of the READ request that has had them; for a new one, a window.
/// A READ that is sent again may begin later than the one before, but not go beyond its end: the
/// responder would not know it (IBA 9.7.5.1.2).
std::uint32_t SendWindow::left_of_read(Psn next) const {
  const auto end = std::ranges::find_if(read_ends_, [&](Psn last) { return last - next >= 0; });
  return end == read_ends_.end() ? kWindowPackets : static_cast<std::uint32_t>(*end - next) + 1;
}

bool SendWindow::start_next(Psn psn, std::uint32_t mtu, bool reads_pending) {
  if (started_ == sends_.next_position()) return false;
  auto& request = at(started_);
  if (request.is_local()) return false;
  // "A fenced request shall not begin before all prior RDMA READs and atomics are complete" (IBA
  // 10.8.3.3).
  if (request.fence && reads_pending) return false;
  request.first = psn;
  request.packets = packet_count(sends_.at(started_).length, mtu);
  ++started_;
  return true;
}

SendWindow::Cursor SendWindow::after(const RequestPacket& packet) {
  const auto psn = packet.psn + packet.packets;
  if (packet.is_last) return skip_local({packet.position + 1, 0, psn});
  return {packet.position, packet.index + packet.packets, psn};
}

SendWindow::Cursor SendWindow::skip_local(Cursor cursor) {
  while (cursor.position != started_ && at(cursor.position).is_local()) ++cursor.position;
  return cursor;
}

bool SendWindow::may_start_local() {
  if (cursor_.psn - unacked_ < 0) move_cursor_to_unacked();
  if (cursor_.position != started_ || started_ == sends_.next_position()) return false;
  const auto& request = at(started_);
  return request.is_local() && !(request.fence && !reads_.empty());
}

void SendWindow::start_local() {
  assert(started_ != sends_.next_position() && at(started_).is_local());
  cursor_.position = ++started_;
}

void SendWindow::sent(const RequestPacket& packet) {
  assert(packet.position == cursor_.position && packet.index == cursor_.index);
  has_sent_since_pause_ = true;
  cursor_ = after(packet);
  const bool is_new = cursor_.psn - end_ > 0;
  if (is_new) end_ = cursor_.psn;
  if (packet.requests_ack) asked_ = cursor_.psn;
  if (!at(packet.position).has_response()) return;
  reads_.push_back(cursor_.psn.previous());
  if (is_new) read_ends_.push_back(cursor_.psn.previous());
}

void SendWindow::acknowledge(Psn psn) {
  assert(psn - unacked_ >= 0 && psn - end_ < 0);
  congestion_.acknowledged(static_cast<std::uint32_t>(psn - unacked_) + 1);
  unacked_ = psn + 1;
  for (auto* const ends : {&reads_, &read_ends_}) {
    while (!ends->empty() && ends->front() - unacked_ < 0) ends->pop_front();
  }
  retries = rnr_retries = 0;
  is_recovering_ = false;
  restarts_timer_ = true;
}

void SendWindow::congested(std::uint32_t mtu) {
  congestion_.notified(unacked_, end_, window_of(mtu));
}

void SendWindow::go_back() {
  move_cursor_to_unacked();
  reads_.clear();
  is_recovering_ = true;
  restarts_timer_ = true;
}

void SendWindow::move_cursor_to_unacked() {
  const auto position = sends_.processed();
  const bool is_started = position != started_;
  const auto index = is_started ? static_cast<std::uint32_t>(unacked_ - at(position).first) : 0;
  cursor_ = {position, index, unacked_};
}

bool SendWindow::is_paused(ipoib::TimePoint now) {
  if (pause_ != ipoib::Duration::zero()) {
    paused_until_ = now + pause_;
    pause_ = {};
  }
  return now < paused_until_;
}

ipoib::TimePoint SendWindow::update_deadline(ipoib::TimePoint now, ipoib::Duration timeout) {
  if (is_paused(now)) {
    deadline_ = ipoib::kNever;
    return paused_until_;
  }
  if (!has_unacked() || timeout == ipoib::Duration::zero()) {
    deadline_ = ipoib::kNever;
  } else if (restarts_timer_ || deadline_ == ipoib::kNever) {
    // The deadline is at a full millisecond, as those of other connections, so that they pass
    // together.
    deadline_ = std::chrono::ceil<std::chrono::milliseconds>(now + timeout);
  }
  restarts_timer_ = false;
  return deadline_;
}

}  // namespace softib::hca
