#include "softib/rdma_cm/path_queries.hpp"

#include <algorithm>

#include "softib/rdma_cm/limits.hpp"

namespace softib::rdma_cm {

using ipoib::TimePoint;
using wire::PathRecord;
using wire::SaHeader;
using wire::SaStatus;

namespace {
constexpr std::uint8_t kSaClassVersion = 2;

MadPacket to_sa(const PortAttributes& port) {
  MadPacket packet;
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
}  // namespace

void PathQueries::begin(IdHandle id, const wire::PathQuery& query, const PortAttributes& port,
                        ipoib::Duration timeout, TimePoint now) {
  SaHeader header;
  header.mad.management_class = wire::mgmt_class::kSubnAdm;
  header.mad.class_version = kSaClassVersion;
  header.mad.method = wire::method::kGet;
  header.mad.attribute_id = wire::attribute::kPathRecord;
  header.mad.transaction_id = std::uint64_t{self_.high_half()} << 32 | ++last_transaction_;
  header.component_mask = query.components;
  Pending pending{last_transaction_, to_sa(port), now + kPathQueryInterval, now + timeout};
  header.emit(pending.packet.mad);
  query.record.emit(ipoib::MutableBytes(pending.packet.mad).subspan(wire::kSaHeaderSize));
  outgoing_.push_back(pending.packet);
  pending_.insert_or_assign(id, pending);
}

void PathQueries::cancel(IdHandle id) {
  pending_.erase(id);
  std::erase_if(results_, [&](const Result& result) { return result.id == id; });
}

bool PathQueries::is_recipient(const wire::MadHeader& header) const {
  return header.is_response() && MadRoute::of(header.transaction_id) == self_;
}

void PathQueries::receive(const MadPacket& packet, const PortAttributes& port) {
  const auto header = SaHeader::parse(packet.mad);
  if (!header || header->mad.method != wire::method::kGetResp ||
      header->mad.attribute_id != wire::attribute::kPathRecord ||
      ipoib::base_lid(packet.slid, port.lmc) != ipoib::base_lid(port.sm_lid, port.lmc)) {
    return;
  }
  const auto transaction = static_cast<std::uint32_t>(header->mad.transaction_id);
  const auto found = std::ranges::find_if(
      pending_, [&](const auto& one) { return one.second.transaction == transaction; });
  if (found == pending_.end()) return;
  const auto status = static_cast<SaStatus>(header->mad.status);
  if (has(status, SaStatus::busy)) return;  // asked again later
  const auto record = PathRecord::parse(ipoib::ConstBytes(packet.mad).subspan(wire::kSaHeaderSize));
  if (status == SaStatus::ok && record) {
    results_.push_back({found->first, *record});
  } else {
    results_.push_back({found->first, status});
  }
  pending_.erase(found);
}

void PathQueries::on_time(TimePoint now) {
  for (auto at = pending_.begin(); at != pending_.end();) {
    auto& [id, pending] = *at;
    if (pending.end <= now) {
      results_.push_back({id, std::errc::timed_out});
      at = pending_.erase(at);
      continue;
    }
    if (pending.resend_at <= now) {
      pending.resend_at = now + kPathQueryInterval;
      outgoing_.push_back(pending.packet);
    }
    ++at;
  }
}

TimePoint PathQueries::next_deadline() const {
  TimePoint first = ipoib::kNever;
  for (const auto& [id, pending] : pending_) {
    first = std::min({first, pending.end, pending.resend_at});
  }
  return first;
}

}  // namespace softib::rdma_cm
