// The SA (IBA 15): requests of class SubnAdm in, responses out.
#pragma once

#include <vector>

#include "softib/subnet/counters.hpp"
#include "softib/subnet/multicast_groups.hpp"
#include "softib/subnet/sa_reports.hpp"
#include "softib/subnet/sa_request.hpp"
#include "softib/subnet/sa_services.hpp"
#include "softib/subnet/sa_transfers.hpp"
#include "softib/subnet/subnet_manager.hpp"

namespace softib::subnet {

class SubnetAdministrator {
 public:
  /// The references must outlive this object.
  SubnetAdministrator(const SubnetManager& manager, MulticastGroups& groups,
                      SubnetCounters& counters)
      : manager_(manager), groups_(groups), counters_(counters) {}

  /// Handles a MAD of class SubnAdm that the node `requester` sent to QP1 of the SM's port.
  void receive(const MadPacket& packet, NodeIndex requester, ipoib::TimePoint now,
               std::vector<MadPacket>& out);
  /// Reports the notice to its subscribers.
  void report(const ipoib::wire::Notice& notice, ipoib::TimePoint now, std::vector<MadPacket>& out);
  [[nodiscard]] ipoib::TimePoint next_deadline() const;
  void on_time(ipoib::TimePoint now, std::vector<MadPacket>& out);
  /// Discards all subscriptions, reports, services and transfers.
  void restart();
  [[nodiscard]] bool has_subscribers() const { return reports_.has_subscribers(); }
  void remove(NodeIndex node) { reports_.remove(node); }

 private:
  [[nodiscard]] SaResponse handle(const SaRequest& request, const MadPacket& packet,
                                  ipoib::TimePoint now);
  [[nodiscard]] SaResponse handle_service(const SaRequest& request, ipoib::TimePoint now);
  void respond(const MadPacket& packet, NodeIndex requester, ipoib::wire::SaHeader header,
               const SaResponse& response, ipoib::TimePoint now, std::vector<MadPacket>& out);
  void copy_counters();

  const SubnetManager& manager_;
  MulticastGroups& groups_;
  SubnetCounters& counters_;
  SaTransfers transfers_;
  SaReports reports_;
  SaServices services_;
};

}  // namespace softib::subnet
