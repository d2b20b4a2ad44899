// A process's attachment to one HCA of an emulated subnet: its place, its sockets, its engine.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "ipoib/result.hpp"
#include "softib/core/fabric_types.hpp"

namespace softib {

/// Called by the engine thread, never with a lock of the endpoint held.
class PacketReceiver {
 public:
  virtual ~PacketReceiver() = default;
  /// Packets for this process, LRH to padding, in order of arrival. MADs (QP0, QP1) are not among
  /// them. The octets are valid only during the call.
  virtual void receive(std::span<const ConstBytes> batch) = 0;
  /// The port's record has changed.
  virtual void port_changed(const PortAttributes& before, const PortAttributes& now) = 0;
};

/// MADs for this process; called by the engine thread.
class MadReceiver {
 public:
  virtual ~MadReceiver() = default;
  /// A whole packet to QP0 or QP1, LRH to padding.
  virtual void receive_mad(ConstBytes packet) = 0;
};

class Endpoint : public PacketSink {
 public:
  /// Attaches this process to HCA `hca` of the subnet in `folder`, adding the HCA if the subnet
  /// does not have it. Errors say which of subnet, HCA or place was not to be had, and what to do.
  [[nodiscard]] static ipoib::Result<std::unique_ptr<Endpoint>> attach(const std::string& folder,
                                                                       const std::string& hca);

  [[nodiscard]] virtual const std::string& hca_name() const = 0;
  [[nodiscard]] virtual std::uint32_t place() const = 0;
  [[nodiscard]] virtual std::uint32_t epoch() const = 0;
  /// The port as it is now; cheap.
  [[nodiscard]] virtual PortAttributes port() const = 0;
  /// Sends one MAD packet (LRH to padding) to whom it belongs: the subnet, or an agent elsewhere.
  virtual void send_mad(ConstBytes packet) = 0;
  /// Sets who gets packets and MADs. Before that they are dropped and counted.
  virtual void set_receiver(PacketReceiver* receiver) = 0;
  virtual void set_mad_receiver(MadReceiver* receiver) = 0;
};

}  // namespace softib
