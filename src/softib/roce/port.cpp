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
  for (const auto& each : sockets_) set_.remove(each);
  sockets_ = std::move(sockets);
  for (const auto& each : sockets_) (void)set_.add(each);
  interface_ = interface;
  groups_.move_to(interface);
  sender_.set_interface(interface);
  const std::lock_guard lock(mutex_);
  addresses_ = std::move(addresses);
}

ipoib::Result<void> Port::set_groups(std::span<const Gid> groups) {
  return groups_.replace(groups, interface_);
}

std::size_t Port::poll() {
  std::size_t packets = 0;
  for (const auto* const each : set_.readable()) packets += receiver_.poll(*each, handler_);
  return packets;
}

bool Port::is_own(const Gid& gid) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::find(addresses_, gid) != addresses_.end();
}

std::size_t Port::send(std::span<const OutgoingPacket* const> packets, SendMode mode,
                       Delivery& why) {
  SendFailure failure = SendFailure::none;
  const auto sent = sender_.send(packets, mode == SendMode::blocking, failure);
  why = failure == SendFailure::none       ? Delivery::delivered
        : failure == SendFailure::no_room  ? Delivery::congested
        : failure == SendFailure::too_long ? Delivery::too_long
                                           : Delivery::unreachable;
  return sent;
}

}  // namespace softib::roce
