// The services that ports have announced (ServiceRecord, IBA 15.2.5.14, 15.4.1), like OpenSM.
#pragma once

#include <vector>

#include "ipoib/time.hpp"
#include "softib/subnet/sa_request.hpp"
#include "softib/subnet/subnet_manager.hpp"
#include "wire/service_record.hpp"

namespace softib::subnet {

/// Services of all ports together; each port has a fair share (ipoib/fair_share.hpp).
inline constexpr std::size_t kMaxServices = 1024;

class SaServices {
 public:
  /// Handles SubnAdmSet: announces a service, or replaces its record.
  [[nodiscard]] SaResponse set(const SaRequest& request, const SubnetManager& manager,
                               ipoib::TimePoint now);
  /// Handles SubnAdmDelete, by ServiceID, GID and P_Key.
  [[nodiscard]] SaResponse remove(const SaRequest& request, const SubnetManager& manager);
  /// Handles SubnAdmGet and SubnAdmGetTable. Hides services in partitions that the requester is not
  /// in.
  [[nodiscard]] SaResponse query(const SaRequest& request) const;
  /// When the next lease ends; kNever if none does.
  [[nodiscard]] ipoib::TimePoint next_deadline() const;
  /// Removes the services whose leases have ended.
  void on_time(ipoib::TimePoint now);
  void clear() { services_.clear(); }

 private:
  struct Service {
    ipoib::wire::ServiceRecord record;
    NodeIndex charged = 0;  ///< the port that has announced it
    ipoib::TimePoint expires = ipoib::kNever;
  };
  [[nodiscard]] std::vector<Service>::iterator find(const ipoib::wire::ServiceRecord& record);

  std::vector<Service> services_;
};

}  // namespace softib::subnet
