#include "link/membership.hpp"

#include <utility>

#include "ipoib/log.hpp"

namespace ipoib::link {

using wire::McMemberRecord;

namespace {

wire::SaRequestId request(const GroupDependencies& deps, wire::SaQuery query) {
  const wire::SaRequestId id = deps.ids.next();
  deps.out.events.emplace_back(wire::SaRequest{id, std::move(query)});
  return id;
}

}  // namespace

wire::SaRequestId request_join(const GroupDependencies& deps, const Gid& mgid,
                               std::uint8_t join_state, const McMemberRecord* creation) {
  auto join = wire::join_query(mgid, deps.port.gid, deps.config.pkey.as_full(), join_state);
  join.record.scope = deps.config.scope;
  if (creation != nullptr) {
    McMemberRecord group = *creation;
    group.mgid = mgid;
    group.port_gid = deps.port.gid;
    group.mlid = Lid{};
    group.pkey = join.record.pkey;
    group.join_state = join_state;
    group.scope = deps.config.scope;
    group.proxy_join = false;
    join = wire::create_query(group);
  }
  deps.out.counters.add(Counter::join_questions);
  return request(deps, std::move(join));
}

wire::SaRequestId request_lookup(const GroupDependencies& deps, const Gid& mgid) {
  auto lookup = wire::lookup_query(mgid, deps.port.gid);
  lookup.record.pkey = deps.config.pkey.as_full();
  lookup.record.scope = deps.config.scope;
  return request(deps, std::move(lookup));
}

void request_leave(const GroupDependencies& deps, const Gid& mgid, std::uint8_t join_state) {
  (void)request(deps, wire::leave_query(mgid, deps.port.gid, join_state));
}

std::optional<Membership> accept(const GroupDependencies& deps, const Gid& mgid,
                                 const McMemberRecord& record) {
  if (record.mgid != mgid || wire::mtu_bytes(record.mtu) == 0) {
    deps.log.warn("group {}: the subnet administrator's record is invalid", mgid.to_string());
    return std::nullopt;
  }
  const AddressVector vector{.dlid = record.mlid,
                             .sl = record.sl,
                             .rate = record.rate,
                             .source_path_bits = 0,
                             .global = GlobalRoute{.dgid = mgid,
                                                   .sgid_index = deps.port.index,
                                                   .flow_label = record.flow_label,
                                                   .hop_limit = record.hop_limit,
                                                   .traffic_class = record.traffic_class}};
  auto handle = deps.handles.create_address_handle(vector);
  if (!handle) {
    deps.out.counters.add(Counter::address_handle_refusals);
    deps.log.warn("group {}: no address handle: {}", mgid.to_string(), handle.error().message);
    return std::nullopt;
  }
  return Membership{record, std::move(*handle)};
}

bool means_no_group(const wire::SaFailure& failure) {
  return failure.status == wire::SaStatus::insufficient_components ||
         failure.status == wire::SaStatus::no_records;
}

}  // namespace ipoib::link
