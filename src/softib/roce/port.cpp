#include "softib/roce/port.hpp"

#include <algorithm>
#include <utility>

namespace softib::roce {

using transport::Delivery;
using transport::SendMode;

void Port::set_sockets(unsigned interface, std::vector<AddressSocket> sockets) {
  std::vector<Gid> addresses;
  addresses.reserve(sockets.size());
  for (const auto& each : sockets) addresses.push_back(each.address);
  receiver_.set_sockets(std::move(sockets));
  sender_.set_interface(interface);
  const std::lock_guard lock(mutex_);
  addresses_ = std::move(addresses);
}

bool Port::is_own(const Gid& gid) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::find(addresses_, gid) != addresses_.end();
}

std::size_t Port::send(std::span<const OutgoingPacket* const> packets, SendMode mode,
                       Delivery& why) {
  SendFailure failure = SendFailure::none;
  const auto sent = sender_.send(packets, mode == SendMode::blocking, failure);
  why = failure == SendFailure::none      ? Delivery::delivered
        : failure == SendFailure::no_room ? Delivery::congested
                                          : Delivery::unreachable;
  return sent;
}

std::vector<int> Port::descriptors() const {
  std::vector<int> fds;
  fds.reserve(receiver_.sockets().size());
  for (const auto& each : receiver_.sockets()) fds.push_back(each.fd.get());
  return fds;
}

}  // namespace softib::roce
