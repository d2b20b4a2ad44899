#include "softib/subnet/sa_reports.hpp"

#include <algorithm>

#include "ipoib/fair_share.hpp"

namespace softib::subnet {

namespace {

using ipoib::wire::InformInfo;
using ipoib::wire::Notice;
using ipoib::wire::SaStatus;

bool same_events(const InformInfo& left, const InformInfo& right) {
  return left.is_generic == right.is_generic && left.type == right.type &&
         left.trap_number == right.trap_number && left.producer_type == right.producer_type &&
         left.gid == right.gid && left.lid_begin == right.lid_begin &&
         left.lid_end == right.lid_end;
}

MadPacket make_report(const Notice& notice, const Node& sm, const Node& to, Qpn qpn,
                      std::uint64_t transaction_id) {
  ipoib::wire::SaHeader header;
  header.mad.management_class = ipoib::wire::mgmt_class::kSubnAdm;
  header.mad.class_version = 2;
  header.mad.method = ipoib::wire::method::kReport;
  header.mad.transaction_id = transaction_id;
  header.mad.attribute_id = ipoib::wire::attribute::kNotice;
  header.attribute_offset = ipoib::wire::attribute_offset(Notice::kSize);

  MadPacket packet;
  packet.slid = sm.port.lid;
  packet.dlid = to.port.lid;
  packet.pkey = shared_pkey(sm, to);
  packet.source = ipoib::wire::kGsiQpn;
  packet.destination = qpn;
  packet.qkey = ipoib::wire::kGsiQKey;
  if (sm.port.grh_required || to.port.grh_required) {
    packet.grh.emplace();
    packet.grh->hop_limit = 1;
    packet.grh->sgid = sm.port.gid();
    packet.grh->dgid = to.port.gid();
  }
  header.emit(packet.mad);
  notice.emit(std::span(packet.mad).subspan(ipoib::wire::kSaHeaderSize));
  return packet;
}

}  // namespace

SaResponse SaReports::subscribe(const SaRequest& request, const MadPacket& packet) {
  const auto info = InformInfo::parse(request.record);
  if (!info || !info->is_generic) return SaStatus::request_invalid;
  // Reports go to the QP that subscribed; a cancellation contains the QPN (IBA 13.4.8.3).
  const Qpn qpn = info->subscribe ? packet.source : info->qpn;
  const auto known =
      std::find_if(subscriptions_.begin(), subscriptions_.end(), [&](const auto& other) {
        return other.node == request.requester && other.qpn == qpn &&
               same_events(other.info, *info);
      });
  if (info->subscribe && known == subscriptions_.end()) {
    const auto held = static_cast<std::size_t>(
        std::ranges::count(subscriptions_, request.requester, &Subscription::node));
    if (!ipoib::has_fair_share_left(held, kMaxSubscriptions - subscriptions_.size())) {
      return SaStatus::no_resources;
    }
    subscriptions_.push_back({request.requester, qpn, *info});
  } else if (!info->subscribe) {
    if (known == subscriptions_.end()) return SaStatus::request_invalid;
    subscriptions_.erase(known);
  }
  // "A copy of the data in the request" (IBA 13.4.11, o13-12.1.1).
  RecordTable copy(InformInfo::kSize);
  copy.add(request.record.first(InformInfo::kSize));
  return copy;
}

void SaReports::report(const Notice& notice, const SubnetManager& manager, ipoib::TimePoint now,
                       std::vector<MadPacket>& out) {
  const Node* sm = manager.node(kSubnetNode);
  std::vector<std::pair<NodeIndex, Qpn>> notified;
  std::vector<std::size_t> held(kMaxNodes);
  for (const auto& report : outstanding_) ++held[report.node];
  for (const auto& subscription : subscriptions_) {
    const Node* to = manager.node(subscription.node);
    const std::pair subscriber(subscription.node, subscription.qpn);
    const bool is_notified =
        std::find(notified.begin(), notified.end(), subscriber) != notified.end();
    if (to == nullptr || is_notified || !subscription.info.covers(notice)) continue;
    notified.push_back(subscriber);
    auto& held_by_port = held[subscription.node];
    if (!ipoib::has_fair_share_left(held_by_port, kMaxOutstanding - outstanding_.size())) {
      ++dropped_;
      continue;
    }
    ++held_by_port;
    const std::uint64_t id = ++last_transaction_;
    outstanding_.push_back({subscription.node, id, 0, now + kTimeout,
                            make_report(notice, *sm, *to, subscription.qpn, id)});
    out.push_back(outstanding_.back().packet);
  }
}

bool SaReports::acknowledge(NodeIndex from, std::uint64_t transaction_id) {
  return std::erase_if(outstanding_, [&](const auto& report) {
           return report.node == from && report.transaction_id == transaction_id;
         }) != 0;
}

ipoib::TimePoint SaReports::next_deadline() const {
  ipoib::TimePoint first = ipoib::kNever;
  for (const auto& report : outstanding_) first = std::min(first, report.deadline);
  return first;
}

void SaReports::on_time(ipoib::TimePoint now, std::vector<MadPacket>& out) {
  std::erase_if(outstanding_, [&](const auto& report) {
    return report.deadline <= now && report.retries == kMaxRetries;
  });
  for (auto& report : outstanding_) {
    if (report.deadline > now) continue;
    ++report.retries;
    report.deadline = now + kTimeout;
    out.push_back(report.packet);
  }
}

void SaReports::remove(NodeIndex node) {
  std::erase_if(subscriptions_, [&](const auto& entry) { return entry.node == node; });
  std::erase_if(outstanding_, [&](const auto& entry) { return entry.node == node; });
}

void SaReports::clear() {
  subscriptions_.clear();
  outstanding_.clear();
}

}  // namespace softib::subnet
