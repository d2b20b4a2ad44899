// A device of a process: the model of an HCA, used by the endpoint's engine, which delivers
// packets, and by the threads of the application.
//
// One lock guards the model. It is not held while packets are sent, so a sender that waits for its
// receiver blocks no other thread. fork() takes it, so that it is free in the child.
#pragma once

#include <atomic>
#include <cassert>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "ipoib/monotonic_clock.hpp"
#include "ipoib/result.hpp"
#include "softib/core/adaptive_mutex.hpp"
#include "softib/endpoint/endpoint.hpp"
#include "softib/hca/hca.hpp"
#include "softib/transport/patience.hpp"
#include "softib/verbs/listed_device.hpp"
#include "softib/verbs/process_memory.hpp"
#include "softib/verbs/wakeup_policy.hpp"

namespace softib::verbs {

struct CompChannel;
struct Cq;
struct Qp;
struct Context;

class Device final : public endpoint::PacketReceiver {
 public:
  /// The device on process_endpoint(hca), never destroyed. A child of fork() gets another one.
  [[nodiscard]] static ipoib::Result<Device*> of_process(std::size_t hca);
  Device(endpoint::Endpoint& endpoint, std::size_t hca);
  ~Device() override;

  /// Locked access to the model, for operations that make no connection send and raise no event.
  class Access {
   public:
    explicit Access(Device& device) : device_(device), lock_(device.mutex_) { device.set_clock(); }
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;
    ~Access() { assert(!device_.hca_.connections().has_active() && device_.hca_.events().empty()); }
    hca::Hca* operator->() const { return &device_.hca_; }
    [[nodiscard]] WakeupPolicy& wakeups() const { return device_.wakeups_; }

   private:
    Device& device_;
    std::lock_guard<AdaptiveMutex> lock_;
  };
  [[nodiscard]] Access hca() { return Access(*this); }
  /// Calls `body(hca)` under the lock of the model, then sends what connections have to send, and
  /// dispatches the events. Returns what `body` has returned.
  template <class Body>
  auto change(Body body) {
    const auto access = hca();
    if constexpr (std::is_void_v<std::invoke_result_t<Body, hca::Hca&>>) {
      body(hca_);
      drain();
    } else {
      auto result = body(hca_);
      drain();
      return result;
    }
  }
  /// Calls `body(hca)`, which posts requests of `qp`, and sends them. Returns what `body` has
  /// returned: 0 or an errno value. One thread at a time may send for a queue pair.
  template <class Body>
  int post(hca::QueuePair& qp, Body body) {
    return qp.is_connected() ? post_connected(body) : post_datagrams(qp, body);
  }
  [[nodiscard]] const endpoint::Endpoint& endpoint() const { return endpoint_; }
  /// Sends the datagrams of `qp` that are posted.
  void transmit(hca::QueuePair& qp);

  /// Receives pending packets for a program that found `cq` empty; returns whether there were any.
  bool poll_receive_rings(Cq& cq);
  /// Goes on with the connections that could not send everything yet.
  void resume();
  /// Receives packets that nobody was woken for.
  void receive_pending() { (void)endpoint_.poll_receive_rings(); }
  /// Receives pending packets after a sender has woken the channel's program, and lets senders wake
  /// it again.
  void receive_for(const CompChannel& channel);
  /// Asks for an event, also for completions that have not been polled; but for these there is only
  /// one event at a time, as with the sequence numbers with which adapters of mlx4 and mlx5 are
  /// armed.
  void arm(Cq& cq, bool solicited_only);
  /// Takes completions. The program may do something else now, so the engine waits for the packets
  /// of connections again.
  [[nodiscard]] int poll(Cq& cq, std::span<ibv_wc> out, std::span<ipoib::TimePoint> times);

  /// The first part of destroying a queue pair, which raises no more events then.
  [[nodiscard]] ipoib::Result<void> retire(hca::QueuePair& qp);
  // These methods destroy the model's object and remove it from the wakeup policy.
  [[nodiscard]] ipoib::Result<void> destroy(Cq& cq);
  [[nodiscard]] ipoib::Result<void> destroy(hca::QueuePair& qp);
  /// Attaches to or detaches from a multicast group. An Ethernet port also joins or leaves it on
  /// its network interface.
  [[nodiscard]] ipoib::Result<void> attach(hca::QueuePair& qp, const Gid& group, Lid lid);
  [[nodiscard]] ipoib::Result<void> detach(hca::QueuePair& qp, const Gid& group, Lid lid);
  /// Also their memberships of groups; without the responses that they owe.
  void destroy_all(const std::unordered_set<Qp*>& qps);
  [[nodiscard]] ipoib::Result<transport::WakeupSocket> make_wakeup_socket();
  void remove_wakeup_fd(const CompChannel& channel);

  /// Takes device memory, which all contexts share; returns false if less than this is left.
  [[nodiscard]] bool take_device_memory(std::size_t bytes);
  void return_device_memory(std::size_t bytes) { device_memory_ -= bytes; }

  [[nodiscard]] ListedDevice& listed() { return listed_; }
  /// Adds a context, which gets the events of the port.
  void add(Context& context);
  void remove(Context& context);

  void receive(std::span<const ArrivedPacket> batch) override;
  void port_changed(const PortAttributes& now) override;
  [[nodiscard]] ObjectPage objects(const ObjectRequest& request) override;

 private:
  template <class Body>
  int post_connected(Body body) {
    const auto begin = begin_of_call();
    return change([&](hca::Hca& hca) {
      const int error = body(hca);
      if (wakeups_.engine_takes()) wakeups_.begin_post(begin.value_or(ipoib::monotonic_now()));
      serve_connections();
      if (wakeups_.engine_takes()) wakeups_.end_call(ipoib::monotonic_now());
      return error;
    });
  }
  /// What the program does next is measured from here, before it waits for the engine's lock;
  /// nullopt if that need not be known.
  [[nodiscard]] std::optional<ipoib::TimePoint> begin_of_call() const {
    if (!wakeups_.engine_takes()) return std::nullopt;
    return ipoib::monotonic_now();
  }
  /// The lock is released while a batch is sent.
  template <class Body>
  int post_datagrams(hca::QueuePair& qp, Body body) {
    int error = 0;
    const auto batch = change([&](hca::Hca& hca) {
      error = body(hca);
      return hca.next_packets(qp);
    });
    transmit(qp, batch);
    return error;
  }
  void transmit(hca::QueuePair& qp, std::span<const OutgoingPacket> batch);

  void deadline(ipoib::TimePoint now) override;
  [[nodiscard]] std::optional<std::uint32_t> reader_of(Cq& cq);
  void set_clock();
  /// Sends the packets of connections, and dispatches the events that this and earlier work of the
  /// model have raised. Packets that are left are postponed.
  void drain() {
    serve_connections();
    if (!hca_.events().empty()) dispatch_events();
  }
  void serve_connections() {
    if (hca_.connections().has_active()) serve_connections(ipoib::monotonic_now());
  }
  void serve_connections(ipoib::TimePoint now);
  void set_deadline(ipoib::TimePoint when);
  void dispatch_events();
  void dispatch(const hca::AsyncEvent& event);
  void report_drops();
  void report_violations(std::uint8_t port);
  void send_responses(hca::QueuePair& qp);
  [[nodiscard]] ipoib::Result<void> follow_groups();
  ipoib::Result<void> destroy(hca::Hca& hca, hca::QueuePair& qp);
  static void lock_for_fork();
  static void unlock_after_fork();
  static const int fork_handlers_;

  endpoint::Endpoint& endpoint_;
  ListedDevice listed_;
  std::mutex groups_mutex_;  ///< taken before mutex_
  AdaptiveMutex mutex_;
  ProcessMemory memory_;
  hca::Hca hca_;
  WakeupPolicy wakeups_;
  std::atomic<bool> must_resume_ = false;       ///< connections; read without the lock
  std::atomic<std::size_t> device_memory_ = 0;  ///< bytes in use
  ipoib::TimePoint deadline_ = ipoib::kNever;   ///< of the endpoint
  hca::HcaCounters reported_;                   ///< those that the endpoint has counted
  std::vector<Context*> contexts_;
  transport::Patience patience_;  ///< with receivers, when connections end
};

}  // namespace softib::verbs
