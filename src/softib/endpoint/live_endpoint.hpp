// The endpoint of a running process: place, wire, router and engine put together.
#pragma once

#include <atomic>
#include <mutex>

#include "softib/endpoint/endpoint.hpp"
#include "softib/fabric/fabric.hpp"
#include "softib/transport/process_slot.hpp"
#include "softib/transport/ring_wire.hpp"
#include "softib/transport/router.hpp"
#include "softib/transport/socket_engine.hpp"

namespace softib::endpoint {

class LiveEndpoint final : public Endpoint, private transport::WireReceiver {
 public:
  /// Throws std::system_error when the system has no descriptors or threads left.
  LiveEndpoint(fabric::SubnetFolder folder, fabric::Fabric fabric, NodeIndex node,
               const subnet::Node& record, transport::Place place);
  ~LiveEndpoint() override;

  [[nodiscard]] const std::string& hca_name() const override { return name_; }
  [[nodiscard]] NodeIndex node() const override { return node_; }
  [[nodiscard]] std::uint32_t place() const override { return place_.index(); }
  [[nodiscard]] std::uint32_t epoch() const override { return place_.epoch(); }
  [[nodiscard]] bool is_lost() const override { return lost_ || !port().serves(hca_generation_); }
  void retire() override;
  [[nodiscard]] PortAttributes port() const override;
  void send(std::span<const OutgoingPacket> batch) override;
  void send_mad(ConstBytes packet) override;
  void send_mad_to(NodeIndex node, ConstBytes packet) override;
  void set_mad_deadline(ipoib::TimePoint when) override;
  [[nodiscard]] bool nudge(NodeIndex node) override;
  void set_receiver(PacketReceiver* receiver) override;
  void set_mad_receiver(MadReceiver* receiver) override;
  void count(fabric::PortCounter counter, std::uint64_t by) override;
  [[nodiscard]] fabric::PortCounterValues counters() const override;
  bool take_arrivals() override { return !is_dead() && engine_.take_arrivals(); }
  void attend(std::size_t entry, std::uint32_t attendant) override;
  [[nodiscard]] std::uint32_t add_bell(int event) override;
  void remove_bell(std::uint32_t bell) override;

 private:
  void arrived(std::span<const ArrivedPacket> packets) override;
  void mad_arrived(ConstBytes packet) override;
  void malformed() override;
  void sender_gone() override;
  void accept_paused() override;
  void turned() override;
  void deadline(ipoib::TimePoint now) override;

  /// Of a parent process, or lost: nothing is sent.
  [[nodiscard]] bool is_dead() const { return is_of_parent() || lost_; }
  [[nodiscard]] bool is_of_parent() const { return generation_ != transport::fork_generation(); }
  [[nodiscard]] transport::Patience patience() const;
  void count_received(std::size_t packets, std::uint64_t octets);
  template <class Change>
  void between_deliveries(Change change);

  fabric::SubnetFolder folder_;
  mutable fabric::Fabric fabric_;
  const NodeIndex node_;
  const std::string name_;
  const std::uint16_t hca_generation_;  ///< when this process attached
  transport::Place place_;
  const std::uint32_t generation_ = transport::fork_generation();
  transport::RingWire wire_;
  transport::Router router_;

  mutable std::mutex port_mutex_;
  std::uint32_t last_version_ = 0;  ///< of the engine
  PortAttributes last_port_;

  std::mutex delivery_;  ///< held by who is in a receiver
  PacketReceiver* receiver_ = nullptr;
  bool is_told_ = false;  ///< the receiver knows the port as it is
  MadReceiver* mad_receiver_ = nullptr;
  bool is_mad_told_ = false;  ///< that receiver knows that this is lost
  std::atomic<bool> lost_ = false;
  bool retired_ = false;

  transport::SocketEngine engine_;  ///< last: it uses all of the above
};

}  // namespace softib::endpoint
