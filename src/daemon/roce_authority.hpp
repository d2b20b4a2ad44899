// This host as the authority of its RoCE port: what the port is, the groups that its network device
// is in, and the neighbours that this has. There is nobody who reports anything.
#pragma once

#include "daemon/authority.hpp"
#include "ipoib/log_fwd.hpp"
#include "linux/ip_groups.hpp"
#include "linux/ip_neighbours.hpp"
#include "sa/local_sa.hpp"

namespace ipoib::daemon {

class RoceAuthority final : public Authority {
 public:
  /// Groups have the parameters that one would be created with. `log` outlives it. Throws
  /// std::runtime_error when the kernel's neighbours cannot be followed.
  RoceAuthority(const link::GroupCreation& group, Logger& log);

  void on_port(const verbs::PortSnapshot& port, TimePoint now) override;
  void request(const wire::SaRequest& request, TimePoint now) override;
  void on_readable(TimePoint now) override;
  void on_time(TimePoint now) override { sa_.on_neighbours(now); }
  void end(TimePoint) override {}

  [[nodiscard]] TimePoint next_deadline() const override { return sa_.next_deadline(); }
  [[nodiscard]] int descriptor() const override { return neighbours_->descriptor(); }
  [[nodiscard]] bool has_failed() const override { return false; }
  [[nodiscard]] std::vector<wire::SaResponse>& responses() override { return sa_.responses(); }
  [[nodiscard]] std::vector<wire::Notice>& notices() override { return notices_; }

 private:
  host::IpGroups groups_;
  const std::unique_ptr<host::IpNeighbours> neighbours_;
  sa::LocalSa sa_;
  std::vector<wire::Notice> notices_;  ///< none
};

}  // namespace ipoib::daemon
