// The subnet administrator (IBA 15): requests of class SubnAdm in, answers out.
#pragma once

#include <vector>

#include "softib/subnet/counters.hpp"
#include "softib/subnet/multicast_groups.hpp"
#include "softib/subnet/sa_reports.hpp"
#include "softib/subnet/sa_request.hpp"
#include "softib/subnet/sa_transfers.hpp"
#include "softib/subnet/subnet_manager.hpp"

namespace softib::subnet {

class SubnetAdministrator {
 public:
  /// All three outlive it.
  SubnetAdministrator(const SubnetManager& manager, MulticastGroups& groups,
                      SubnetCounters& counters)
      : manager_(manager), groups_(groups), counters_(counters) {}

  /// A MAD of class SubnAdm that `requester`, a node, has sent to QP1 of the SM's port.
  void receive(const MadPacket& packet, NodeIndex requester, ipoib::TimePoint now,
               std::vector<MadPacket>& out);
  /// Tells those who subscribed to such notices.
  void report(const ipoib::wire::Notice& notice, ipoib::TimePoint now, std::vector<MadPacket>& out);
  [[nodiscard]] ipoib::TimePoint next_deadline() const;
  void on_time(ipoib::TimePoint now, std::vector<MadPacket>& out);
  /// Forgets subscriptions, and what is under way.
  void restart();
  [[nodiscard]] bool has_subscribers() const { return reports_.has_subscribers(); }
  void forget(NodeIndex node) { reports_.forget(node); }

 private:
  [[nodiscard]] SaResponse answer(const SaRequest& request, const MadPacket& packet);
  void respond(const MadPacket& packet, ipoib::wire::SaHeader header, const SaResponse& answer,
               ipoib::TimePoint now, std::vector<MadPacket>& out);
  void copy_counters();

  const SubnetManager& manager_;
  MulticastGroups& groups_;
  SubnetCounters& counters_;
  SaTransfers transfers_;
  SaReports reports_;
};

/// The packet that answers another one, with an empty MAD.
[[nodiscard]] MadPacket reply_to(const MadPacket& request, PKey pkey);

}  // namespace softib::subnet
