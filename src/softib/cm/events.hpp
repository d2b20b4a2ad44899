// The events of the communication manager for its user.
#pragma once

#include <cstdint>
#include <variant>

#include "softib/core/comm_id.hpp"
#include "wire/cm_messages.hpp"
#include "wire/path_record.hpp"

namespace softib::cm {

namespace wire = ipoib::wire;

/// Names a connection or a service resolution until its last event, or until it is destroyed. It is
/// the local communication ID, or the request ID of SIDR.
using Handle = CommId;
using ListenerId = ipoib::Strong<struct ListenerIdTag, std::uint32_t>;

// --- Connections. "Last" is an event after which the handle is no longer valid. ----------------

/// A peer wants to connect; the handle is new. accept() or reject() answers.
struct ConnectionRequested {
  ListenerId listener;
  wire::CmReq req;
  std::uint8_t port = 1;  ///< of the HCA, where it has arrived
};
/// The peer has accepted; confirm() or reject() answers.
struct Accepted {
  wire::CmRep rep;
};
/// The accepted peer has confirmed, or its data have arrived (communication_established()).
struct Established {
  wire::PrivateData<224> private_data{};
};
/// The last event. The peer does not want the connection, or has gone.
struct Rejected {
  wire::CmRej rej;
};
/// The last event. The peer has not answered the REQ or REP.
struct Unanswered {};
/// An established connection has ended.
struct Disconnected {
  bool awaits_answer = false;  ///< the peer has sent DREQ: disconnect() sends DREP
  bool is_unanswered = false;  ///< no DREP has come
  wire::PrivateData<224> private_data{};
};
/// The last event. The queue pair may be used again.
struct TimeWaitOver {};

// --- Service resolution (SIDR) ------------------------------------------------------------------

/// A peer asks for the queue pair of a service; the handle is new. answer() answers.
struct ServiceRequested {
  ListenerId listener;
  wire::CmSidrReq req;
  wire::PathRecord path;  ///< to the peer; without GIDs if its MAD had no GRH
  std::uint8_t port = 1;  ///< of the HCA, where it has arrived
};
/// The last event. The peer has answered, perhaps with a refusal.
struct ServiceResolved {
  wire::CmSidrRep rep;
};

struct Event {
  Handle handle;
  /// Unanswered is an event of resolutions, too.
  std::variant<ConnectionRequested, Accepted, Established, Rejected, Unanswered, Disconnected,
               TimeWaitOver, ServiceRequested, ServiceResolved>
      what;
};

}  // namespace softib::cm
