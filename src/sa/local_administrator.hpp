// Answers the questions for a subnet administrator on a port that has none, a RoCE port.
//
// A path there is the GID itself: what its packets need besides is found by the host's IP. A group
// is its MGID as an IPv6 group: a member is who has joined that, by which switches learn where its
// packets go, and nobody knows all of them. So each question is answered at once, from what this
// port is, and all hosts have to agree on what a group's traffic has in common (RFC 4391, 10).
#pragma once

#include <cstdint>
#include <vector>

#include "ipoib/ip_group_port.hpp"
#include "ipoib/log_fwd.hpp"
#include "sa/query.hpp"

namespace ipoib::sa {

class LocalAdministrator {
 public:
  struct Port {
    Gid gid;               ///< zero: nothing can be sent
    std::uint8_t mtu = 0;  ///< code
  };

  /// `groups` has what the traffic of all groups has in common, as if it were the record of the
  /// broadcast group; its MTU is an upper bound.
  LocalAdministrator(const wire::McMemberRecord& group, IpGroupPort& members, Logger& log)
      : group_(group), members_(members), log_(log) {}

  void set_port(const Port& port) { port_ = port; }
  /// Puts a question; its answer is there on return.
  void ask(QueryId id, const Query& query);
  /// Answers in the order of the questions; the caller takes them out.
  [[nodiscard]] std::vector<Answer>& answers() { return answers_; }

 private:
  using Result = decltype(Answer::result);
  [[nodiscard]] Result answer(const PathQuery& query) const;
  [[nodiscard]] Result answer(const JoinQuery& query);
  [[nodiscard]] Result answer(const LeaveQuery& query);
  [[nodiscard]] wire::McMemberRecord record_of(const wire::McMemberRecord& asked) const;

  const wire::McMemberRecord group_;
  IpGroupPort& members_;
  Logger& log_;
  Port port_;
  std::vector<Answer> answers_;
};

}  // namespace ipoib::sa
