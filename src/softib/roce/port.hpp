// The RoCE port of a process: what it sends leaves by its own sockets, what it receives comes from
// the sockets of its slot and of its multicast groups.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "softib/roce/group_sockets.hpp"
#include "softib/roce/receiver.hpp"
#include "softib/roce/sender.hpp"
#include "softib/roce/socket_exchange.hpp"
#include "softib/transport/wire.hpp"

namespace softib::roce {

class Port final : public transport::Uplink, public transport::PacketSource {
 public:
  /// `handler` gets what comes, and must outlive the port.
  explicit Port(Receiver::Handler& handler) : handler_(handler) {}

  // These two must not be called while poll() runs.
  /// Replaces the addresses and the sockets to receive from.
  void set_sockets(BorrowedSockets sockets);
  /// Makes all sockets such for anything if this is the descriptor of the lender, which has gone.
  void lender_gone(int fd);
  /// Replaces the multicast groups. Fails if one of them cannot be joined.
  [[nodiscard]] ipoib::Result<void> set_groups(std::span<const Gid> groups);

  [[nodiscard]] bool is_own(const Gid& gid) const override;
  std::size_t send(std::span<const OutgoingPacket* const> packets, transport::SendMode mode,
                   transport::Delivery& why) override;
  std::size_t poll() override;
  [[nodiscard]] int descriptor() const override { return set_.fd(); }
  [[nodiscard]] int descriptor_of_others() const override { return set_.fd_of_others(); }

 private:
  void mix_sockets();

  Receiver::Handler& handler_;
  Receiver receiver_;
  Sender sender_;
  unsigned interface_ = 0;  ///< index
  SocketSet set_;           ///< of those below
  std::vector<AddressSocket> sockets_;
  ipoib::FileDescriptor lender_;
  GroupSockets groups_{set_};
  mutable std::mutex mutex_;
  std::vector<Gid> addresses_;
};

}  // namespace softib::roce
