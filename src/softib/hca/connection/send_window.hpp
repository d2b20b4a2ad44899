// The send window of a connection: which packets of its requests have been sent and acknowledged,
// which to send next, and when to send again (IBA 9.7.2 to 9.7.6). A packet of UC counts as
// acknowledged once it was sent.
//
// Each packet of a request has a PSN; a READ has one for each packet of its response. The packets
// of started requests follow each other:
//
//   acknowledged | sent, not acknowledged | to be sent (again) | requests that are not started
//                ^ unacked                ^ cursor
//
// A local operation (binding or invalidating a memory window) has a place in this order, and no
// packet.
//
// Sending again moves the cursor back to `unacked` (go-back-N), or within a READ to the first
// response that is missing.
#pragma once

#include <infiniband/verbs.h>

#include <cassert>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "softib/hca/connection/attributes.hpp"
#include "softib/hca/connection/congestion.hpp"
#include "softib/hca/connection/request.hpp"
#include "softib/hca/work_requests.hpp"

namespace softib::hca {

/// A packet of a request.
struct RequestPacket {
  std::uint32_t position = 0;  ///< of the request in the send queue
  std::uint32_t index = 0;     ///< of the packet in the request
  std::uint32_t packets = 0;   ///< PSNs that it takes: of a READ, responses; else a run
  Psn psn;
  bool is_last = false;  ///< packet of the request
  bool requests_ack = false;
};

class SendWindow {
 public:
  /// `sends`, of at most `limit` requests, must outlive the window.
  SendWindow(WorkQueue<SendRequest>& sends, std::uint32_t limit);

  [[nodiscard]] ConnectedRequest& at(std::uint32_t position) { return requests_[position & mask_]; }
  /// The oldest request that is not complete. Requires has_started().
  [[nodiscard]] ConnectedRequest& oldest() {
    assert(has_started());
    return at(sends_.processed());
  }
  [[nodiscard]] bool has_unacked() const { return unacked_ != end_; }
  /// Whether a request, or a part of one, is still to be sent.
  [[nodiscard]] bool has_unsent() const { return cursor_.position != sends_.next_position(); }
  [[nodiscard]] bool has_started() const { return started_ != sends_.processed(); }
  /// The first PSN that is not acknowledged.
  [[nodiscard]] Psn unacked() const { return unacked_; }
  [[nodiscard]] Psn next() const { return end_; }  ///< of the next packet that is new
  /// Whether a packet with this PSN was sent and is not acknowledged.
  [[nodiscard]] bool is_outstanding(Psn psn) const { return psn - unacked_ >= 0 && psn - end_ < 0; }

  /// Sets the PSN of the next request. Requires that none is waiting in the send queue.
  void start(Psn first);
  /// Whether the next request is a local operation that may be executed now: all requests before it
  /// have been sent, and its fence permits it.
  [[nodiscard]] bool may_start_local();
  /// Starts the next request, which is complete when it is the oldest. Requires that it is a local
  /// operation.
  void start_local();
  [[nodiscard]] std::uint32_t next_to_start() const { return started_; }  ///< position
  /// Fills `out` with the packets to send next. Returns how many. May start requests if
  /// `may_start`.
  [[nodiscard]] std::size_t plan(std::span<RequestPacket> out, const ConnectionAttributes& with,
                                 bool may_start);
  /// To call when the next packet of the last plan has been sent.
  void sent(const RequestPacket& packet);
  /// Packets up to `psn` are acknowledged, all of one request. Requires that they were sent. This
  /// is progress.
  void acknowledge(Psn psn);
  /// Packets of `mtu` bytes were marked by a switch.
  void congested(std::uint32_t mtu);
  void go_back();  ///< to the first packet that is not acknowledged
  [[nodiscard]] bool is_recovering() const { return is_recovering_; }  ///< no progress since
  /// Sends nothing for `delay` from the next call of is_paused() on.
  void pause(ipoib::Duration delay) { pause_ = delay, has_sent_since_pause_ = false; }
  [[nodiscard]] bool has_sent_since_pause() const { return has_sent_since_pause_; }
  [[nodiscard]] bool is_paused(ipoib::TimePoint now);
  /// Whether an acknowledgement should have come by now.
  [[nodiscard]] bool is_overdue(ipoib::TimePoint now) const { return now >= deadline_; }
  void restart_timer() { restarts_timer_ = true; }
  /// When is_paused() or is_overdue() changes; `timeout` is that of an acknowledgement, or zero.
  [[nodiscard]] ipoib::TimePoint update_deadline(ipoib::TimePoint now, ipoib::Duration timeout);

  std::uint8_t retries = 0;      ///< since the last progress
  std::uint8_t rnr_retries = 0;  ///< since the last progress

 private:
  struct Cursor {
    std::uint32_t position = 0;
    std::uint32_t index = 0;
    Psn psn;
  };
  [[nodiscard]] bool start_next(Psn psn, std::uint32_t mtu, bool reads_pending);
  [[nodiscard]] Cursor after(const RequestPacket& packet);
  [[nodiscard]] Cursor skip_local(Cursor cursor);
  void move_cursor_to_unacked();
  [[nodiscard]] std::uint32_t room(Psn next, std::uint32_t window) const;
  [[nodiscard]] std::uint32_t left_of_read(Psn next) const;

  WorkQueue<SendRequest>& sends_;
  std::vector<ConnectedRequest> requests_;  ///< by position
  std::uint32_t mask_;
  std::uint32_t started_ = 0;  ///< requests before this position have PSNs
  Cursor cursor_;
  Psn unacked_;
  Psn end_;    ///< after the last packet that was ever sent
  Psn asked_;  ///< after the last packet that requests an acknowledgement
  Congestion congestion_;
  std::deque<Psn> reads_;  ///< the last PSN of each READ or atomic packet that waits for responses
  /// The last PSN of each READ request, as it was sent first, until all its responses are there.
  std::deque<Psn> read_ends_;
  bool is_recovering_ = false;
  bool restarts_timer_ = false;
  bool has_sent_since_pause_ = false;
  ipoib::Duration pause_{};
  ipoib::TimePoint paused_until_{};
  ipoib::TimePoint deadline_ = ipoib::kNever;
};

}  // namespace softib::hca
