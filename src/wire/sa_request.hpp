// Requests to the subnet administrator (SA) and their responses as values (IBA 15.4; RFC 4391, 5
// and 9.1.2).
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "ipoib/address.hpp"
#include "ipoib/strong.hpp"
#include "wire/notice.hpp"
#include "wire/sa_failure.hpp"
#include "wire/sa_records.hpp"

namespace ipoib::wire {

template <class Record>
struct QueryFor {
  Record record;
  std::uint64_t components = 0;  ///< OR of Record::Mask: which fields of `record` count

  [[nodiscard]] bool has(std::uint64_t all) const { return (components & all) == all; }
  friend bool operator==(const QueryFor&, const QueryFor&) = default;
};
/// GetTable: the response is a table of records.
template <class Record>
struct TableQueryFor : QueryFor<Record> {};
/// Get(PathRecord).
struct PathQuery : QueryFor<PathRecord> {};
/// Set(MCMemberRecord): join a group, or create and join it.
struct JoinQuery : QueryFor<McMemberRecord> {};
/// Get(MCMemberRecord): whether a port is in a group; if it is not, the status is `no_records`.
struct LookupQuery : QueryFor<McMemberRecord> {};
/// Delete(MCMemberRecord): clear the JoinState bits of the record.
struct LeaveQuery : QueryFor<McMemberRecord> {};
/// Set(InformInfo): subscribe to reports, or unsubscribe.
struct SubscribeQuery : QueryFor<InformInfo> {};
/// GetTable(MCMemberRecord): a group's members, which need a trusted request (IBA 15.4.1).
struct MembersQuery : TableQueryFor<McMemberRecord> {
  static constexpr std::uint64_t kSmKey = 1;  ///< OpenSM's default SM_Key
};
/// GetTable: the groups of a partition, one record each.
struct GroupsQuery : TableQueryFor<McMemberRecord> {};
/// GetTable: those nodes, ports or services of the subnet that share a partition with this port.
struct NodesQuery : TableQueryFor<NodeRecord> {};
struct PortsQuery : TableQueryFor<PortInfoRecord> {};
struct ServicesQuery : TableQueryFor<ServiceRecord> {};
using SaQuery = std::variant<PathQuery, JoinQuery, LookupQuery, LeaveQuery, SubscribeQuery,
                             MembersQuery, GroupsQuery, NodesQuery, PortsQuery, ServicesQuery>;

/// Asks for one reversible path between two ports within a partition.
[[nodiscard]] PathQuery path_query(const Gid& sgid, const Gid& dgid, PKey pkey);
/// Joins an existing group.
[[nodiscard]] JoinQuery join_query(const Gid& mgid, const Gid& port, PKey pkey,
                                   std::uint8_t join_state);
/// Joins a group. Creates it with the Q_Key, MTU, rate, SL, flow label, traffic class and hop limit
/// of `group` if it does not exist (RFC 4391, 10; IBA 15.2.5.17.3).
[[nodiscard]] JoinQuery create_query(const McMemberRecord& group);
/// Whether the SA refuses a join with these JoinState bits because the group does not exist. Some
/// SAs report that as an invalid request to one that cannot create the group, as OpenSM to
/// send-only ones.
[[nodiscard]] bool means_no_group(SaStatus status, std::uint8_t join_state);
[[nodiscard]] LookupQuery lookup_query(const Gid& mgid, const Gid& port);
[[nodiscard]] LeaveQuery leave_query(const Gid& mgid, const Gid& port, std::uint8_t join_state);
/// Subscribes to a generic subnet management trap from any port of the subnet.
[[nodiscard]] SubscribeQuery subscribe_query(std::uint16_t trap);
[[nodiscard]] SubscribeQuery unsubscribe_query(std::uint16_t trap);
[[nodiscard]] MembersQuery members_query(const Gid& mgid);
[[nodiscard]] GroupsQuery groups_query(PKey pkey);
/// Asks for the nodes of all ports, or for that of the port with this LID.
[[nodiscard]] NodesQuery nodes_query(std::optional<Lid> port = {});
/// Asks for the port with this LID, or for all ports if it is that of a switch.
[[nodiscard]] PortsQuery ports_query(Lid port);
[[nodiscard]] ServicesQuery services_query(std::optional<std::uint64_t> service_id = {});

/// An id that the requester chooses. A response carries the id of its request.
using SaRequestId = Strong<struct SaRequestIdTag, std::uint64_t>;

struct SaRequest {
  SaRequestId id;
  SaQuery query;
  friend bool operator==(const SaRequest&, const SaRequest&) = default;
};

using McMemberTable = std::vector<McMemberRecord>;
/// The result of a request: the group's record for a join, a lookup or a leave; the accepted
/// InformInfo for a subscription; a table, which may be empty, for the others.
using SaResult = std::variant<PathRecord, McMemberRecord, InformInfo, McMemberTable, NodeTable,
                              PortTable, ServiceTable, SaFailure>;

/// The failure in a result that is not the expected record.
[[nodiscard]] SaFailure failure_of(const SaResult& result);

/// Each request gets exactly one response.
struct SaResponse {
  SaRequestId id;
  SaResult result;
};

}  // namespace ipoib::wire
