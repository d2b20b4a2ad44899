// Decides when a join or leave may be sent, for a port whose memberships several programs share.
#pragma once

#include <cstdint>

#include "wire/sa_request.hpp"

namespace ipoib::sa {

class MembershipGate {
 public:
  enum class Action : std::uint8_t {
    send,
    leave_out,  ///< a leave: other programs are members
    postpone,   ///< a join: another program is just leaving the group; a leave: others are members,
                ///< and a join of this program is outstanding
    refuse,     ///< a join: the interface has joined as many groups as it may
  };

  virtual ~MembershipGate() = default;
  /// Called before each request is sent, and again for one that was postponed. Other requests than
  /// joins and leaves may always be sent.
  [[nodiscard]] virtual Action before(const wire::SaRequest& request) = 0;

 protected:
  MembershipGate() = default;
  MembershipGate(MembershipGate&&) = default;
  MembershipGate& operator=(MembershipGate&&) = default;
  MembershipGate(const MembershipGate&) = default;
  MembershipGate& operator=(const MembershipGate&) = default;
};

}  // namespace ipoib::sa
