// Seam: a MadPort with what its owner's event loop needs. Implemented by UmadPort, and in memory by
// tests.
#pragma once

#include "ipoib/mad_port.hpp"

namespace ipoib::verbs {

class WatchedMadPort : public MadPort {
 public:
  /// Tries to receive the SA's reports, which succeeds unless another program on the port does.
  /// Returns whether this port receives them.
  virtual bool claim_reports() = 0;
  /// The descriptor is readable when receive() would return a MAD.
  [[nodiscard]] virtual int fd() const = 0;
  /// Whether the device is gone: receive() then returns nothing, and the descriptor stays readable,
  /// so the event loop must stop watching it.
  [[nodiscard]] virtual bool failed() const = 0;
};

}  // namespace ipoib::verbs
