// This host as the authority of its RoCE port: what the port is, and the groups that its network
// device is in. There is nobody to wait for, and nobody who reports anything.
#pragma once

#include "daemon/authority.hpp"
#include "ipoib/log_fwd.hpp"
#include "linux/ip_groups.hpp"
#include "sa/local_administrator.hpp"

namespace ipoib::daemon {

class RoceAuthority final : public Authority {
 public:
  /// Groups have the parameters that one would be created with. `log` outlives it.
  RoceAuthority(const link::GroupCreation& group, Logger& log);

  void on_port(const verbs::PortSnapshot& port, TimePoint now) override;
  void ask(sa::QueryId id, const sa::Query& query, TimePoint now) override;
  void on_readable(TimePoint) override {}
  void on_time(TimePoint) override {}
  void end(TimePoint) override {}

  [[nodiscard]] TimePoint next_deadline() const override { return kNever; }
  [[nodiscard]] std::optional<int> descriptor() const override { return std::nullopt; }
  [[nodiscard]] bool has_failed() const override { return false; }
  [[nodiscard]] std::vector<sa::Answer>& answers() override { return administrator_.answers(); }
  [[nodiscard]] std::vector<wire::Notice>& notices() override { return notices_; }

 private:
  host::IpGroups groups_;
  sa::LocalAdministrator administrator_;
  std::vector<wire::Notice> notices_;  ///< none
};

}  // namespace ipoib::daemon
