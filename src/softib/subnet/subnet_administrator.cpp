#include "softib/subnet/subnet_administrator.hpp"

#include <algorithm>
#include <optional>

#include "softib/subnet/sa_members.hpp"
#include "softib/subnet/sa_node_records.hpp"
#include "softib/subnet/sa_paths.hpp"

namespace softib::subnet {

namespace {

using ipoib::wire::RmppHeader;
using ipoib::wire::RmppType;
using ipoib::wire::SaHeader;
using ipoib::wire::SaStatus;
namespace attribute = ipoib::wire::attribute;
namespace method = ipoib::wire::method;

constexpr std::uint8_t kSaClassVersion = 2;

bool is_known_method(std::uint8_t code) {
  return code == method::kGet || code == method::kSet || code == method::kGetTable ||
         code == method::kDelete;
}

/// SubnAdmGetResp for SubnAdmSet; otherwise the method of the request with the R bit.
std::uint8_t response_method(std::uint8_t request) {
  return request == method::kSet ? method::kGetResp
                                 : static_cast<std::uint8_t>(request | method::kResponse);
}

/// The addresses of the response to `request`, with an empty MAD.
MadPacket response_to(const MadPacket& request, PKey pkey) {
  MadPacket response = request;
  response.reverse();
  response.pkey = pkey;
  response.mad = {};
  return response;
}

}  // namespace

void SubnetAdministrator::receive(const MadPacket& packet, NodeIndex requester,
                                  ipoib::TimePoint now, std::vector<MadPacket>& out) {
  const auto common = ipoib::wire::MadHeader::parse(packet.mad);
  const auto header = SaHeader::parse(packet.mad);
  if (!common || (!header && common->class_version == kSaClassVersion)) {
    ++counters_.drop_malformed;
    return;
  }
  if (!header) {
    SaHeader other;
    other.mad = *common;
    if (common->is_response()) {
      ++counters_.drop_response;
    } else {
      respond(packet, requester, other, SaStatus::unsupported_version, now, out);
    }
    return;
  }
  const bool is_control = header->rmpp.is_active() && header->rmpp.type != RmppType::data;
  if (is_control) {
    const bool known = transfers_.receive(packet, *header, now, out);
    ++(known ? counters_.rmpp_control : counters_.drop_response);
    copy_counters();
    return;
  }
  if (header->mad.is_response()) {
    const bool known = header->mad.method == method::kReportResp &&
                       reports_.acknowledge(requester, header->mad.transaction_id);
    ++(known ? counters_.report_acknowledged : counters_.drop_response);
    return;
  }
  // "SM_Key is 0 or matches, otherwise the MAD is discarded" (IBA 15.2.1.1, C15-0.1.5).
  if (header->sm_key != 0 && header->sm_key != kSmKey) {
    ++counters_.drop_sm_key;
    return;
  }
  const SaRequest request{*header, ConstBytes(packet.mad).subspan(ipoib::wire::kSaHeaderSize),
                          requester, *manager_.node(requester)};
  respond(packet, requester, *header, handle(request, packet, now), now, out);
}

SaResponse SubnetAdministrator::handle(const SaRequest& request, const MadPacket& packet,
                                       ipoib::TimePoint now) {
  const std::uint8_t code = request.header.mad.method;
  if (!is_known_method(code)) return SaStatus::unsupported_method;
  const bool is_query = code == method::kGet || code == method::kGetTable;
  switch (request.header.mad.attribute_id) {
    case attribute::kPathRecord:
      if (is_query) return query_paths(request, manager_, groups_);
      break;
    case attribute::kMcMemberRecord:
      if (code == method::kSet) return join_group(request, manager_, groups_);
      if (code == method::kDelete) return leave_group(request, manager_, groups_);
      return query_members(request, manager_, groups_);
    case attribute::kNodeRecord:
      if (is_query) return query_nodes(request, manager_);
      break;
    case attribute::kPortInfoRecord:
      if (is_query) return query_ports(request, manager_);
      break;
    case attribute::kServiceRecord:
      return handle_service(request, now);
    case attribute::kClassPortInfo:
      if (code == method::kGet) return query_class_port_info();
      break;
    case attribute::kInformInfo:
      if (code == method::kSet) return reports_.subscribe(request, packet);
      break;
    default:
      break;
  }
  return SaStatus::unsupported_method_attribute;
}

SaResponse SubnetAdministrator::handle_service(const SaRequest& request, ipoib::TimePoint now) {
  services_.on_time(now);
  const std::uint8_t code = request.header.mad.method;
  if (code == method::kSet) return services_.set(request, manager_, now);
  if (code == method::kDelete) return services_.remove(request, manager_);
  return services_.query(request);
}

void SubnetAdministrator::respond(const MadPacket& packet, NodeIndex requester, SaHeader header,
                                  const SaResponse& response, ipoib::TimePoint now,
                                  std::vector<MadPacket>& out) {
  SaStatus status = response.status;
  const std::size_t count = response.records.size();
  const bool is_table = header.mad.method == method::kGetTable;
  if (status == SaStatus::ok && response.records.is_full()) {
    status = SaStatus::no_resources;
    ++counters_.over_limit;
  }
  if (status == SaStatus::ok && !is_table && count == 0) status = SaStatus::no_records;
  if (status == SaStatus::ok && !is_table && count > 1) status = SaStatus::too_many_records;

  const Node& sm = *manager_.node(kSubnetNode);
  MadPacket reply = response_to(packet, find_pkey(sm.port, packet.pkey));
  header.mad.method = response_method(header.mad.method);
  header.mad.status = static_cast<std::uint16_t>(status);
  header.sm_key = 0;
  header.attribute_offset = count != 0 ? response.records.attribute_offset() : std::uint16_t{0};
  header.rmpp = RmppHeader{};
  ++counters_.answered;
  if (status == SaStatus::ok && is_table) {
    if (transfers_.start(requester, reply, header, response.records.bytes(), now, out)) return;
    ++counters_.over_limit;
    status = SaStatus::no_resources;
    header.mad.status = static_cast<std::uint16_t>(status);
  }
  // An error response returns the data of the request.
  ConstBytes data = ConstBytes(packet.mad).subspan(ipoib::wire::kSaHeaderSize);
  if (status == SaStatus::ok) data = response.records.bytes();
  if (status != SaStatus::ok) {
    ++counters_.refused;
    header.attribute_offset = 0;
  }
  header.emit(reply.mad);
  std::copy(data.begin(), data.end(), reply.mad.begin() + ipoib::wire::kSaHeaderSize);
  out.push_back(reply);
}

void SubnetAdministrator::report(const ipoib::wire::Notice& notice, ipoib::TimePoint now,
                                 std::vector<MadPacket>& out) {
  reports_.report(notice, manager_, now, out);
  copy_counters();
}

ipoib::TimePoint SubnetAdministrator::next_deadline() const {
  return std::min(
      {transfers_.next_deadline(), reports_.next_deadline(), services_.next_deadline()});
}

void SubnetAdministrator::on_time(ipoib::TimePoint now, std::vector<MadPacket>& out) {
  transfers_.on_time(now, out);
  reports_.on_time(now, out);
  services_.on_time(now);
  copy_counters();
}

void SubnetAdministrator::restart() {
  transfers_.clear();
  reports_.clear();
  services_.clear();
}

void SubnetAdministrator::copy_counters() {
  counters_.rmpp_resent = transfers_.resent();
  counters_.rmpp_given_up = transfers_.given_up();
  counters_.drop_report = reports_.dropped();
}

}  // namespace softib::subnet
