// Answers the questions for a subnet administrator on a port that has none, a RoCE port.
//
// A path there is the GID itself, once the kernel has found out whose Ethernet address that is: an
// address handle before that would wait for it, in the thread of the packets. A group is its MGID
// as an IPv6 group: a member is who has joined that, by which switches learn where its packets go,
// and nobody knows all of them. So everything else is answered at once, from what this port is, and
// all hosts have to agree on what a group's traffic has in common (RFC 4391, 10).
//
// A value like the client: stimuli and `now` in, answers out.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ipoib/ip_group_port.hpp"
#include "ipoib/ip_neighbour_port.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/time.hpp"
#include "sa/query.hpp"

namespace ipoib::sa {

class LocalAdministrator {
 public:
  /// More than the kernel's three questions, a second apart (RFC 4861, 10).
  static constexpr Duration kPatience = std::chrono::seconds(4);
  static constexpr std::size_t kMaxWaiting = 1024;

  struct Port {
    Gid gid;               ///< zero: nothing can be sent
    std::uint8_t mtu = 0;  ///< code
  };

  /// `groups` has what the traffic of all groups has in common, as if it were the record of the
  /// broadcast group; its MTU is an upper bound.
  LocalAdministrator(const wire::McMemberRecord& group, IpGroupPort& members,
                     IpNeighbourPort& neighbours, Logger& log)
      : group_(group), members_(members), neighbours_(neighbours), log_(log) {}

  void set_port(const Port& port) { port_ = port; }
  /// Puts a question; its answer is there on return, but for a path to a neighbour that the kernel
  /// does not know.
  void ask(QueryId id, const Query& query, TimePoint now);
  /// Some neighbour is in another state, or next_deadline() has come.
  void on_neighbours(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const;
  /// Answers in the order of the questions; the caller takes them out.
  [[nodiscard]] std::vector<Answer>& answers() { return answers_; }

 private:
  using Result = decltype(Answer::result);
  struct Waiting {
    QueryId id;
    PathQuery query;
    TimePoint until;
  };
  void ask_path(QueryId id, const PathQuery& query, TimePoint now);
  [[nodiscard]] std::optional<Result> answer_now(const Waiting& question, TimePoint now);
  [[nodiscard]] Result path_record(const PathQuery& query) const;
  [[nodiscard]] Result answer(const JoinQuery& query);
  [[nodiscard]] Result answer(const LeaveQuery& query);
  [[nodiscard]] wire::McMemberRecord record_of(const wire::McMemberRecord& asked) const;

  const wire::McMemberRecord group_;
  IpGroupPort& members_;
  IpNeighbourPort& neighbours_;
  Logger& log_;
  Port port_;
  std::vector<Waiting> waiting_;  ///< in the order of their deadlines
  std::vector<Answer> answers_;
};

}  // namespace ipoib::sa
