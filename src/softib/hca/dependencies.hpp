// The parts of an HCA that its queue pairs use.
#pragma once

namespace softib {
class HcaPorts;
}

namespace softib::hca {

class Completions;
class EventList;
class MemoryTable;
class SharedReceives;
struct HcaCounters;

/// References to these parts, which the HCA owns; it outlives its queue pairs.
struct Dependencies {
  const HcaPorts& ports;
  MemoryTable& memory;
  Completions& completions;
  EventList& events;
  SharedReceives& shared_receives;
  HcaCounters& counters;
};

}  // namespace softib::hca
