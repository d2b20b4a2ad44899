// The endpoint that connects a process slot, the wire, the router and the engine.
#pragma once

#include <atomic>
#include <mutex>

#include "softib/core/adaptive_mutex.hpp"
#include "softib/endpoint/endpoint.hpp"
#include "softib/endpoint/faulty_link.hpp"
#include "softib/fabric/fabric.hpp"
#include "softib/transport/process_slot.hpp"
#include "softib/transport/ring_wire.hpp"
#include "softib/transport/router.hpp"
#include "softib/transport/socket_engine.hpp"

namespace softib::endpoint {

class LiveEndpoint final : public Endpoint,
                           private transport::WireReceiver,
                           private transport::ConnectionWatcher {
 public:
  /// Throws std::system_error when the system has no descriptors or threads left.
  LiveEndpoint(fabric::SubnetFolder folder, fabric::Fabric fabric, NodeIndex node,
               const subnet::Node& record, transport::ProcessSlot slot);
  ~LiveEndpoint() override;

  [[nodiscard]] const std::string& hca_name() const override { return name_; }
  [[nodiscard]] NodeIndex node() const override { return node_; }
  [[nodiscard]] std::uint32_t slot() const override { return slot_.index(); }
  [[nodiscard]] std::uint32_t epoch() const override { return slot_.epoch(); }
  [[nodiscard]] bool is_lost() const override { return lost_ || !port().serves(hca_generation_); }
  void detach() override;
  [[nodiscard]] PortAttributes port() const override;
  void send(std::span<const OutgoingPacket> batch) override;
  [[nodiscard]] std::size_t try_send(std::span<const OutgoingPacket> batch) override;
  [[nodiscard]] bool has_untaken(Lid dlid, Qpn destination) override;
  void send_mad(ConstBytes packet) override;
  void send_mad_to(NodeIndex node, ConstBytes packet) override;
  void set_mad_deadline(ipoib::TimePoint when) override { set_deadline(mad_deadline_, when); }
  void set_deadline(ipoib::TimePoint when) override { set_deadline(deadline_, when); }
  void set_cm_deadline(ipoib::TimePoint when) override { set_deadline(cm_deadline_, when); }
  [[nodiscard]] bool is_running(const RemoteProcess& process) const override;
  [[nodiscard]] bool watch_hangup(int fd) override {
    return !is_inactive() && engine_.watch_hangup(fd);
  }
  [[nodiscard]] bool wake_processes(NodeIndex node) override;
  void set_receiver(PacketReceiver* receiver) override;
  void set_mad_receiver(MadReceiver* receiver) override;
  void set_cm_receiver(CmReceiver* receiver) override;
  void count(fabric::PortCounter counter, std::uint64_t by) override;
  [[nodiscard]] fabric::PortCounterValues counters() const override;
  bool poll_receive_rings() override { return !is_inactive() && engine_.poll_receive_rings(); }
  void set_waiter(std::size_t entry, std::uint32_t waiter) override;
  [[nodiscard]] ipoib::Result<transport::WakeupSocket> make_wakeup_socket() override;
  [[nodiscard]] std::uint32_t add_wakeup_fd(const transport::WakeupSocket& socket) override;
  void remove_wakeup_fd(std::uint32_t number) override;

 private:
  void arrived(std::span<const ArrivedPacket> packets) override;
  void mad_arrived(const transport::MadOnWire& mad) override;
  void malformed() override;
  void accept_paused() override;
  void turn_done() override;
  void deadline(ipoib::TimePoint now) override;
  void connections_ended(std::span<const transport::Process> processes) override;
  void hung_up(int fd) override;
  [[nodiscard]] bool watch(int socket, transport::Process process) override;
  void connection_ended(transport::Process process) override;

  /// The data path tests nothing but is_special_ besides belongs_to_parent(): whether the endpoint
  /// is lost or its link has faults.
  void set_lost();
  void set_faults(const LinkFaults& faults);
  void send_over_faulty_link(std::span<const OutgoingPacket> batch);
  void send_now(const WirePacket& packet);
  /// The packets without those whose ICRC is wrong, which it counts.
  [[nodiscard]] std::span<const ArrivedPacket> check_icrcs(std::span<const ArrivedPacket> packets);
  /// Nothing is sent if this endpoint belongs to a parent process or is lost.
  [[nodiscard]] bool is_inactive() const { return belongs_to_parent() || lost_; }
  [[nodiscard]] bool belongs_to_parent() const {
    return generation_ != transport::fork_generation();
  }
  [[nodiscard]] transport::SendMode send_mode() const;
  void set_deadline(ipoib::TimePoint& which, ipoib::TimePoint when);
  [[nodiscard]] bool has_passed(ipoib::TimePoint& which, ipoib::TimePoint now);
  void update_deadline();
  void count_received(std::size_t packets, std::uint64_t bytes);
  template <class Change>
  void with_delivery_lock(Change change);

  fabric::SubnetFolder folder_;
  mutable fabric::Fabric fabric_;
  const NodeIndex node_;
  const std::string name_;
  const std::uint16_t hca_generation_;  ///< when this process attached
  transport::ProcessSlot slot_;
  std::mutex wakeup_name_mutex_;  ///< the slot has one name for wakeup sockets
  const std::uint32_t generation_ = transport::fork_generation();
  transport::RingWire wire_;
  transport::Router router_;

  mutable std::mutex port_mutex_;
  std::uint32_t last_version_ = 0;  ///< of the port's record; used by the engine only
  PortAttributes last_port_;

  AdaptiveMutex delivery_mutex_;  ///< held while a receiver is called
  PacketReceiver* receiver_ = nullptr;
  bool port_reported_ = false;  ///< last_port_ has been passed to receiver_
  MadReceiver* mad_receiver_ = nullptr;
  CmReceiver* cm_receiver_ = nullptr;
  bool loss_reported_ = false;     ///< mad_receiver_ knows that the endpoint is lost
  bool cm_loss_reported_ = false;  ///< the same for cm_receiver_
  std::atomic<bool> lost_ = false;
  std::atomic<bool> is_special_ = false;  ///< lost_, or the link has faults
  std::vector<ArrivedPacket> checked_;    ///< by check_icrcs()
  bool detached_ = false;

  std::mutex deadline_mutex_;  ///< the engine has one deadline, the earliest of these
  ipoib::TimePoint cm_deadline_ = ipoib::kNever;
  ipoib::TimePoint mad_deadline_ = ipoib::kNever;
  ipoib::TimePoint deadline_ = ipoib::kNever;

  FaultyLink faulty_link_;
  transport::SocketEngine engine_;  ///< last: it uses all of the above
};

}  // namespace softib::endpoint
