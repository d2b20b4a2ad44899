// The receivers of an endpoint's MADs, by management class.
#pragma once

#include <vector>

#include "softib/endpoint/receivers.hpp"

namespace softib::endpoint {

/// A receiver may add and remove receivers while it is called.
class MadReceivers {
 public:
  /// `receiver` must exist until remove(), and is not registered yet.
  void add(MadReceiver& receiver, ManagementClasses classes);
  void remove(MadReceiver& receiver);
  [[nodiscard]] bool has(const MadReceiver& receiver) const;
  /// Offers the packet to the receivers of its class, in the order of their registration, then to
  /// those of all classes. Returns false if nobody takes it.
  [[nodiscard]] bool deliver(const MadPacket& packet);
  /// Tells each receiver once that the device is lost.
  void report_loss();

 private:
  struct Registration {
    MadReceiver* receiver = nullptr;
    ManagementClasses classes;
    bool knows_loss = false;
  };
  [[nodiscard]] bool offer(const MadPacket& packet, bool to_all_classes);

  std::vector<Registration> registrations_;
};

}  // namespace softib::endpoint
