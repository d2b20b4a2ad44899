// Questions to the subnet administrator and their answers (IBA 15.4; RFC 4391, 5 and 9.1.2).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ipoib/address.hpp"
#include "ipoib/strong.hpp"
#include "wire/notice.hpp"
#include "wire/sa_records.hpp"
#include "wire/sa_status.hpp"

namespace ipoib::sa {

/// The caller's name for a question; the client never looks into it.
using QueryId = Strong<struct QueryIdTag, std::uint64_t>;

/// Get(PathRecord).
struct PathQuery {
  wire::PathRecord record;
  std::uint64_t components = 0;  ///< OR of PathRecord::Mask: which fields of `record` count
};
/// Set(MCMemberRecord): join a group, or create and join it, by the components given.
struct JoinQuery {
  wire::McMemberRecord record;
  std::uint64_t components = 0;  ///< OR of McMemberRecord::Mask
};
/// Get(MCMemberRecord): whether a port is in a group; no records: it is not.
struct LookupQuery {
  wire::McMemberRecord record;
  std::uint64_t components = 0;  ///< OR of McMemberRecord::Mask
};
/// Delete(MCMemberRecord): give up the JoinState bits of the record.
struct LeaveQuery {
  wire::McMemberRecord record;
  std::uint64_t components = 0;  ///< OR of McMemberRecord::Mask
};
/// Set(InformInfo): subscribe to reports, or end that.
struct SubscribeQuery {
  wire::InformInfo record;
  std::uint64_t components = 0;
};
/// SubnAdmGetTable(MCMemberRecord): who is in a group. Only a trusted request is told (IBA 15.4.1).
struct MembersQuery {
  static constexpr std::uint64_t kSmKey = 1;  ///< the one that OpenSM trusts unless told another

  wire::McMemberRecord record;
  std::uint64_t components = 0;  ///< OR of McMemberRecord::Mask
};
using Query =
    std::variant<PathQuery, JoinQuery, LookupQuery, LeaveQuery, SubscribeQuery, MembersQuery>;

/// One reversible path between two ports within a partition.
[[nodiscard]] PathQuery path_query(const Gid& sgid, const Gid& dgid, PKey pkey);
/// Joins a group that exists: MGID, PortGID, P_Key and JoinState, and nothing to create it with.
[[nodiscard]] JoinQuery join_query(const Gid& mgid, const Gid& port, PKey pkey,
                                   std::uint8_t join_state);
/// Joins a group, and creates it with the Q_Key, MTU, rate, SL, flow label, traffic class and hop
/// limit of `group` where it does not exist (RFC 4391, 10; IBA 15.2.5.17.3).
[[nodiscard]] JoinQuery create_query(const wire::McMemberRecord& group);
/// The inverse of a join.
[[nodiscard]] LeaveQuery leave_query(const Gid& mgid, const Gid& port, std::uint8_t join_state);

/// Reports of a generic trap of subnet management, wherever it comes from.
[[nodiscard]] SubscribeQuery subscribe_query(std::uint16_t trap);
[[nodiscard]] SubscribeQuery unsubscribe_query(std::uint16_t trap);

[[nodiscard]] MembersQuery members_query(const Gid& mgid);

enum class FailureKind : std::uint8_t {
  status,            ///< the administrator refused, see `status`
  timeout,           ///< no answer to any of the attempts
  no_sm,             ///< the port knows no subnet manager to ask
  overloaded,        ///< too many questions wait already
  send_failed,       ///< the port did not take the request
  malformed_answer,  ///< an answer that is no record, or the record of something else
  refused_here,      ///< there is no administrator, and this host cannot do it
};

/// Why a question has no record for an answer.
struct SaFailure {
  FailureKind kind = FailureKind::status;
  std::optional<wire::SaStatus> status;  ///< with kind `status` only
  std::string detail;                    ///< with `send_failed` and `refused_here`: why

  /// One line: what happened, by name and number, and the likely cause.
  [[nodiscard]] std::string text() const;
};

/// A record for each port in a group; nobody is in a group that does not exist.
using Members = std::vector<wire::McMemberRecord>;

/// Each question has exactly one answer. A join, a lookup and a leave are answered by the group's
/// record, a subscription by what was subscribed to.
struct Answer {
  QueryId id;
  std::variant<wire::PathRecord, wire::McMemberRecord, wire::InformInfo, Members, SaFailure> result;
};

}  // namespace ipoib::sa
