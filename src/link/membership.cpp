#include "link/membership.hpp"

#include <utility>

#include "ipoib/log.hpp"

namespace ipoib::link {

using wire::McMemberRecord;

namespace {

wire::SaRequestId request(const GroupDependencies& env, wire::SaQuery query) {
  const wire::SaRequestId id = env.ids.next();
  env.out.events.emplace_back(wire::SaRequest{id, std::move(query)});
  return id;
}

}  // namespace

wire::SaRequestId request_join(const GroupDependencies& env, const Gid& mgid,
                               std::uint8_t join_state, const McMemberRecord* creation) {
  auto join = wire::join_query(mgid, env.port.gid, env.config.pkey.as_full(), join_state);
  join.record.scope = env.config.scope;
  if (creation != nullptr) {
    McMemberRecord group = *creation;
    group.mgid = mgid;
    group.port_gid = env.port.gid;
    group.mlid = Lid{};
    group.pkey = join.record.pkey;
    group.join_state = join_state;
    group.scope = env.config.scope;
    group.proxy_join = false;
    join = wire::create_query(group);
  }
  env.out.counters.add(Counter::join_questions);
  return request(env, std::move(join));
}

wire::SaRequestId request_lookup(const GroupDependencies& env, const Gid& mgid) {
  auto lookup = wire::lookup_query(mgid, env.port.gid);
  lookup.record.pkey = env.config.pkey.as_full();
  lookup.record.scope = env.config.scope;
  return request(env, std::move(lookup));
}

void request_leave(const GroupDependencies& env, const Gid& mgid, std::uint8_t join_state) {
  (void)request(env, wire::leave_query(mgid, env.port.gid, join_state));
}

std::optional<Membership> accept(const GroupDependencies& env, const Gid& mgid,
                                 const McMemberRecord& record) {
  if (record.mgid != mgid || wire::mtu_octets(record.mtu) == 0) {
    env.log.warn("group {}: the subnet administrator's record is invalid", mgid.to_string());
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

bool means_no_group(const wire::SaFailure& failure) {
  return failure.status == wire::SaStatus::insufficient_components ||
         failure.status == wire::SaStatus::no_records;
}

}  // namespace ipoib::link
