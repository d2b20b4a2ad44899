// What the two kinds of group share: SA requests, and the membership that an MCMemberRecord
// provides.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ipoib/log_fwd.hpp"
#include "ipoib/random.hpp"
#include "ipoib/result.hpp"
#include "link/config.hpp"
#include "link/events.hpp"
#include "link/output.hpp"

namespace ipoib::link {

/// The parts of the link that groups use; all outlive the groups.
struct GroupDependencies {
  const Config& config;
  const PortGid& port;  ///< the member
  AddressHandleFactory& handles;
  Output& out;
  RequestIds& ids;
  Random& random;
  Logger& log;
  /// The record of the broadcast group while it is joined: "the same P_Key, Q_Key, SL, MTU, and
  /// HopLimit" as in this record MUST be those of each other group (RFC 4391, 10).
  const std::optional<wire::McMemberRecord>& parameters;
};

struct Membership {
  wire::McMemberRecord record;
  AddressHandlePtr handle;
};

/// Requests a join with these bits of McMemberRecord::JoinState. With `creation`, the SA creates a
/// missing group with its Q_Key, MTU, rate, SL, flow label, hop limit and traffic class
/// (RFC 4391, 10).
[[nodiscard]] wire::SaRequestId request_join(const GroupDependencies& deps, const Gid& mgid,
                                             std::uint8_t join_state,
                                             const wire::McMemberRecord* creation);
/// Requests the port's membership record.
[[nodiscard]] wire::SaRequestId request_lookup(const GroupDependencies& deps, const Gid& mgid);
void request_leave(const GroupDependencies& deps, const Gid& mgid, std::uint8_t join_state);

/// Whether the parameters that RFC 4391, 10 requires or recommends to be those of the broadcast
/// group are equal in both records.
[[nodiscard]] bool has_same_parameters(const wire::McMemberRecord& left,
                                       const wire::McMemberRecord& right);
/// Why a joined group cannot be used: its P_Key is not the link's; or, if it is not the broadcast
/// group, its Q_Key or MTU. Empty if it can be used.
[[nodiscard]] std::string_view mismatch(const GroupDependencies& deps,
                                        const wire::McMemberRecord& record, bool is_broadcast);
/// The membership that a record gives. The error says why the record is invalid, or which address
/// handle could not be created.
[[nodiscard]] Result<Membership> accept(const GroupDependencies& deps, const Gid& mgid,
                                        const wire::McMemberRecord& record);

/// Whether a join failed because the group does not exist. The SA then misses the components to
/// create it (IBA 15.2.5.17.3); for a send-only join some SAs return another status.
[[nodiscard]] bool means_no_group(const wire::SaFailure& failure);

}  // namespace ipoib::link
