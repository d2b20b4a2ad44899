#include "sa/request.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ipoib/overloaded.hpp"
#include "ipoib/pkey_table.hpp"
#include "wire/class_port_info.hpp"

namespace ipoib::sa {

namespace {

using wire::McMemberRecord;
using wire::PathRecord;

constexpr std::uint8_t kSaClassVersion = 2;
constexpr std::uint8_t kMostHops = 255;

/// The response to Get(PathRecord) echoes what was asked (IBA 15.2.5.16).
bool answers(const PathQuery& query, const PathRecord& path) {
  const auto asked = [&](PathRecord::Mask component) {
    return (query.components & component) != 0;
  };
  if (asked(PathRecord::kDgid) && path.dgid != query.record.dgid) return false;
  if (asked(PathRecord::kSgid) && path.sgid != query.record.sgid) return false;
  if (asked(PathRecord::kPKey) && !path.pkey.same_partition(query.record.pkey)) return false;
  return is_unicast(path.dlid) && wire::mtu_octets(path.mtu) != 0;
}

bool answers(const JoinQuery& query, const McMemberRecord& member) {
  const bool asked_pkey = (query.components & McMemberRecord::kPKey) != 0;
  if (asked_pkey && !member.pkey.same_partition(query.record.pkey)) return false;
  return member.mgid == query.record.mgid && is_multicast(member.mlid) &&
         wire::mtu_octets(member.mtu) != 0;
}

/// The record is the group's; of the port it may say nothing to who is not trusted.
bool answers(const LookupQuery& query, const McMemberRecord& member) {
  return member.mgid == query.record.mgid;
}

bool answers(const LeaveQuery& query, const McMemberRecord& member) {
  return member.mgid == query.record.mgid;
}

bool answers(const SubscribeQuery& query, const wire::InformInfo& info) {
  return info.trap_number == query.record.trap_number && info.subscribe == query.record.subscribe;
}

/// Whom a request is not trusted by it tells of the group alone, without a port.
bool answers(const MembersQuery& query, const McMemberRecord& member) {
  return member.mgid == query.record.mgid && member.port_gid != Gid();
}

std::uint64_t sm_key(const Query& query) {
  return std::holds_alternative<MembersQuery>(query) ? MembersQuery::kSmKey : 0;
}

template <class AnyQuery>
std::optional<Records> read(const AnyQuery& query, const wire::SaHeader& /*header*/,
                            ConstBytes data) {
  const auto record = decltype(query.record)::parse(data);
  if (!record || !answers(query, *record)) return std::nullopt;
  return *record;
}

/// A table: records at multiples of AttributeOffset (IBA 15.2.1.1), and nothing but zeros after the
/// last, since a layer that does not know RMPP hands over one MAD, whole.
std::optional<Records> read(const MembersQuery& query, const wire::SaHeader& header,
                            ConstBytes data) {
  const std::size_t stride = std::size_t{8} * header.attribute_offset;
  Members members;
  while (std::ranges::any_of(data, [](std::uint8_t octet) { return octet != 0; })) {
    const auto member = McMemberRecord::parse(data);
    if (stride < McMemberRecord::kSize || !member || !answers(query, *member)) return std::nullopt;
    members.push_back(*member);
    data = data.subspan(std::min(stride, data.size()));
  }
  return members;
}

}  // namespace

Exchange exchange_of(const Query& query) {
  using namespace wire;
  return std::visit(
      Overloaded{
          [](const PathQuery&) {
            return Exchange{method::kGet, method::kGetResp, attribute::kPathRecord};
          },
          [](const JoinQuery&) {
            return Exchange{method::kSet, method::kGetResp, attribute::kMcMemberRecord};
          },
          [](const LookupQuery&) {
            return Exchange{method::kGet, method::kGetResp, attribute::kMcMemberRecord};
          },
          [](const LeaveQuery&) {
            return Exchange{method::kDelete, method::kDeleteResp, attribute::kMcMemberRecord};
          },
          [](const SubscribeQuery&) {
            return Exchange{method::kSet, method::kGetResp, attribute::kInformInfo};
          },
          [](const MembersQuery&) {
            return Exchange{method::kGetTable, method::kGetTableResp, attribute::kMcMemberRecord};
          }},
      query);
}

RequestMad request_mad(const Query& query, std::uint32_t tid) {
  const Exchange exchange = exchange_of(query);
  wire::SaHeader header;
  header.mad.management_class = wire::mgmt_class::kSubnAdm;
  header.mad.class_version = kSaClassVersion;
  header.mad.method = exchange.method;
  header.mad.transaction_id = tid;
  header.mad.attribute_id = exchange.attribute;
  header.rmpp.response_time = 0;  // a single MAD: all of RMPP is reserved
  header.sm_key = sm_key(query);

  RequestMad mad{};
  std::visit(
      [&](const auto& any) {
        header.component_mask = any.components;
        any.record.emit(MutableBytes(mad).subspan(wire::kSaHeaderSize));
      },
      query);
  header.emit(mad);
  return mad;
}

std::optional<Records> records_of(const Query& query, ConstBytes mad) {
  const auto header = wire::SaHeader::parse(mad);
  if (!header) return std::nullopt;
  const ConstBytes data = mad.subspan(wire::kSaHeaderSize);
  return std::visit([&](const auto& any) { return read(any, *header, data); }, query);
}

/// IBA 13.4.8.1. Where the LID is zero, the GID's path would have to be asked for, of the one who
/// does not answer questions: that is not followed. A P_Key of zero is none, so the one of before
/// goes on.
std::optional<MadDestination> redirection(const MadDestination& asked, const MadSource& source,
                                          ConstBytes mad) {
  if (mad.size() < wire::kSaHeaderSize) return std::nullopt;
  const auto info = wire::ClassPortInfo::parse(mad.subspan(wire::kSaHeaderSize));
  if (!info) return std::nullopt;
  const auto& to = info->redirect;
  const auto entry = find_partition(source.pkeys, to.pkey);
  if (!is_unicast(to.lid) || to.qpn == Qpn(0) || (to.pkey.is_valid() && !entry)) {
    return std::nullopt;
  }
  const auto pkey_index = to.pkey.is_valid() ? entry->index : asked.pkey_index;
  MadDestination place{to.lid, to.sl, pkey_index, to.qpn, to.qkey, {}};
  if (!to.gid.is_zero() && to.gid.prefix() != source.gid_prefix) {
    place.global = GlobalRoute{.dgid = to.gid,
                               .sgid_index = 0,
                               .flow_label = to.flow_label,
                               .hop_limit = kMostHops,
                               .traffic_class = to.traffic_class};
  }
  return place;
}

std::optional<wire::SaHeader> report_header(ConstBytes mad) {
  const auto header = wire::SaHeader::parse(mad);
  const bool is_report = header && header->mad.method == wire::method::kReport &&
                         header->mad.attribute_id == wire::attribute::kNotice;
  return is_report ? header : std::nullopt;
}

RequestMad report_response(const wire::SaHeader& header, ConstBytes mad) {
  RequestMad response{};
  std::copy_n(mad.begin(), std::min(mad.size(), response.size()), response.begin());
  auto answer = header;
  answer.mad.method = wire::method::kReportResp;
  answer.mad.status = 0;
  answer.emit(response);
  return response;
}

std::string describe(const Query& query) {
  return std::visit(Overloaded{
                        [](const PathQuery& path) {
                          return fmt::format("path to {}", path.record.dgid.to_string());
                        },
                        [](const JoinQuery& join) {
                          return fmt::format("join of {}", join.record.mgid.to_string());
                        },
                        [](const LookupQuery& lookup) {
                          return fmt::format("membership of {}", lookup.record.mgid.to_string());
                        },
                        [](const LeaveQuery& leave) {
                          return fmt::format("leave of {}", leave.record.mgid.to_string());
                        },
                        [](const SubscribeQuery& subscription) {
                          return fmt::format(
                              "{} trap {}",
                              subscription.record.subscribe ? "subscription to" : "end of",
                              subscription.record.trap_number);
                        },
                        [](const MembersQuery& members) {
                          return fmt::format("members of {}", members.record.mgid.to_string());
                        },
                    },
                    query);
}

}  // namespace ipoib::sa
