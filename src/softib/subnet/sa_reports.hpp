// Subscriptions to notices (InformInfo), and the reports that follow from them
// (IBA 13.4.9, 13.4.11).
//
// A report is a request to the subscriber; it is repeated until it is answered, a few times. A
// subscription belongs to a node and a queue pair; it ends with the node, by its own request, or
// when the SM restarts.
#pragma once

#include <cstdint>
#include <vector>

#include "ipoib/time.hpp"
#include "softib/subnet/sa_request.hpp"
#include "softib/subnet/subnet_manager.hpp"
#include "wire/notice.hpp"

namespace softib::subnet {

class SaReports {
 public:
  static constexpr std::size_t kMaxSubscriptions = 4096;
  static constexpr std::size_t kMaxOutstanding = 4096;
  static constexpr ipoib::Duration kTimeout = std::chrono::milliseconds(500);
  static constexpr unsigned kMaxRetries = 3;

  /// SubnAdmSet(InformInfo).
  [[nodiscard]] SaResponse subscribe(const SaRequest& request, const MadPacket& packet);
  /// One report to each node that has subscribed to such a notice.
  void report(const ipoib::wire::Notice& notice, const SubnetManager& manager, ipoib::TimePoint now,
              std::vector<MadPacket>& out);
  /// SubnAdmReportResp. False when there was no such report.
  bool acknowledge(NodeIndex from, std::uint64_t transaction_id);
  [[nodiscard]] ipoib::TimePoint next_deadline() const;
  void on_time(ipoib::TimePoint now, std::vector<MadPacket>& out);
  [[nodiscard]] bool has_subscribers() const { return !subscriptions_.empty(); }
  void forget(NodeIndex node);
  void clear();

 private:
  struct Subscription {
    NodeIndex node = 0;
    Qpn qpn;
    ipoib::wire::InformInfo info;
  };
  struct Outstanding {
    NodeIndex node = 0;
    std::uint64_t transaction_id = 0;
    unsigned retries = 0;
    ipoib::TimePoint deadline;
    MadPacket packet;
  };
  std::vector<Subscription> subscriptions_;
  std::vector<Outstanding> outstanding_;
  std::uint64_t last_transaction_ = 0;
};

}  // namespace softib::subnet
