#include "sa/request.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <type_traits>

#include "ipoib/overloaded.hpp"
#include "ipoib/pkey_table.hpp"
#include "wire/class_port_info.hpp"

namespace ipoib::sa {

namespace {

using wire::McMemberRecord;
using wire::PathRecord;

constexpr std::uint8_t kSaClassVersion = 2;
constexpr std::uint8_t kMaxHopLimit = 255;

/// The response to Get(PathRecord) repeats the components of the request (IBA 15.2.5.16).
bool matches(const wire::PathQuery& query, const PathRecord& path) {
  const auto has = [&](PathRecord::Mask component) { return (query.components & component) != 0; };
  if (has(PathRecord::kDgid) && path.dgid != query.record.dgid) return false;
  if (has(PathRecord::kSgid) && path.sgid != query.record.sgid) return false;
  if (has(PathRecord::kPKey) && !path.pkey.same_partition(query.record.pkey)) return false;
  return is_unicast(path.dlid) && wire::mtu_bytes(path.mtu) != 0;
}

bool matches(const wire::JoinQuery& query, const McMemberRecord& member) {
  const bool has_pkey = (query.components & McMemberRecord::kPKey) != 0;
  if (has_pkey && !member.pkey.same_partition(query.record.pkey)) return false;
  return member.mgid == query.record.mgid && is_multicast(member.mlid) &&
         wire::mtu_bytes(member.mtu) != 0;
}

/// The record of an untrusted request may omit the port.
bool matches(const wire::LookupQuery& query, const McMemberRecord& member) {
  return member.mgid == query.record.mgid;
}

bool matches(const wire::LeaveQuery& query, const McMemberRecord& member) {
  return member.mgid == query.record.mgid;
}

bool matches(const wire::SubscribeQuery& query, const wire::InformInfo& info) {
  return info.trap_number == query.record.trap_number && info.subscribe == query.record.subscribe;
}

/// If the SA does not trust the request, it returns one record of the group without a port.
bool matches(const wire::MembersQuery& query, const McMemberRecord& member) {
  return member.mgid == query.record.mgid && member.port_gid != Gid();
}

/// Any LID of a port selects its records, which contain the first one.
bool matches(const wire::NodesQuery& /*query*/, const wire::NodeRecord& node) {
  return is_unicast(node.lid);
}

bool matches(const wire::PortsQuery& /*query*/, const wire::PortInfoRecord& port) {
  return is_unicast(port.lid);
}

bool matches(const wire::ServicesQuery& query, const wire::ServiceRecord& service) {
  return !query.has(wire::ServiceRecord::kServiceId) ||
         service.service_id == query.record.service_id;
}

bool matches(const wire::GroupsQuery& query, const McMemberRecord& group) {
  return group.mgid.is_multicast() && group.pkey.same_partition(query.record.pkey);
}

std::uint64_t sm_key(const wire::SaQuery& query) {
  return std::holds_alternative<wire::MembersQuery>(query) ? wire::MembersQuery::kSmKey : 0;
}

template <class AnyQuery>
std::optional<wire::SaResult> read(const AnyQuery& query, const wire::SaHeader& /*header*/,
                                   ConstBytes data) {
  const auto record = decltype(query.record)::parse(data);
  if (!record || !matches(query, *record)) return std::nullopt;
  return *record;
}

/// Records are at multiples of AttributeOffset (IBA 15.2.1.1). Zeros may follow the last one: a MAD
/// layer without RMPP delivers one whole MAD.
template <class AnyQuery>
  requires std::is_base_of_v<wire::TableQueryFor<decltype(AnyQuery::record)>, AnyQuery>
std::optional<wire::SaResult> read(const AnyQuery& query, const wire::SaHeader& header,
                                   ConstBytes data) {
  using Record = decltype(query.record);
  const std::size_t stride = std::size_t{8} * header.attribute_offset;
  std::vector<Record> table;
  while (std::ranges::any_of(data, [](std::uint8_t byte) { return byte != 0; })) {
    const auto record = Record::parse(data);
    if (stride < Record::kSize || !record || !matches(query, *record)) return std::nullopt;
    table.push_back(*record);
    data = data.subspan(std::min(stride, data.size()));
  }
  return table;
}

Exchange table_of(std::uint16_t attribute) {
  return {wire::method::kGetTable, wire::method::kGetTableResp, attribute};
}

}  // namespace

Exchange exchange_of(const wire::SaQuery& query) {
  using namespace wire;
  return std::visit(
      Overloaded{
          [](const wire::PathQuery&) {
            return Exchange{method::kGet, method::kGetResp, attribute::kPathRecord};
          },
          [](const wire::JoinQuery&) {
            return Exchange{method::kSet, method::kGetResp, attribute::kMcMemberRecord};
          },
          [](const wire::LookupQuery&) {
            return Exchange{method::kGet, method::kGetResp, attribute::kMcMemberRecord};
          },
          [](const wire::LeaveQuery&) {
            return Exchange{method::kDelete, method::kDeleteResp, attribute::kMcMemberRecord};
          },
          [](const wire::SubscribeQuery&) {
            return Exchange{method::kSet, method::kGetResp, attribute::kInformInfo};
          },
          [](const wire::MembersQuery&) { return table_of(attribute::kMcMemberRecord); },
          [](const wire::GroupsQuery&) { return table_of(attribute::kMcMemberRecord); },
          [](const wire::NodesQuery&) { return table_of(attribute::kNodeRecord); },
          [](const wire::PortsQuery&) { return table_of(attribute::kPortInfoRecord); },
          [](const wire::ServicesQuery&) { return table_of(attribute::kServiceRecord); }},
      query);
}

const RetryPolicy& policy_for(const Config& config, const wire::SaQuery& query) {
  if (exchange_of(query).method == wire::method::kGetTable) return config.tables;
  return std::holds_alternative<wire::PathQuery>(query) ? config.path : config.membership;
}

MadBytes request_mad(const wire::SaQuery& query, std::uint32_t tid) {
  const Exchange exchange = exchange_of(query);
  wire::SaHeader header;
  header.mad.management_class = wire::mgmt_class::kSubnAdm;
  header.mad.class_version = kSaClassVersion;
  header.mad.method = exchange.method;
  header.mad.transaction_id = tid;
  header.mad.attribute_id = exchange.attribute;
  header.rmpp.response_time = 0;  // without RMPP its header is reserved
  header.sm_key = sm_key(query);

  MadBytes mad{};
  std::visit(
      [&](const auto& any) {
        header.component_mask = any.components;
        any.record.emit(MutableBytes(mad).subspan(wire::kSaHeaderSize));
      },
      query);
  header.emit(mad);
  return mad;
}

std::optional<wire::SaResult> records_of(const wire::SaQuery& query, ConstBytes mad) {
  const auto header = wire::SaHeader::parse(mad);
  if (!header) return std::nullopt;
  const ConstBytes data = mad.subspan(wire::kSaHeaderSize);
  return std::visit([&](const auto& any) { return read(any, *header, data); }, query);
}

/// Reads ClassPortInfo (IBA 13.4.8.1). A redirection with LID 0 is not followed: it would need a
/// path from the SA that has just redirected. With P_Key 0 the P_Key of the request is used.
std::optional<MadDestination> redirection(const MadDestination& asked, bool grh_required,
                                          const MadSource& source, ConstBytes mad) {
  if (mad.size() < wire::kSaHeaderSize) return std::nullopt;
  const auto info = wire::ClassPortInfo::parse(mad.subspan(wire::kSaHeaderSize));
  if (!info) return std::nullopt;
  const auto& to = info->redirect;
  const auto entry = find_partition(source.pkeys, to.pkey);
  if (!is_unicast(to.lid) || to.qpn == Qpn(0) || (to.pkey.is_valid() && !entry)) {
    return std::nullopt;
  }
  const auto pkey_index = to.pkey.is_valid() ? entry->index : asked.pkey_index;
  MadDestination redirected{to.lid, to.sl, pkey_index, to.qpn, to.qkey, {}};
  if (to.gid.is_zero() && grh_required) return std::nullopt;
  const bool is_in_another_subnet = !to.gid.is_zero() && to.gid.prefix() != source.gid_prefix;
  if (is_in_another_subnet || grh_required) {
    redirected.global =
        GlobalRoute{.dgid = to.gid,
                    .sgid_index = 0,
                    .flow_label = to.flow_label,
                    .hop_limit = is_in_another_subnet ? kMaxHopLimit : kSubnetHopLimit,
                    .traffic_class = to.traffic_class};
  }
  return redirected;
}

bool is_from(const MadDestination& asked, const MadDestination& from) {
  const auto& route = asked.global;
  if (route && route->hop_limit > kSubnetHopLimit) {
    return from.global && from.global->dgid == route->dgid;
  }
  if (from.lid != asked.lid) return false;
  if (!route || !from.global || route->dgid.guid() == kSaGuid) return true;
  return from.global->dgid == route->dgid;
}

std::optional<wire::SaHeader> report_header(ConstBytes mad) {
  const auto header = wire::SaHeader::parse(mad);
  const bool is_report = header && header->mad.method == wire::method::kReport &&
                         header->mad.attribute_id == wire::attribute::kNotice;
  return is_report ? header : std::nullopt;
}

MadBytes report_response(const wire::SaHeader& header, ConstBytes mad) {
  MadBytes response{};
  std::copy_n(mad.begin(), std::min(mad.size(), response.size()), response.begin());
  auto response_header = header;
  response_header.mad.method = wire::method::kReportResp;
  response_header.mad.status = 0;
  response_header.emit(response);
  return response;
}

std::string describe(const wire::SaQuery& query) {
  return std::visit(
      Overloaded{
          [](const wire::PathQuery& path) {
            return fmt::format("path to {}", path.record.dgid.to_string());
          },
          [](const wire::JoinQuery& join) {
            return fmt::format("join of {}", join.record.mgid.to_string());
          },
          [](const wire::LookupQuery& lookup) {
            return fmt::format("membership of {}", lookup.record.mgid.to_string());
          },
          [](const wire::LeaveQuery& leave) {
            return fmt::format("leave of {}", leave.record.mgid.to_string());
          },
          [](const wire::SubscribeQuery& subscription) {
            return fmt::format(
                "{} trap {}",
                subscription.record.subscribe ? "subscription to" : "unsubscription from",
                subscription.record.trap_number);
          },
          [](const wire::MembersQuery& members) {
            return fmt::format("members of {}", members.record.mgid.to_string());
          },
          [](const wire::GroupsQuery& groups) {
            return fmt::format("groups of partition {:#06x}", groups.record.pkey.value());
          },
          [](const wire::NodesQuery&) { return std::string("list of nodes"); },
          [](const wire::PortsQuery& ports) {
            return fmt::format("ports at LID {}", ports.record.lid.value());
          },
          [](const wire::ServicesQuery&) { return std::string("list of services"); },
      },
      query);
}

}  // namespace ipoib::sa
