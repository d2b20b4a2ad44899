// What the two kinds of group have in common: questions to the SA, and what its record gives.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ipoib/log_fwd.hpp"
#include "ipoib/random.hpp"
#include "link/config.hpp"
#include "link/events.hpp"
#include "link/output.hpp"

namespace ipoib::link {

/// What groups work with; outlives them.
struct MembershipEnvironment {
  const Config& config;
  const PortGid& port;  ///< who joins
  AddressHandleFactory& handles;
  Output& out;
  QuestionIds& ids;
  Random& random;
  Logger& log;
};

/// What a member knows.
struct Membership {
  wire::McMemberRecord record;
  AddressHandlePtr handle;
};

/// Asks to join with those bits of McMemberRecord::JoinState. With `creation`, a group that does
/// not exist is created with its Q_Key, MTU, rate, SL, flow label, hop limit and traffic class
/// (RFC 4391, 10).
[[nodiscard]] QuestionId ask_to_join(const MembershipEnvironment& env, const Gid& mgid,
                                     std::uint8_t join_state, const wire::McMemberRecord* creation);
/// Asks whether the port is in it.
[[nodiscard]] QuestionId look_up(const MembershipEnvironment& env, const Gid& mgid);
void ask_to_leave(const MembershipEnvironment& env, const Gid& mgid, std::uint8_t join_state);

/// Nothing when the record makes no sense or no address handle can be made, which is logged.
[[nodiscard]] std::optional<Membership> accept(const MembershipEnvironment& env, const Gid& mgid,
                                               const wire::McMemberRecord& record);

/// A plain join of a group that does not exist is refused for the components that it lacks to
/// create it (IBA 15.2.5.17.3); to a send-only one administrators say other things.
[[nodiscard]] bool means_no_group(const Refusal& refusal);

}  // namespace ipoib::link
