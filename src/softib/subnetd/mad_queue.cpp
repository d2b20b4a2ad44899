#include "softib/subnetd/mad_queue.hpp"

#include <algorithm>

namespace softib::subnetd {

bool MadQueue::push(NodeIndex from, const MadPacket& mad) {
  if (!shares_.take(from)) return false;
  Sender& sender = senders_[from];
  if (sender.mads.empty()) {
    sender.used = std::max(sender.used, least_used_);
    waiting_.emplace(sender.used, from);
  }
  sender.mads.push(mad);
  return true;
}

MadQueue::Next MadQueue::pop() {
  const auto [used, from] = *waiting_.begin();
  Sender& sender = senders_.at(from);
  Next next{from, sender.mads.front()};
  sender.mads.pop();
  if (sender.mads.empty()) waiting_.erase(waiting_.begin());
  shares_.give_back(from);
  least_used_ = used;
  return next;
}

void MadQueue::charge(NodeIndex from, ipoib::Duration took) {
  Sender& sender = senders_.at(from);
  const bool is_waiting = waiting_.erase({sender.used, from}) != 0;
  sender.used += took;
  if (is_waiting) waiting_.emplace(sender.used, from);
}

}  // namespace softib::subnetd
