// The UD queue pair of an interface: one QP, one CQ for both directions, one completion channel.
//
// Cold (ud_queue_pair_setup.cpp): made once in state RESET, so its number is known from the start;
// configure() takes it to RTS with a P_Key index and a Q_Key, bring_down() back to RESET with every
// frame returned. An error completion leaves is_broken() true; restart() goes down and up again, and
// the number stays. Only where the device refuses that, recreate() makes a new queue pair.
//
// Hot (ud_queue_pair.cpp, send_queue.hpp): what is sent and received, in chains.
#pragma once

#include <memory>
#include <vector>

#include "ipoib/log_fwd.hpp"
#include "ipoib/ud_port.hpp"
#include "verbs/checksum_probe.hpp"
#include "verbs/device.hpp"
#include "verbs/receive_queue.hpp"
#include "verbs/registered_memory.hpp"
#include "verbs/send_queue.hpp"
#include "verbs/ud_values.hpp"

namespace ipoib::verbs {

class UdQueuePair final : public UdPort {
 public:
  using Made = Result<std::unique_ptr<UdQueuePair>>;
  /// Makes PD, CQ, channel, queue pair and receive buffers for packets of up to `max_mtu` octets.
  /// `device` and `log` must outlive it, and it the address handles that it makes.
  [[nodiscard]] static Made create(const Device& device, std::uint32_t max_mtu,
                                   const QueueDepths& depths, Logger& log);
  ~UdQueuePair() override;

  /// Has the device hand over large packets as they were sent, where it does that.
  void receive_large_packets();
  /// Registers a pool whose frames will be given to send(). It must outlive this object.
  [[nodiscard]] Result<void> register_pool(FramePool& pool);
  /// To RTS with these attributes, receives posted. A queue pair that is up already goes through
  /// RESET only if it must: for another P_Key index, not for another Q_Key.
  [[nodiscard]] Result<void> configure(const UdAttributes& attributes) override;
  /// To RESET; all posted frames are back when it returns. What was received and not fetched is
  /// lost. Attachments to groups stay.
  [[nodiscard]] Result<void> bring_down();
  /// Down and up again, with the attributes that it had.
  [[nodiscard]] Result<void> restart();
  /// A new queue pair in place of the old one: in RESET, and attached to the same groups. When the
  /// device does not let go of the old one, that stays, and its frames with it.
  [[nodiscard]] Result<void> recreate();
  [[nodiscard]] bool is_up() const { return up_; }
  /// The send queue has room for the segments of any packet, beside sends that are not signalled.
  [[nodiscard]] bool takes_large_packets() const {
    return sends_.depth() >= kMaxSegments + kSignalPeriod;
  }
  /// The device computes the checksums of segments, as it has shown when this came up.
  [[nodiscard]] bool sums_up() const { return check_.passed(); }
  [[nodiscard]] bool is_broken() const { return broken_; }  ///< stopped by an error

  [[nodiscard]] Qpn qpn() const override { return Qpn(qp_->qp_num); }
  [[nodiscard]] Result<AddressHandlePtr> create_address_handle(const AddressVector& to) override;
  std::size_t send(std::span<Outgoing> batch) override;
  std::size_t receive(std::vector<Incoming>& out, std::size_t limit) override;
  [[nodiscard]] Result<void> attach(const Gid& mgid, Lid mlid) override;
  [[nodiscard]] Result<void> detach(const Gid& mgid, Lid mlid) override;

  /// Readable once after arm(), when a completion arrives.
  [[nodiscard]] int descriptor() const { return channel_->fd; }
  /// Asks for an event at the next completion. What is complete already raises none: call receive()
  /// once more before sleeping.
  void arm();
  /// Takes the events at hand off the channel.
  void acknowledge_events();

  /// Sends posted and not known to be complete; less than kSignalPeriod may stay so.
  [[nodiscard]] std::size_t sends_in_flight() const { return sends_.in_flight(); }
  [[nodiscard]] const UdCounters& counters() const { return counters_; }

 private:
  UdQueuePair(const Device& device, std::uint32_t max_mtu, const QueueDepths& depths, Logger& log)
      : device_(device), log_(log), max_mtu_(max_mtu), depths_(depths) {}
  [[nodiscard]] Result<void> make_queues();
  [[nodiscard]] Result<QueuePair> make_queue_pair();
  [[nodiscard]] Result<void> destroy_queue_pair();
  [[nodiscard]] Result<void> bring_up();
  [[nodiscard]] Result<void> set_qkey();
  [[nodiscard]] Result<void> modify(ibv_qp_attr& attributes, int mask, const char* what);
  void check_sums();
  [[nodiscard]] bool send_probes();
  std::size_t fetch(std::vector<Incoming>& out, std::size_t limit);
  std::size_t take_early(std::vector<Incoming>& out, std::size_t limit);
  void drain_completions();
  void take_everything_back();
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
  std::vector<GroupAttachment> groups_;  ///< that it is attached to
  UdAttributes attributes_;
  bool up_ = false;
  bool broken_ = false;
  bool reports_sums_ = false;  ///< the device says that it computes and verifies checksums
  ChecksumCheck check_;
  UdCounters counters_;
  SendQueue sends_{memory_, counters_};
  std::vector<Incoming> early_;  ///< received while the device was checked
};

}  // namespace ipoib::verbs
