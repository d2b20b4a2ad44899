// The states of docs/states.md, "Group", each with what it owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "ipoib/time.hpp"
#include "link/membership.hpp"

namespace ipoib::link {

/// Why a group is joined.
enum class GroupRole : std::uint8_t {
  broadcast,  ///< of the link, whose parameters it defines
  all_nodes,  ///< every host is a member
  multicast,  ///< a program of the host has joined it
  routed,     ///< a multicast router on the host receives it, as NonMember (RFC 4391, 11)
};

namespace group_state {
struct Absent {};
struct Joining {
  wire::SaRequestId request;
  bool creating = false;
  unsigned failures = 0;
};
struct Pausing {
  TimePoint until;
  unsigned failures = 0;
  std::string why;
  bool does_not_exist = false;  ///< so the broadcast group is searched in another scope
};
struct Member {
  Membership membership;
  TimePoint check_at;
  /// The broadcast group is also checked after this time without a broadcast of another port.
  Duration silence = Duration::max();
  TimePoint since{};
  unsigned failures = 0;
};
struct LookingUp {
  Membership membership;
  wire::SaRequestId request;
};
struct Confirming {
  Membership membership;
  wire::SaRequestId request;
  bool creating = false;
  unsigned failures = 0;
  /// The scope in which the broadcast group is requested since it is gone, an index in
  /// Config::scopes.
  std::optional<std::size_t> search = {};
};
using State = std::variant<Absent, Joining, Pausing, Member, LookingUp, Confirming>;
}  // namespace group_state

/// The role as text, for the log.
[[nodiscard]] std::string_view name(GroupRole role);

}  // namespace ipoib::link
