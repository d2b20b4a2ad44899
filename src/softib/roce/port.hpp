// The RoCE port of a process: what it sends leaves by its own sockets, what it receives comes from
// the sockets of its slot.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "softib/roce/receiver.hpp"
#include "softib/roce/sender.hpp"
#include "softib/transport/wire.hpp"

namespace softib::roce {

class Port final : public transport::Uplink, public transport::PacketSource {
 public:
  /// `handler` gets what comes, and must outlive the port.
  explicit Port(Receiver::Handler& handler) : handler_(handler) {}

  /// Replaces the addresses and the sockets to receive from. Must not be called while poll() runs.
  void set_sockets(unsigned interface, std::vector<AddressSocket> sockets);

  [[nodiscard]] bool is_own(const Gid& gid) const override;
  std::size_t send(std::span<const OutgoingPacket* const> packets, transport::SendMode mode,
                   transport::Delivery& why) override;
  std::size_t poll() override { return receiver_.poll(handler_); }
  [[nodiscard]] std::vector<int> descriptors() const override;

 private:
  Receiver::Handler& handler_;
  Receiver receiver_;
  Sender sender_;
  mutable std::mutex mutex_;
  std::vector<Gid> addresses_;
};

}  // namespace softib::roce
