// Subscriptions to notices (InformInfo) and their reports (IBA 13.4.9, 13.4.11).
//
// A report is a request to the subscriber, retransmitted up to kMaxRetries times until the response
// arrives. A subscription belongs to a queue pair of a node. It ends when the subscriber cancels
// it, the node is removed or the SM restarts.
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
  /// Subscriptions of all ports together; each port has a fair share (ipoib/fair_share.hpp).
  static constexpr std::size_t kMaxSubscriptions = 4096;
  static constexpr std::size_t kMaxOutstanding = 4096;
  static constexpr ipoib::Duration kTimeout = std::chrono::milliseconds(500);
  static constexpr unsigned kMaxRetries = 3;

  /// Handles SubnAdmSet(InformInfo).
  [[nodiscard]] SaResponse subscribe(const SaRequest& request, const MadPacket& packet);
  /// Sends one report to each subscriber of the notice, unless its port has its share of
  /// kMaxOutstanding.
  void report(const ipoib::wire::Notice& notice, const SubnetManager& manager, ipoib::TimePoint now,
              std::vector<MadPacket>& out);
  /// Handles SubnAdmReportResp. Returns false if no such report is outstanding.
  bool acknowledge(NodeIndex from, std::uint64_t transaction_id);
  [[nodiscard]] ipoib::TimePoint next_deadline() const;
  void on_time(ipoib::TimePoint now, std::vector<MadPacket>& out);
  /// The number of reports that were not sent.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
  [[nodiscard]] bool has_subscribers() const { return !subscriptions_.empty(); }
  /// Removes the subscriptions and reports of a node.
  void remove(NodeIndex node);
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
  std::uint64_t dropped_ = 0;
};

}  // namespace softib::subnet
