// Requests for paths: Get(PathRecord) to the SA of an HCA's subnet (IBA 15.2.5.16), sent again
// until they are answered or their time has passed.
#pragma once

#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "softib/core/mad_packet.hpp"
#include "softib/core/mad_route.hpp"
#include "softib/rdma_cm/events.hpp"
#include "wire/sa_request.hpp"

namespace softib::rdma_cm {

class PathQueries {
 public:
  struct Result {
    IdHandle id;
    /// The status of the SA, or ETIMEDOUT if it did not answer.
    std::variant<wire::PathRecord, wire::SaStatus, std::errc> answer;
  };

  /// `self` is the process; its agent is ignored.
  explicit PathQueries(const MadRoute& self) : self_(self) { self_.agent = MadRoute::kOwnAgent; }

  /// Replaces the request of this ID, if there is one.
  void begin(IdHandle id, const wire::PathQuery& query, const PortAttributes& port,
             ipoib::Duration timeout, ipoib::TimePoint now);
  void cancel(IdHandle id);
  /// Whether the MAD is an answer to a request of this process, also to one that has ended.
  [[nodiscard]] bool is_recipient(const wire::MadHeader& header) const;
  /// The caller has checked Q_Key, P_Key and GRH.
  void receive(const MadPacket& packet, const PortAttributes& port);
  void on_time(ipoib::TimePoint now);
  [[nodiscard]] ipoib::TimePoint next_deadline() const;

  [[nodiscard]] std::vector<MadPacket> take_outgoing() { return std::exchange(outgoing_, {}); }
  [[nodiscard]] std::vector<Result> take_results() { return std::exchange(results_, {}); }

 private:
  struct Pending {
    std::uint32_t transaction = 0;  ///< low half
    MadPacket packet;
    ipoib::TimePoint resend_at;
    ipoib::TimePoint end;
  };

  MadRoute self_;
  std::uint32_t last_transaction_ = 0;
  std::map<IdHandle, Pending> pending_;
  std::vector<MadPacket> outgoing_;
  std::vector<Result> results_;
};

}  // namespace softib::rdma_cm
