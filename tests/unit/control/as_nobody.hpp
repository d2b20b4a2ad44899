// Runs code as another user than root.
#pragma once

#include <unistd.h>

namespace ipoib::control {

/// Makes the calling process user 65534 during its lifetime; only root can.
class AsNobody {
 public:
  AsNobody() : ok_(seteuid(65534) == 0) {}
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;
  ~AsNobody() {
    if (ok_) (void)!seteuid(0);
  }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  bool ok_;
};

}  // namespace ipoib::control

#define REQUIRE_ROOT() \
  if (geteuid() != 0) GTEST_SKIP() << "needs root"
