#include "softib/roce/port.hpp"

#include <algorithm>
#include <utility>

namespace softib::roce {

using transport::Delivery;
using transport::SendMode;

void Port::set_sockets(BorrowedSockets borrowed) {
  std::vector<Gid> addresses;
  for (const auto& each : borrowed.sockets) {
    if (!each.is_for_responses) addresses.push_back(each.address);  // each has one of these, too
  }
  for (const auto& each : sockets_) set_.remove(each);
  sockets_ = std::move(borrowed.sockets);
  for (const auto& each : sockets_) (void)set_.add(each);
  if (borrowed.is_mixed) mix_sockets();
  lender_ = std::move(borrowed.lender);
  interface_ = borrowed.interface;
  groups_.move_to(interface_);
  sender_.set_interface(interface_);
  const std::lock_guard lock(mutex_);
  addresses_ = std::move(addresses);
}

void Port::lender_gone(int fd) {
  if (lender_.get() == fd) mix_sockets();
}

void Port::mix_sockets() {
  for (auto& each : sockets_) {
    if (!std::exchange(each.is_for_responses, false)) continue;
    set_.remove(each);
    (void)set_.add(each);
  }
}

ipoib::Result<void> Port::set_groups(std::span<const Gid> groups) {
  return groups_.replace(groups, interface_);
}

std::size_t Port::poll() {
  std::size_t bytes = 0;
  for (const auto* const each : set_.readable()) bytes += receiver_.poll(*each, handler_);
  return bytes;
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
