// The process of a RoCE port: follows the network interface, owns the receive sockets of all slots,
// and passes them on.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <string>
#include <vector>

#include "ipoib/log_fwd.hpp"
#include "softib/roce/network_interface.hpp"
#include "softib/roce/socket_exchange.hpp"
#include "softib/roce/udp_socket.hpp"

namespace softib::subnetd {

class RoceSockets {
 public:
  /// Called after the interface has changed, and once at the start.
  using Changed = std::function<void(const roce::NetworkInterface&)>;

  /// `interface` is a name or an address. Throws std::runtime_error with a message for the user.
  /// `context` and `log` must outlive it.
  RoceSockets(boost::asio::io_context& context, const fabric::SubnetFolder& folder,
              std::string interface, ipoib::Logger& log);
  RoceSockets(const RoceSockets&) = delete;
  RoceSockets& operator=(const RoceSockets&) = delete;

  /// Begins to follow the interface and to lend sockets. Calls `lent` when it has lent some, which
  /// are none of own() then.
  void start(Changed changed, std::function<void()> lent);
  /// The sockets of this process itself: duplicates.
  [[nodiscard]] roce::BorrowedSockets own() const;

 private:
  void wait_for_change();
  void wait_for_requests();
  void update();
  [[nodiscard]] ipoib::Result<void> open_sockets();
  [[nodiscard]] roce::LentSockets of_slot(std::uint32_t slot);

  const std::string wanted_;
  ipoib::Logger& log_;
  roce::NetworkInterface interface_;
  std::vector<roce::ReceiveSockets> sockets_;  ///< one for each GID
  roce::SocketLender lender_;
  ipoib::FileDescriptor watch_;
  boost::asio::posix::stream_descriptor watched_;
  boost::asio::posix::stream_descriptor requests_;
  Changed changed_;
  std::function<void()> lent_;
};

}  // namespace softib::subnetd
