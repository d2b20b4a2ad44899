// Tells senders which thread to wake for a packet to the queue pairs of a completion queue: none
// while a program polls the queue; its completion channel once the queue is armed, if the channel
// is O_NONBLOCK; the engine in all other cases.
//
// A sender wakes the channel's program for a packet before it is known whether that completes a
// receive. The program that reads the channel (ibv_get_cq_event) then receives the
// packets and finds an event or none. With O_NONBLOCK, it must expect the latter (EAGAIN).
//
// Who is woken for the packets of connections, WakeupPolicy says.
#pragma once

#include <vector>

#include "ipoib/monotonic_clock.hpp"
#include "softib/endpoint/endpoint.hpp"
#include "softib/verbs/wakeup_policy.hpp"

namespace softib::verbs {

struct CompChannel;
struct Cq;

/// The waiters of all completion queues, guarded by the lock of the model, except where stated
/// otherwise.
class WaiterRegistry {
 public:
  explicit WaiterRegistry(endpoint::Endpoint& endpoint)
      : endpoint_(endpoint), policy_([&endpoint](std::size_t entry, std::uint32_t waiter) {
          endpoint.set_waiter(entry, waiter);
        }) {}

  void add(Cq& cq) { all_.push_back(&cq); }
  void remove(Cq& cq) { std::erase(all_, &cq); }
  /// `receives` is the queue for the receive completions of `qp`.
  void add(Qpn qp, const Cq& receives);
  void remove(Qpn qp);

  /// A program has polled the queue and found it empty. Unless it is armed, it will poll again.
  void on_polled(Cq& cq);
  /// To call before and after requests of a connection are posted.
  void begin_post();
  void end_post();
  /// A program has polled and found completions. Returns whether the caller has to read the rings.
  [[nodiscard]] bool on_completions() {
    return policy_.must_note_completions() && policy_.on_completions(ipoib::monotonic_now());
  }
  [[nodiscard]] WakeupPolicy& policy() { return policy_; }

  /// The queue has just been armed. Packets that arrived before wake no thread: after arming, a
  /// program polls once more.
  void on_armed(Cq& cq);
  /// The channel was readable, and the packets have been received. Makes the channel the waiter of
  /// its armed queues again. Packets that arrive before this returns wake no thread.
  void on_channel_read(const CompChannel& channel);

 private:
  [[nodiscard]] bool is_any_armed() const;
  void set_waiter(Cq& cq, std::uint32_t waiter);
  void set_multicast_waiter();

  endpoint::Endpoint& endpoint_;
  std::vector<Cq*> all_;
  WakeupPolicy policy_;
};

}  // namespace softib::verbs
