// Seam: a MadPort with what its owner's event loop needs. Implemented by UmadPort, and in memory by
// tests.
#pragma once

#include "ipoib/mad_port.hpp"

namespace ipoib::verbs {

class WatchedMadPort : public MadPort {
 public:
  /// Whether this port receives the SA's reports; otherwise another program does.
  [[nodiscard]] virtual bool takes_reports() const = 0;
  /// Readable when receive() would return a MAD.
  [[nodiscard]] virtual int fd() const = 0;
  /// The device is gone: receive() returns nothing any more, and the descriptor stays readable. The
  /// event loop must stop watching it.
  [[nodiscard]] virtual bool failed() const = 0;
};

}  // namespace ipoib::verbs
