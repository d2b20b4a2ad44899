// What the queue pairs of an HCA use of it.
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

/// The HCA owns all of it, and outlives its queue pairs.
struct Dependencies {
  const PortAttributes& port;
  MemoryTable& memory;
  Completions& completions;
  EventList& events;
  SharedReceives& shared_receives;
  HcaCounters& counters;
};

}  // namespace softib::hca
