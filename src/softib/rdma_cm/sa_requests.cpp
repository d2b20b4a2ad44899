#include "softib/rdma_cm/sa_requests.hpp"

#include <algorithm>

#include "ipoib/overloaded.hpp"
#include "softib/rdma_cm/limits.hpp"

namespace softib::rdma_cm {

using ipoib::Overloaded;
using ipoib::TimePoint;
using wire::McMemberRecord;
using wire::PathRecord;
using wire::SaHeader;
using wire::SaStatus;

namespace {
constexpr std::uint8_t kSaClassVersion = 2;

MadPacket to_sa(const PortAttributes& port) {
  MadPacket packet;
  packet.port = port.number;
  packet.slid = port.lid;
  packet.dlid = port.sm_lid;
  packet.sl = port.sm_sl;
  packet.source = packet.destination = wire::kGsiQpn;
  packet.qkey = wire::kGsiQKey;
  if (port.grh_required) {
    packet.grh.emplace();
    packet.grh->sgid = port.gid();
    packet.grh->dgid = Gid(port.gid_prefix, ipoib::kSaGuid);
  }
  return packet;
}

std::uint8_t method_of(const SaRequests::Query& query) {
  return std::visit(Overloaded{
                        [](const wire::PathQuery&) { return wire::method::kGet; },
                        [](const wire::JoinQuery&) { return wire::method::kSet; },
                        [](const wire::LeaveQuery&) { return wire::method::kDelete; },
                    },
                    query);
}
}  // namespace

void SaRequests::begin(const Owner& owner, const Query& query, const PortAttributes& port,
                       ipoib::Duration timeout, TimePoint now) {
  const bool is_path = std::holds_alternative<wire::PathQuery>(query);
  SaHeader header;
  header.mad.management_class = wire::mgmt_class::kSubnAdm;
  header.mad.class_version = kSaClassVersion;
  header.mad.method = method_of(query);
  header.mad.attribute_id =
      is_path ? wire::attribute::kPathRecord : wire::attribute::kMcMemberRecord;
  header.mad.transaction_id = std::uint64_t{self_.high_half()} << 32 | ++last_transaction_;
  Pending pending{owner, to_sa(port), now + kSaInterval, now + timeout};
  const auto record = ipoib::MutableBytes(pending.packet.mad).subspan(wire::kSaHeaderSize);
  std::visit(
      [&](const auto& what) {
        header.component_mask = what.components;
        what.record.emit(record);
      },
      query);
  header.emit(pending.packet.mad);
  outgoing_.push_back(pending.packet);
  pending_.emplace(last_transaction_, pending);
}

void SaRequests::cancel(const Owner& owner) {
  std::erase_if(pending_, [&](const auto& one) { return one.second.owner == owner; });
  std::erase_if(results_, [&](const Result& result) { return result.owner == owner; });
}

bool SaRequests::is_recipient(const wire::MadHeader& header) const {
  return header.is_response() && MadRoute::of(header.transaction_id) == self_;
}

void SaRequests::receive(const MadPacket& packet, const PortAttributes& port) {
  const auto header = SaHeader::parse(packet.mad);
  if (!header || ipoib::base_lid(packet.slid, port.lmc) != ipoib::base_lid(port.sm_lid, port.lmc)) {
    return;
  }
  const auto found = pending_.find(static_cast<std::uint32_t>(header->mad.transaction_id));
  if (found == pending_.end()) return;
  const auto asked = wire::MadHeader::parse(found->second.packet.mad);
  if (header->mad.attribute_id != asked->attribute_id) return;
  const auto status = static_cast<SaStatus>(header->mad.status);
  if (has(status, SaStatus::busy)) return;  // asked again later
  const auto record = ipoib::ConstBytes(packet.mad).subspan(wire::kSaHeaderSize);
  Result result{found->second.owner, status};
  if (status == SaStatus::ok && asked->attribute_id == wire::attribute::kPathRecord) {
    result.answer = *PathRecord::parse(record);
  } else if (status == SaStatus::ok) {
    result.answer = *McMemberRecord::parse(record);
  }
  results_.push_back(result);
  pending_.erase(found);
}

void SaRequests::on_time(TimePoint now) {
  for (auto at = pending_.begin(); at != pending_.end();) {
    Pending& pending = at->second;
    if (pending.end <= now) {
      results_.push_back({pending.owner, std::errc::timed_out});
      at = pending_.erase(at);
      continue;
    }
    if (pending.resend_at <= now) {
      pending.resend_at = now + kSaInterval;
      outgoing_.push_back(pending.packet);
    }
    ++at;
  }
}

TimePoint SaRequests::next_deadline() const {
  TimePoint first = ipoib::kNever;
  for (const auto& [transaction, pending] : pending_) {
    first = std::min({first, pending.end, pending.resend_at});
  }
  return first;
}

}  // namespace softib::rdma_cm
