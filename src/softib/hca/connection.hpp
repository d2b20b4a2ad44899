// What a queue pair of the reliable connection service has in addition to its queues.
#pragma once

#include "softib/hca/connection_attributes.hpp"
#include "softib/hca/requester.hpp"
#include "softib/hca/responder.hpp"

namespace softib::hca {

struct Connection {
  Connection(WorkQueue<SendRequest>& sends, std::uint32_t max_sends)
      : requester(sends, max_sends) {}

  ConnectionAttributes attributes;
  Requester requester;
  Responder responder;
  bool is_established = false;  ///< a packet of the peer has come
  bool is_draining = false;     ///< in SQD, requests that were started are not complete

  // For class Connections.
  bool is_active = false;                         ///< in its list of those to serve
  ipoib::TimePoint scheduled_at = ipoib::kNever;  ///< when its timer will be served
};

}  // namespace softib::hca
