// What a queue pair of a connection service has in addition to its queues.
#pragma once

#include <optional>
#include <utility>

#include "softib/hca/connection_attributes.hpp"
#include "softib/hca/requester.hpp"
#include "softib/hca/responder.hpp"

namespace softib::hca {

struct Connection {
  using Service = ipoib::wire::ConnectedService;
  Connection(Service of, WorkQueue<SendRequest>& sends, std::uint32_t max_sends)
      : service(of), requester(sends, max_sends), responder(of) {}
  [[nodiscard]] bool is_reliable() const { return service != Service::unreliable; }

  Service service;
  ConnectionAttributes attributes;
  Requester requester;
  Responder responder;
  bool is_established = false;  ///< a packet of the peer has come
  bool is_draining = false;     ///< in SQD, requests that were started are not complete

  // For class Connections.
  bool needs_responses = false;                   ///< counted by Connections
  bool is_active = false;                         ///< in its list of those to serve
  ipoib::TimePoint scheduled_at = ipoib::kNever;  ///< when its timer will be served
  /// A process: a LID and the slot in its queue pair numbers.
  using Receiver = std::pair<std::uint16_t, std::uint32_t>;
  std::optional<Receiver> waits_for;  ///< this process had no room for its packets
};

}  // namespace softib::hca
