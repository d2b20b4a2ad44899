// Neighbours that clients of the control socket wait for.
//
// Runs on the interface's thread. Whatever resolves a neighbour ends a sleep of the loop, so each
// turn looks at the link once for each of them.
#pragma once

#include <functional>
#include <vector>

#include "control/protocol.hpp"
#include "link/link.hpp"

namespace ipoib::daemon {

class Resolutions {
 public:
  static constexpr std::size_t kMax = 256;
  using Callback = std::function<void(control::Response)>;
  struct Answer {
    control::Response response;
    Callback done;
  };
  /// What all resolutions of an interface have in common.
  struct Source {
    Gid gid;
    Lid lid;
    PKey pkey;
  };

  /// Fails with EBUSY if there are kMax; `done` is unused then.
  [[nodiscard]] Result<void> add(const control::ResolveRequest& request, Callback& done,
                                 TimePoint now);
  /// Goes on with all of them. Returns those that have ended.
  [[nodiscard]] std::vector<Answer> turn(link::Link& link, const Source& source, TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const;

 private:
  struct Pending {
    IpAddress address;
    TimePoint deadline;
    Callback done;
  };
  std::vector<Pending> pending_;
};

}  // namespace ipoib::daemon
