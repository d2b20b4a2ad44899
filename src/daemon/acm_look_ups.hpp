// Finds paths for the clients of acm::Server, in the neighbour caches of the interfaces.
//
// As ibacm, it looks for the interface that has the source address, which the client names or the
// kernel chooses. Clients are taken to be in the network namespace of --netns, since a socket does
// not tell; interfaces that were moved elsewhere are left out.
#pragma once

#include <chrono>

#include "daemon/acm/server.hpp"
#include "daemon/interfaces/interfaces.hpp"
#include "linux/network_namespace.hpp"

namespace ipoib::daemon {

class AcmLookUps {
 public:
  /// How long a neighbour may take: a client waits that long for each that does not respond, and
  /// its whole process with it.
  static constexpr std::chrono::milliseconds kPatience{2000};

  /// Both outlive it, and the responses that it waits for.
  AcmLookUps(Interfaces& interfaces, const linux::NetworkNamespace& home)
      : interfaces_(interfaces), home_(home) {}

  void find(const wire::acm::Wanted& wanted, acm::Server::Done done) const;

 private:
  Interfaces& interfaces_;
  const linux::NetworkNamespace& home_;
};

/// The answer to a client for a response to control::ResolveRequest. `source` is for a client that
/// has named none.
[[nodiscard]] acm::Server::Answer acm_answer(const control::Response& response,
                                             const std::optional<IpAddress>& source);

}  // namespace ipoib::daemon
