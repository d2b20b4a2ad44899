#include "sa/request.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ipoib/overloaded.hpp"

namespace ipoib::sa {

namespace {

using wire::McMemberRecord;
using wire::PathRecord;

constexpr std::uint8_t kSaClassVersion = 2;

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

bool answers(const LeaveQuery& query, const McMemberRecord& member) {
  return member.mgid == query.record.mgid;
}

bool answers(const SubscribeQuery& query, const wire::InformInfo& info) {
  return info.trap_number == query.record.trap_number && info.subscribe == query.record.subscribe;
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
          [](const LeaveQuery&) {
            return Exchange{method::kDelete, method::kDeleteResp, attribute::kMcMemberRecord};
          },
          [](const SubscribeQuery&) {
            return Exchange{method::kSet, method::kGetResp, attribute::kInformInfo};
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

std::optional<Record> record_of(const Query& query, ConstBytes mad) {
  if (mad.size() < wire::kSaHeaderSize) return std::nullopt;
  const ConstBytes data = mad.subspan(wire::kSaHeaderSize);
  return std::visit(
      [&](const auto& any) -> std::optional<Record> {
        const auto record = decltype(any.record)::parse(data);
        if (!record || !answers(any, *record)) return std::nullopt;
        return *record;
      },
      query);
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
                        [](const LeaveQuery& leave) {
                          return fmt::format("leave of {}", leave.record.mgid.to_string());
                        },
                        [](const SubscribeQuery& subscription) {
                          return fmt::format(
                              "{} trap {}",
                              subscription.record.subscribe ? "subscription to" : "end of",
                              subscription.record.trap_number);
                        },
                    },
                    query);
}

}  // namespace ipoib::sa
