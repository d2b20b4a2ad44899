// Output of a link: lists that its objects append to and its owner drains.
#pragma once

#include <vector>

#include "ipoib/frame.hpp"
#include "ipoib/ud_port.hpp"
#include "link/changes.hpp"
#include "link/counters.hpp"
#include "link/events.hpp"

namespace ipoib::link {

struct Output {
  std::vector<Outgoing> sends;
  std::vector<Frame> to_host;
  std::vector<Event> events;
  Counters counters;
  Changes changes;
};

/// Numbers the SA requests of one link.
class RequestIds {
 public:
  explicit RequestIds(wire::SaRequestId first = wire::SaRequestId(1)) : next_(first.value()) {}
  [[nodiscard]] wire::SaRequestId next() { return wire::SaRequestId(next_++); }

 private:
  wire::SaRequestId::Representation next_;
};

}  // namespace ipoib::link
