#include "link/membership.hpp"

#include <cerrno>
#include <tuple>
#include <utility>

#include "wire/mgid.hpp"

namespace ipoib::link {

using wire::McMemberRecord;

namespace {

wire::SaRequestId request(const GroupDependencies& deps, const wire::SaQuery& query) {
  const wire::SaRequestId id = deps.ids.next();
  deps.out.events.emplace_back(wire::SaRequest{id, query});
  return id;
}

}  // namespace

wire::SaRequestId request_join(const GroupDependencies& deps, const Gid& mgid,
                               std::uint8_t join_state, const McMemberRecord* creation) {
  auto join = wire::join_query(mgid, deps.port.gid, deps.config.pkey.as_full(), join_state);
  join.record.scope = wire::scope_of(mgid);
  if (creation != nullptr) {
    McMemberRecord group = *creation;
    group.mgid = mgid;
    group.port_gid = deps.port.gid;
    group.mlid = Lid{};
    group.pkey = join.record.pkey;
    group.join_state = join_state;
    group.scope = wire::scope_of(mgid);
    group.proxy_join = false;
    join = wire::create_query(group);
  }
  deps.out.counters.add(Counter::join_requests);
  return request(deps, join);
}

wire::SaRequestId request_lookup(const GroupDependencies& deps, const Gid& mgid) {
  auto lookup = wire::lookup_query(mgid, deps.port.gid);
  lookup.record.pkey = deps.config.pkey.as_full();
  lookup.record.scope = wire::scope_of(mgid);
  return request(deps, lookup);
}

void request_leave(const GroupDependencies& deps, const Gid& mgid, std::uint8_t join_state) {
  (void)request(deps, wire::leave_query(mgid, deps.port.gid, join_state));
}

bool has_same_parameters(const McMemberRecord& left, const McMemberRecord& right) {
  const auto parameters = [](const McMemberRecord& record) {
    return std::tuple(record.qkey, record.mtu, record.rate, record.sl, record.flow_label,
                      record.hop_limit, record.traffic_class);
  };
  return parameters(left) == parameters(right);
}

std::string_view mismatch(const GroupDependencies& deps, const McMemberRecord& record,
                          bool is_broadcast) {
  if (!record.pkey.same_partition(deps.config.pkey)) return "its P_Key is not that of the link";
  if (is_broadcast || !deps.parameters) return {};
  if (record.qkey != deps.parameters->qkey) return "its Q_Key is not that of the broadcast group";
  if (record.mtu != deps.parameters->mtu) return "its MTU is not that of the broadcast group";
  return {};
}

Result<Membership> accept(const GroupDependencies& deps, const Gid& mgid,
                          const McMemberRecord& record) {
  if (record.mgid != mgid || wire::mtu_bytes(record.mtu) == 0) {
    return Error(
        EPROTO,
        "the SA's record is of another group, or has an unknown MTU: restart or update the "
        "subnet manager");
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
    return handle.error();
  }
  return Membership{record, std::move(*handle)};
}

bool means_no_group(const wire::SaFailure& failure) {
  return failure.status && wire::means_no_group(*failure.status, McMemberRecord::kFullMember);
}

}  // namespace ipoib::link
