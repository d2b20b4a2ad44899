// Requests to the SA of an HCA's subnet: paths (IBA 15.2.5.16) and memberships (15.2.5.17). They
// are sent again until they are answered or their time has passed.
#pragma once

#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "ipoib/time.hpp"
#include "softib/core/mad_packet.hpp"
#include "softib/core/mad_route.hpp"
#include "softib/rdma_cm/events.hpp"
#include "wire/sa_request.hpp"

namespace softib::rdma_cm {

class SaRequests {
 public:
  /// The owner of a request: an ID that wants a path, or a join; monostate if nobody needs the
  /// answer.
  using Owner = std::variant<std::monostate, IdHandle, JoinHandle>;
  using Query = std::variant<wire::PathQuery, wire::JoinQuery, wire::LeaveQuery>;
  struct Result {
    Owner owner;
    /// The status of the SA, or ETIMEDOUT if it did not answer.
    std::variant<wire::PathRecord, wire::McMemberRecord, wire::SaStatus, std::errc> answer;
  };

  /// `self` is the process; its agent is ignored.
  explicit SaRequests(const MadRoute& self) : self_(self) { self_.agent = MadRoute::kOwnAgent; }

  void begin(const Owner& owner, const Query& query, const PortAttributes& port,
             ipoib::Duration timeout, ipoib::TimePoint now);
  void cancel(const Owner& owner);
  /// Whether the MAD is an answer to a request of this process, also to one that has ended.
  [[nodiscard]] bool is_recipient(const wire::MadHeader& header) const;
  /// A MAD has come. The caller has checked Q_Key, P_Key and GRH.
  void receive(const MadPacket& packet, const PortAttributes& port);
  void on_time(ipoib::TimePoint now);
  [[nodiscard]] ipoib::TimePoint next_deadline() const;

  [[nodiscard]] std::vector<MadPacket> take_outgoing() { return std::exchange(outgoing_, {}); }
  [[nodiscard]] std::vector<Result> take_results() { return std::exchange(results_, {}); }

 private:
  struct Pending {
    Owner owner;
    MadPacket packet;
    ipoib::TimePoint resend_at;
    ipoib::TimePoint end;
  };

  MadRoute self_;
  std::uint32_t last_transaction_ = 0;
  std::map<std::uint32_t, Pending> pending_;  ///< by the low half of the transaction ID
  std::vector<MadPacket> outgoing_;
  std::vector<Result> results_;
};

}  // namespace softib::rdma_cm
