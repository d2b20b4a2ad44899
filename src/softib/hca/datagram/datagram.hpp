// The transport service of a queue pair of type UD (IBA 9.8.3).
#pragma once

#include "softib/core/fabric_types.hpp"
#include "softib/hca/datagram/sender.hpp"

namespace softib::hca {

struct Datagram {
  Datagram(QueuePair& qp, const Dependencies& hca) : sender(qp, hca) {}

  /// Goes back to the initial state.
  void reset() {
    qkey = {};
    sender.reset();
  }

  QKey qkey;
  DatagramSender sender;
};

}  // namespace softib::hca
