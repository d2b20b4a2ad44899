// Service ID resolution (IBA 12.11): finds the UD queue pair of a service. See docs/states.md,
// "Service resolution".
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "ipoib/fair_share.hpp"
#include "ipoib/result.hpp"
#include "softib/cm/deadlines.hpp"
#include "softib/cm/limits.hpp"
#include "softib/cm/output.hpp"
#include "softib/cm/peer.hpp"

namespace softib::cm {

/// How often a message is sent, and how long its sender waits each time.
struct Retries {
  ipoib::Duration interval{};
  unsigned count = 0;  ///< times that it is sent again
};

class ServiceResolution {
 public:
  explicit ServiceResolution(Output& out) : out_(out) {}

  [[nodiscard]] bool has(Handle handle) const {
    return sent_.contains(handle) || received_.contains(handle);
  }
  /// The number of our own requests, and of those of peers, also answered ones.
  [[nodiscard]] std::size_t size() const { return sent_.size() + received_.size(); }
  [[nodiscard]] bool is_full() const { return sent_.size() >= kMaxResolutions; }

  /// Sends a request. Requires a new handle, and that size() is below the limit.
  void resolve(const wire::CmSidrReq& req, const Route& route, const Retries& retries,
               ipoib::TimePoint now);
  /// Answers a request of a peer, which ends the handle for the user. Fails with EINVAL if there is
  /// none.
  [[nodiscard]] ipoib::Result<void> answer(Handle handle, wire::CmSidrRep rep,
                                           ipoib::TimePoint now);
  /// Ends a handle; rejects the request of a peer.
  void destroy(Handle handle, ipoib::TimePoint now);

  [[nodiscard]] bool is_known(const Peer& peer, const wire::CmSidrReq& req) const {
    return by_key_.contains({peer, req.request_id});
  }
  /// The request of a peer, if it was received before. It is answered again if
  /// it has been answered.
  [[nodiscard]] bool on_duplicate(const Peer& peer, const wire::CmSidrReq& req);
  /// A new request has come, which gets the handle.
  void on_request(Handle handle, const Peer& peer, const Route& route, std::uint64_t transaction_id,
                  const wire::CmSidrReq& req, ListenerId listener);
  [[nodiscard]] bool has_room_for(const Peer& peer) const { return share_.has_room_for(peer); }
  /// An answer has come. `lmc` is that of all ports of the subnet.
  void on_reply(const wire::CmSidrRep& rep, const Peer& from, std::uint8_t lmc);
  /// A process at this port has gone. Another one may answer.
  void on_peer_gone(const Peer& peer, std::uint8_t lmc, ipoib::TimePoint now);
  void on_time(ipoib::TimePoint now);
  [[nodiscard]] ipoib::TimePoint next_deadline() const { return deadlines_.next(); }

 private:
  using Key = std::pair<Peer, CommId>;  ///< with the request ID
  struct Sent {
    Route route;
    Repeated message;
    ipoib::TimePoint deadline = ipoib::kNever;  ///< as in deadlines_
  };
  struct Received {
    Key key;
    Route route;
    std::uint64_t transaction_id = 0;
    wire::ServiceId service_id;
    std::unique_ptr<MadPacket> answer{};
    ipoib::TimePoint deadline = ipoib::kNever;
  };

  void erase_sent(Handle handle);
  void erase_received(Handle handle);

  Output& out_;
  std::map<Handle, Sent> sent_;
  std::map<Handle, Received> received_;
  std::map<Key, Handle> by_key_;
  ipoib::FairShare<Peer> share_{kMaxServiceRequests};
  Deadlines deadlines_;
};

}  // namespace softib::cm
