// The parts of an HCA that its queue pairs use.
#pragma once

namespace softib {
struct PortAttributes;
}

namespace softib::hca {

class Completions;
class EventList;
class MemoryTable;
class SharedReceives;
struct HcaCounters;

/// References to these parts, which the HCA owns; it outlives its queue pairs.
struct Dependencies {
  const PortAttributes& port;
  MemoryTable& memory;
  Completions& completions;
  EventList& events;
  SharedReceives& shared_receives;
  HcaCounters& counters;
};

}  // namespace softib::hca
