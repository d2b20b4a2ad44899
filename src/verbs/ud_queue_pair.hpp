// The UD queue pair of an interface: one QP, one CQ for both directions, one completion channel.
//
// Cold path (ud_queue_pair_setup.cpp): the queue pair is created in RESET, so its number is known
// from the start; configure() takes it to RTS with a P_Key index and a Q_Key, bring_down() back to
// RESET and releases all frames. An error completion makes is_broken() true; restart() resets the
// queue pair, which keeps its number. recreate() replaces it and its completion queue if the device
// refuses that, or if the completion queue has failed.
//
// Hot path (ud_queue_pair.cpp, send_queue.hpp): posts and polls chains.
#pragma once

#include <memory>
#include <vector>

#include "ipoib/log_fwd.hpp"
#include "ipoib/ud_port.hpp"
#include "verbs/checksum_probe.hpp"
#include "verbs/device.hpp"
#include "verbs/receive_queue.hpp"
#include "verbs/recoverable_ud_port.hpp"
#include "verbs/registered_memory.hpp"
#include "verbs/send_queue.hpp"
#include "verbs/ud_values.hpp"

namespace ipoib::verbs {

class UdQueuePair final : public RecoverableUdPort {
 public:
  /// Creates PD, CQ, channel, queue pair and receive buffers for packets of up to `max_mtu` bytes.
  /// `device` and `log` must outlive it; it must outlive the address handles that it creates.
  static Result<std::unique_ptr<UdQueuePair>> create(const Device& device, std::uint32_t max_mtu,
                                                     const QueueDepths& depths, Logger& log);
  ~UdQueuePair() override;

  /// Receives large packets without segmentation, if the device supports that.
  void enable_large_receives();
  /// Registers a pool whose frames are passed to send(). It must outlive this object.
  [[nodiscard]] Result<void> register_pool(FramePool& pool);
  /// Brings the queue pair to RTS with these attributes, and posts receives. If it is up already, a
  /// new P_Key index resets it; a new Q_Key does not.
  [[nodiscard]] Result<void> configure(const UdAttributes& attributes) override;
  /// Brings the queue pair to RESET, and releases all posted frames. Received datagrams that were
  /// not polled are lost. Attachments to groups stay.
  [[nodiscard]] Result<void> bring_down();
  /// Fails if the completion queue has failed, because only recreate() replaces that.
  [[nodiscard]] Result<void> restart() override;
  [[nodiscard]] Result<void> recreate() override;
  [[nodiscard]] bool is_up() const { return up_; }
  /// Whether the send queue has room for the segments of any packet, in addition to unsignalled
  /// sends.
  [[nodiscard]] bool can_send_large_packets() const {
    return sends_.depth() >= kMaxSegments + kSignalPeriod;
  }
  /// Whether the device computes the checksums of segments, since the probe has passed.
  [[nodiscard]] bool checksum_offload() const { return probe_.passed(); }
  [[nodiscard]] bool is_broken() const override { return broken_; }
  void on_object_failed(const void* object) override;

  [[nodiscard]] Qpn qpn() const override { return Qpn(qp_->qp_num); }
  [[nodiscard]] Result<AddressHandlePtr> create_address_handle(const AddressVector& to) override;
  std::size_t send(std::span<Outgoing> batch) override;
  std::size_t receive(std::vector<Incoming>& out, std::size_t limit) override;
  [[nodiscard]] Result<void> attach(const Gid& mgid, Lid mlid) override;
  [[nodiscard]] Result<void> detach(const Gid& mgid, Lid mlid) override;

  /// Readable once after arm(), when a completion arrives.
  [[nodiscard]] int descriptor() const { return channel_->fd; }
  void arm() override;
  void acknowledge_events() override;

  [[nodiscard]] SendProgress send_progress() const override {
    return {sends_.completed(), sends_.in_flight()};
  }
  [[nodiscard]] const UdCounters& counters() const override { return counters_; }

 private:
  UdQueuePair(const Device& device, std::uint32_t max_mtu, const QueueDepths& depths, Logger& log)
      : device_(device), log_(log), max_mtu_(max_mtu), depths_(depths) {}
  [[nodiscard]] Result<void> create_queues();
  [[nodiscard]] Result<CompletionQueue> create_completion_queue();
  [[nodiscard]] Result<QueuePair> create_queue_pair(ibv_cq* queue);
  [[nodiscard]] Result<void> destroy_queue_pair();
  [[nodiscard]] Result<void> bring_up();
  [[nodiscard]] Result<void> set_qkey();
  [[nodiscard]] Result<void> modify(ibv_qp_attr& attributes, int mask, const char* what);
  void probe_checksum_offload();
  [[nodiscard]] bool send_probes();
  std::size_t poll(std::vector<Incoming>& out, std::size_t limit);
  std::size_t take_early(std::vector<Incoming>& out, std::size_t limit);
  void drain_completions();
  void release_all();
  void complete_send(const ibv_wc& completion);
  bool complete_receive(const ibv_wc& completion, std::vector<Incoming>& out);
  void post_receives(std::size_t at_least);
  void stop_large_receives(std::string_view why);

  const Device& device_;
  Logger& log_;
  std::uint32_t max_mtu_;
  QueueDepths depths_;
  ReceiveQueue receives_{memory_, counters_};  ///< first: their memory is registered below
  ReceiveQueue large_receives_{memory_, counters_};
  std::unique_ptr<FramePool> header_pool_;
  ProtectionDomain pd_;
  RegisteredMemory memory_;
  CompletionChannel channel_;
  CompletionQueue cq_;
  QueuePair qp_;
  std::vector<GroupAttachment> groups_;
  UdAttributes attributes_;
  bool up_ = false;
  bool broken_ = false;
  bool completions_failed_ = false;           ///< the completion queue has failed
  bool advertises_checksum_offload_ = false;  ///< IBV_DEVICE_UD_IP_CSUM
  ChecksumProbe probe_;
  UdCounters counters_;
  SendQueue sends_{memory_, counters_};
  std::vector<Incoming> early_;  ///< received while probing
};

}  // namespace ipoib::verbs
