// A long time on a large subnet with random faults. From time to time all faults end; then every
// link has to come up, each pair has to exchange packets, and the SA has to know every membership.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/scale.hpp"
#include "wire/sa_records.hpp"

namespace ipoib::sim {

struct DayOptions {
  ScaleOptions subnet;
  Duration time = std::chrono::hours(24);
  Duration between_checks = std::chrono::hours(1);
  Duration between_faults = std::chrono::seconds(20);   ///< on average
  Duration between_packets = std::chrono::seconds(60);  ///< of one pair
  std::uint32_t peers = 4;
};

enum class Fault : std::uint8_t {
  sm_restart,
  sm_moves,
  new_parameters,
  sa_silent,
  sa_slow,
  loss,
  port_down,
  new_lid,
  pkey_removed,
  pkey_moved,
  process_ends,
  process_killed,
  flushed,
};
inline constexpr std::size_t kFaults = 13;
[[nodiscard]] std::string_view name(Fault fault);

class Day : public Scale {
 public:
  explicit Day(const DayOptions& options);

  /// Runs to the end, or to the first check that fails. `progress` is called after each check.
  void run(const std::function<void()>& progress = [] {});
  /// What was wrong, in the order of the checks; empty if nothing was.
  [[nodiscard]] const std::vector<std::string>& failures() const { return failures_; }

  [[nodiscard]] std::uint64_t count(Fault fault) const {
    return counts_[static_cast<std::size_t>(fault)];
  }
  [[nodiscard]] unsigned checks() const { return checks_; }
  [[nodiscard]] std::uint64_t packets() const { return packets_; }
  /// The longest time from the end of all faults until all links were up, and then until all pairs
  /// had exchanged a packet.
  [[nodiscard]] Duration longest_until_up() const { return longest_until_up_; }
  [[nodiscard]] Duration longest_exchange() const { return longest_exchange_; }

 private:
  void create_broadcast_group();
  void restart_sm();
  void cause(Fault fault);
  void cause_for_all(Fault fault);
  void cause_for(Fault fault, std::uint32_t link);
  void restart_process(std::uint32_t link, bool in_order);
  /// Ends a fault after that time.
  void heal_after(Duration time, std::function<void()> heal);
  void heal_all();
  void run_until_check(TimePoint end);
  void send_due_packets();
  void check();
  void check_memberships();
  void fail(const std::string& what);

  const DayOptions day_;
  softib::NodeIndex operator_ = 0;  ///< the port that creates the broadcast group
  wire::McMemberRecord parameters_;
  std::multimap<TimePoint, std::function<void()>> heals_;
  std::array<std::uint64_t, kFaults> counts_{};
  std::vector<std::string> failures_;
  unsigned checks_ = 0;
  std::uint64_t packets_ = 0;
  std::size_t next_pair_ = 0;
  TimePoint begin_;
  Duration longest_until_up_{};
  Duration longest_exchange_{};
};

}  // namespace ipoib::sim
