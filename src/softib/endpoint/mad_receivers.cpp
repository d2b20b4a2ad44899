#include "softib/endpoint/mad_receivers.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace softib::endpoint {

void MadReceivers::add(MadReceiver& receiver, ManagementClasses classes) {
  assert(!has(receiver));
  registrations_.push_back({&receiver, std::move(classes)});
}

void MadReceivers::remove(MadReceiver& receiver) {
  std::erase_if(registrations_, [&](const auto& each) { return each.receiver == &receiver; });
}

bool MadReceivers::has(const MadReceiver& receiver) const {
  return std::ranges::any_of(registrations_,
                             [&](const auto& each) { return each.receiver == &receiver; });
}

bool MadReceivers::deliver(const MadPacket& packet) {
  return offer(packet, false) || offer(packet, true);
}

bool MadReceivers::offer(const MadPacket& packet, bool to_all_classes) {
  const auto header = ipoib::wire::MadHeader::parse(packet.mad);
  for (std::size_t i = 0; i < registrations_.size();) {
    auto* const receiver = registrations_[i].receiver;
    const auto& classes = registrations_[i].classes;
    const bool is_of_class =
        header && std::ranges::find(classes, header->management_class) != classes.end();
    const bool is_next = to_all_classes ? classes.empty() : is_of_class;
    if (is_next && receiver->receive_mad(packet)) return true;
    const bool has_removed_itself =
        i == registrations_.size() || registrations_[i].receiver != receiver;
    if (!has_removed_itself) ++i;
  }
  return false;
}

void MadReceivers::report_loss() {
  for (std::size_t i = 0; i < registrations_.size(); ++i) {
    if (!std::exchange(registrations_[i].knows_loss, true))
      registrations_[i].receiver->device_lost();
  }
}

}  // namespace softib::endpoint
