// Who looks after the packets of each completion queue, as the senders are told: whoever polls it;
// its completion channel, once it is armed, if that is one that a program does not block in; the
// engine, in all other cases.
//
// A channel's descriptor is then written to for each packet that may complete here, before it is
// known whether it does. Who reads it (ibv_get_cq_event) takes the packets in, and finds an event
// or none; with O_NONBLOCK that is an answer, and a program must be ready for it.
#pragma once

#include <vector>

#include "softib/endpoint/endpoint.hpp"
#include "softib/transport/wakeup_table.hpp"

namespace softib::verbs {

struct Channel;
struct Completions;

/// Guarded by the lock of the model.
class Attendance {
 public:
  explicit Attendance(endpoint::Endpoint& endpoint) : endpoint_(endpoint) {}

  void add(Completions& cq) { all_.push_back(&cq); }
  void remove(Completions& cq) { std::erase(all_, &cq); }
  // Queue pairs come and go.
  void add(Qpn qp, const Completions& receives);
  void remove(Qpn qp);

  /// The queue has been found empty by somebody who will come again, unless it is armed.
  void on_polled(Completions& cq);
  /// The queue has just been armed. Packets that came before are there for who polls once more.
  void on_armed(Completions& cq);
  /// The channel was rung, and what came has been taken: those that are armed still are to be rung
  /// for again. Packets that came before this returned ring nobody.
  void on_rung(const Channel& channel);
  /// Who was to ring any of them may have died over it: as if all had been rung.
  void on_doubt();

 private:
  void appoint(Completions& cq, std::uint32_t attendant);
  void appoint_for_multicast();

  endpoint::Endpoint& endpoint_;
  std::vector<Completions*> all_;
};

}  // namespace softib::verbs
