#include "link/membership.hpp"

#include "ipoib/log.hpp"
#include "wire/sa_status.hpp"

namespace ipoib::link {

using wire::McMemberRecord;

QuestionId ask_to_join(const MembershipEnvironment& env, const Gid& mgid, std::uint8_t join_state,
                       const McMemberRecord* creation) {
  JoinGroup question{.id = env.ids.next(), .record = {}, .components = 0};
  McMemberRecord& record = question.record;
  if (creation != nullptr) record = *creation;
  record.mgid = mgid;
  record.port_gid = env.port.gid;
  record.mlid = Lid{};
  record.pkey = env.config.pkey.as_full();
  record.join_state = join_state;
  record.scope = env.config.scope;
  record.proxy_join = false;
  question.components = McMemberRecord::kMgid | McMemberRecord::kPortGid | McMemberRecord::kPKey |
                        McMemberRecord::kJoinState;
  if (creation != nullptr) {
    record.mtu_selector = wire::Selector::exactly;
    record.rate_selector = wire::Selector::exactly;
    question.components |=
        McMemberRecord::kQKey | McMemberRecord::kMtuSelector | McMemberRecord::kMtu |
        McMemberRecord::kTrafficClass | McMemberRecord::kRateSelector | McMemberRecord::kRate |
        McMemberRecord::kSl | McMemberRecord::kFlowLabel | McMemberRecord::kHopLimit;
  }
  env.out.counters.add(Counter::join_questions);
  const QuestionId id = question.id;
  env.out.events.emplace_back(question);
  return id;
}

QuestionId look_up(const MembershipEnvironment& env, const Gid& mgid) {
  LookUpMembership question{.id = env.ids.next(), .record = {}, .components = 0};
  question.record.mgid = mgid;
  question.record.port_gid = env.port.gid;
  question.record.pkey = env.config.pkey.as_full();
  question.record.scope = env.config.scope;
  question.components = McMemberRecord::kMgid | McMemberRecord::kPortGid;
  const QuestionId id = question.id;
  env.out.events.emplace_back(question);
  return id;
}

void ask_to_leave(const MembershipEnvironment& env, const Gid& mgid, std::uint8_t join_state) {
  LeaveGroup leave{};
  leave.record.mgid = mgid;
  leave.record.port_gid = env.port.gid;
  leave.record.join_state = join_state;
  leave.components = McMemberRecord::kMgid | McMemberRecord::kPortGid | McMemberRecord::kJoinState;
  env.out.events.emplace_back(leave);
}

std::optional<Membership> accept(const MembershipEnvironment& env, const Gid& mgid,
                                 const McMemberRecord& record) {
  if (record.mgid != mgid || wire::mtu_octets(record.mtu) == 0) {
    env.log.warn("group {}: the subnet administrator's record makes no sense", mgid.to_string());
    return std::nullopt;
  }
  const AddressVector vector{.dlid = record.mlid,
                             .sl = record.sl,
                             .rate = record.rate,
                             .source_path_bits = 0,
                             .global = GlobalRoute{.dgid = mgid,
                                                   .sgid_index = env.port.index,
                                                   .flow_label = record.flow_label,
                                                   .hop_limit = record.hop_limit,
                                                   .traffic_class = record.traffic_class}};
  auto handle = env.handles.create_address_handle(vector);
  if (!handle) {
    env.out.counters.add(Counter::address_handle_refusals);
    env.log.warn("group {}: no address handle: {}", mgid.to_string(), handle.error().message);
    return std::nullopt;
  }
  return Membership{record, std::move(*handle)};
}

bool means_no_group(const Refusal& refusal) {
  return refusal.status == wire::SaStatus::insufficient_components ||
         refusal.status == wire::SaStatus::no_records;
}

}  // namespace ipoib::link
