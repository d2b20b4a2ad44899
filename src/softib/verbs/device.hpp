// The one device of a process: the model of its HCA between the endpoint, whose engine brings
// packets, and the application's threads.
//
// One lock guards the model. It is never held while packets go out, so a sender that has to wait
// for its receiver stops neither the engine nor other threads. A fork() waits for it, so that a
// child never finds it taken by a thread that it lacks.
#pragma once

#include <infiniband/verbs.h>

#include <mutex>
#include <vector>

#include "ipoib/result.hpp"
#include "softib/endpoint/endpoint.hpp"
#include "softib/hca/hca.hpp"
#include "softib/verbs/attendance.hpp"

namespace softib::verbs {

struct Channel;
struct Completions;
struct Context;

/// An ibv_device with room behind it: a provider library that a program links looks for its own
/// fields there to see whether the device is one of its own, and must find nothing.
class Device;
struct ListedDevice : ibv_device {
  void* no_provider[64] = {};
  Device* device = nullptr;
};

class Device final : public endpoint::PacketReceiver {
 public:
  /// The device over process_endpoint(). It lives as long as the process. A child of fork() gets
  /// one of its own.
  [[nodiscard]] static ipoib::Result<Device*> of_process();
  explicit Device(endpoint::Endpoint& endpoint);
  ~Device() override;

  /// The model for as long as the caller holds this; then its events are passed on.
  class Access {
   public:
    explicit Access(Device& device) : device_(device), lock_(device.mutex_) {}
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;
    ~Access() { device_.pass_on_events(); }
    hca::Hca* operator->() const { return &device_.hca_; }
    [[nodiscard]] Attendance& attendance() const { return device_.attendance_; }

   private:
    Device& device_;
    std::lock_guard<std::mutex> lock_;
  };
  [[nodiscard]] Access hca() { return Access(*this); }
  /// Sends what the queue pair has to send, the first batch of which has been handed out already.
  void transmit(hca::QueuePair& qp, std::span<const OutgoingPacket> batch);

  /// Takes in packets that have come, for who has found this queue empty. False: there were none.
  bool take_arrivals(Completions& cq);
  /// Takes in packets that the channel was rung for, and sees to it that it is rung for more.
  void answer(const Channel& channel);

  // As Hca's, and nobody is told to look after them any more.
  [[nodiscard]] ipoib::Result<void> destroy(Completions& cq);
  [[nodiscard]] ipoib::Result<void> destroy(hca::QueuePair& qp);
  void forget(const Channel& channel);

  [[nodiscard]] ListedDevice& listed() { return listed_; }
  /// Contexts learn of the port's events.
  void add(Context& context);
  void remove(Context& context);

  void receive(std::span<const ArrivedPacket> batch) override;
  void port_changed(const PortAttributes& now) override;
  void attendants_in_doubt() override;

 private:
  void pass_on_events();
  void pass_on(const hca::AsyncEvent& event);
  void report_drops();
  static void hold_for_fork();
  static void let_go_after_fork();
  static const int fork_handlers_;

  endpoint::Endpoint& endpoint_;
  ListedDevice listed_;
  std::mutex mutex_;
  hca::Hca hca_;
  Attendance attendance_;
  hca::HcaCounters reported_;  ///< what the endpoint has been told of
  std::vector<Context*> contexts_;
};

}  // namespace softib::verbs
