#include "wire/sa_request.hpp"

#include <array>
#include <cstdio>

#include "wire/mad.hpp"

namespace ipoib::wire {

PathQuery path_query(const Gid& sgid, const Gid& dgid, PKey pkey) {
  PathQuery query;
  query.record.sgid = sgid;
  query.record.dgid = dgid;
  query.record.pkey = pkey;
  query.record.reversible = true;
  query.record.numb_path = 1;
  query.components = PathRecord::kDgid | PathRecord::kSgid | PathRecord::kPKey |
                     PathRecord::kReversible | PathRecord::kNumbPath;
  return query;
}

JoinQuery join_query(const Gid& mgid, const Gid& port, PKey pkey, std::uint8_t join_state) {
  JoinQuery query;
  query.record.mgid = mgid;
  query.record.port_gid = port;
  query.record.pkey = pkey;
  query.record.join_state = join_state;
  query.components = McMemberRecord::kMgid | McMemberRecord::kPortGid | McMemberRecord::kPKey |
                     McMemberRecord::kJoinState;
  return query;
}

JoinQuery create_query(const McMemberRecord& group) {
  JoinQuery query;
  query.record = group;
  query.record.mtu_selector = Selector::exactly;
  query.record.rate_selector = Selector::exactly;
  query.components = McMemberRecord::kMgid | McMemberRecord::kPortGid | McMemberRecord::kPKey |
                     McMemberRecord::kJoinState | McMemberRecord::kQKey |
                     McMemberRecord::kTrafficClass | McMemberRecord::kFlowLabel |
                     McMemberRecord::kSl | McMemberRecord::kHopLimit |
                     McMemberRecord::kMtuSelector | McMemberRecord::kMtu |
                     McMemberRecord::kRateSelector | McMemberRecord::kRate;
  return query;
}

bool means_no_group(SaStatus status, std::uint8_t join_state) {
  const bool may_create = (join_state & McMemberRecord::kFullMember) != 0;
  return status == SaStatus::insufficient_components || status == SaStatus::no_records ||
         (status == SaStatus::request_invalid && !may_create);
}

LookupQuery lookup_query(const Gid& mgid, const Gid& port) {
  LookupQuery query;
  query.record.mgid = mgid;
  query.record.port_gid = port;
  query.components = McMemberRecord::kMgid | McMemberRecord::kPortGid;
  return query;
}

LeaveQuery leave_query(const Gid& mgid, const Gid& port, std::uint8_t join_state) {
  LeaveQuery query;
  query.record.mgid = mgid;
  query.record.port_gid = port;
  query.record.join_state = join_state;
  query.components = McMemberRecord::kMgid | McMemberRecord::kPortGid | McMemberRecord::kJoinState;
  return query;
}

SubscribeQuery subscribe_query(std::uint16_t trap) {
  // Fields of the record (IBA 15.2.5.12): LIDRangeBegin, IsGeneric, Subscribe, Type, TrapNumber,
  // ProducerType. LIDRangeBegin 0xffff means all LIDs.
  constexpr std::uint64_t kComponents = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 12;
  SubscribeQuery query;
  query.record.type = Notice::kSubnetManagement;
  query.record.trap_number = trap;
  query.record.producer_type = Notice::kClassManager;
  query.components = kComponents;
  return query;
}

SubscribeQuery unsubscribe_query(std::uint16_t trap) {
  auto query = subscribe_query(trap);
  query.record.subscribe = false;
  query.record.qpn = kGsiQpn;
  return query;
}

MembersQuery members_query(const Gid& mgid) {
  MembersQuery query;
  query.record.mgid = mgid;
  query.components = McMemberRecord::kMgid;
  return query;
}

GroupsQuery groups_query(PKey pkey) {
  GroupsQuery query;
  query.record.pkey = pkey.as_full();
  query.components = McMemberRecord::kPKey;
  return query;
}

NodesQuery nodes_query(std::optional<Lid> port) {
  NodesQuery query;
  query.record.lid = port.value_or(Lid());
  if (port) query.components = NodeRecord::kLid;
  return query;
}

PortsQuery ports_query(Lid port) {
  PortsQuery query;
  query.record.lid = port;
  query.components = PortInfoRecord::kLid;
  return query;
}

ServicesQuery services_query(std::optional<std::uint64_t> service_id) {
  ServicesQuery query;
  query.record.service_id = service_id.value_or(0);
  if (service_id) query.components = ServiceRecord::kServiceId;
  return query;
}

std::string SaFailure::text() const {
  switch (kind) {
    case Kind::status: {
      const auto code = status.value_or(SaStatus::ok);
      const auto cause = likely_cause(code);
      // fmt is not used: libsoftib.so contains this library, and must not need fmt.
      std::array<char, 7> hex{};
      std::snprintf(hex.data(), hex.size(), "0x%04x", unsigned{static_cast<std::uint16_t>(code)});
      return "the subnet administrator responded '" + std::string(name(code)) + "' (" + hex.data() +
             (cause.empty() ? ")" : "): ") + std::string(cause);
    }
    case Kind::timeout:
      return "no response from the subnet administrator: is a subnet manager running?";
    case Kind::no_sm:
      return "the port knows no subnet manager: start one on this subnet, such as opensm";
    case Kind::overloaded:
      return "too many requests to the subnet administrator are waiting";
    case Kind::send_failed:
      return "the port did not accept the request: " + detail;
    case Kind::malformed_response:
      return "the subnet administrator's response does not contain the requested record";
    case Kind::local:
      return detail;
  }
  return "";
}

SaFailure failure_of(const SaResult& result) {
  const auto* const failure = std::get_if<SaFailure>(&result);
  return failure != nullptr ? *failure : SaFailure(SaFailure::Kind::malformed_response);
}

}  // namespace ipoib::wire
