// Sends a datagram to a multicast group, as a full member or send-only (RFC 4391, 10).
#pragma once

#include <utility>

#include "link/group_table.hpp"
#include "link/send_group_table.hpp"

namespace ipoib::link {

class MulticastOutput {
 public:
  MulticastOutput(GroupTable& groups, SendGroupTable& send_groups, Output& out)
      : groups_(groups), send_groups_(send_groups), out_(out) {}

  /// Takes a frame that begins with the encapsulation header.
  void send(const IpAddress& group, Frame&& frame, TimePoint now) {
    const Gid mgid = groups_.mgid_of(group);
    if (const Group* const joined = groups_.joined(mgid)) {
      return joined->send(std::move(frame), out_);
    }
    send_groups_.send(mgid, std::move(frame), now);
  }

 private:
  GroupTable& groups_;
  SendGroupTable& send_groups_;
  Output& out_;
};

}  // namespace ipoib::link
