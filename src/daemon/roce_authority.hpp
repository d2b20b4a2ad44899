// This host as the authority of its RoCE port: what the port is, the groups that its network device
// is in, and the neighbours that this has. There is nobody who reports anything.
#pragma once

#include "daemon/authority.hpp"
#include "ipoib/log_fwd.hpp"
#include "linux/ip_groups.hpp"
#include "linux/ip_neighbours.hpp"
#include "sa/local_administrator.hpp"

namespace ipoib::daemon {

class RoceAuthority final : public Authority {
 public:
  /// Groups have the parameters that one would be created with. `log` outlives it. Throws
  /// std::runtime_error when the kernel's neighbours cannot be followed.
  RoceAuthority(const link::GroupCreation& group, Logger& log);

  void on_port(const verbs::PortSnapshot& port, TimePoint now) override;
  void ask(sa::QueryId id, const sa::Query& query, TimePoint now) override;
  void on_readable(TimePoint now) override;
  void on_time(TimePoint now) override { administrator_.on_neighbours(now); }
  void end(TimePoint) override {}

  [[nodiscard]] TimePoint next_deadline() const override { return administrator_.next_deadline(); }
  [[nodiscard]] int descriptor() const override { return neighbours_->descriptor(); }
  [[nodiscard]] bool has_failed() const override { return false; }
  [[nodiscard]] std::vector<sa::Answer>& answers() override { return administrator_.answers(); }
  [[nodiscard]] std::vector<wire::Notice>& notices() override { return notices_; }

 private:
  host::IpGroups groups_;
  const std::unique_ptr<host::IpNeighbours> neighbours_;
  sa::LocalAdministrator administrator_;
  std::vector<wire::Notice> notices_;  ///< none
};

}  // namespace ipoib::daemon
