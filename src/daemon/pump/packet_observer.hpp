// Sees the datagrams of a queue pair, for captures.
#pragma once

#include <span>

#include "ipoib/address.hpp"
#include "ipoib/ud_port.hpp"
#include "link/link.hpp"

namespace ipoib::daemon {

/// What the headers of all packets of a queue pair are made from.
struct QueuePairView {
  const link::Link& link;
  Lid lid;    ///< of the port
  PKey pkey;  ///< as in the port's table
};

class PacketObserver {
 public:
  virtual ~PacketObserver() = default;
  /// These are about to be posted; sent() follows.
  virtual void sending(std::span<const Outgoing> batch, const QueuePairView& from) = 0;
  /// So many of the front of the batch were posted.
  virtual void sent(std::size_t count) = 0;
  virtual void received(std::span<const Incoming> batch, const QueuePairView& by) = 0;
};

}  // namespace ipoib::daemon
