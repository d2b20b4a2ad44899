#include "sa/query.hpp"

#include <spdlog/fmt/fmt.h>

#include "wire/mad.hpp"

namespace ipoib::sa {

using wire::McMemberRecord;
using wire::PathRecord;

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
  query.record.mtu_selector = wire::Selector::exactly;
  query.record.rate_selector = wire::Selector::exactly;
  query.components = McMemberRecord::kMgid | McMemberRecord::kPortGid | McMemberRecord::kPKey |
                     McMemberRecord::kJoinState | McMemberRecord::kQKey |
                     McMemberRecord::kTrafficClass | McMemberRecord::kFlowLabel |
                     McMemberRecord::kSl | McMemberRecord::kHopLimit |
                     McMemberRecord::kMtuSelector | McMemberRecord::kMtu |
                     McMemberRecord::kRateSelector | McMemberRecord::kRate;
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
  // Of the record's fields (IBA 15.2.5.12): LIDRangeBegin, IsGeneric, Subscribe, Type, TrapNumber,
  // ProducerType. A range that begins with 0xffff is all of the subnet.
  constexpr std::uint64_t kComponents = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 12;
  SubscribeQuery query;
  query.record.type = wire::Notice::kSubnetManagement;
  query.record.trap_number = trap;
  query.record.producer_type = wire::Notice::kClassManager;
  query.components = kComponents;
  return query;
}

SubscribeQuery unsubscribe_query(std::uint16_t trap) {
  auto query = subscribe_query(trap);
  query.record.subscribe = false;
  query.record.qpn = wire::kGsiQpn;
  return query;
}

MembersQuery members_query(const Gid& mgid) {
  MembersQuery query;
  query.record.mgid = mgid;
  query.components = McMemberRecord::kMgid;
  return query;
}

std::string SaFailure::text() const {
  switch (kind) {
    case FailureKind::status: {
      const auto code = status.value_or(wire::SaStatus::ok);
      const auto cause = wire::likely_cause(code);
      return fmt::format("the subnet administrator answered '{}' (0x{:04x}){}{}", wire::name(code),
                         static_cast<unsigned>(code), cause.empty() ? "" : ": ", cause);
    }
    case FailureKind::timeout:
      return "no answer from the subnet administrator: is a subnet manager running?";
    case FailureKind::no_sm:
      return "the port knows no subnet manager: start one on this subnet, such as opensm";
    case FailureKind::overloaded:
      return "too many questions wait for the subnet administrator";
    case FailureKind::send_failed:
      return "the port did not take the request: " + detail;
    case FailureKind::malformed_answer:
      return "the subnet administrator's answer is not a record of what was asked for";
    case FailureKind::refused_here:
      return detail;
  }
  return "";
}

}  // namespace ipoib::sa
