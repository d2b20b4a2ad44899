// Local responses to SA requests for a RoCE port: from the port's attributes, the groups that its
// network device has joined, and the kernel's neighbours. There are no reports.
#pragma once

#include "daemon/port/sa_backend.hpp"
#include "ipoib/log_fwd.hpp"
#include "linux/ip_groups.hpp"
#include "linux/ip_neighbours.hpp"
#include "sa/local_sa.hpp"

namespace ipoib::daemon {

class RoceSa final : public SaBackend {
 public:
  /// `group` has the parameters of all groups. `log` outlives it. Throws std::runtime_error if the
  /// kernel's neighbours cannot be watched.
  RoceSa(const link::GroupCreation& group, Logger& log);

  void on_port(const verbs::PortSnapshot& port, TimePoint now) override;
  void on_client_reregister() override {}
  void request(const wire::SaRequest& request, TimePoint now) override;
  void on_readable(TimePoint now) override;
  void on_time(TimePoint now) override { sa_.on_neighbours(now); }
  void end(TimePoint) override {}

  [[nodiscard]] TimePoint next_deadline() const override { return sa_.next_deadline(); }
  [[nodiscard]] int descriptor() const override { return neighbours_->descriptor(); }
  [[nodiscard]] bool has_failed() const override { return false; }
  [[nodiscard]] sa::Counters counters() const override { return {}; }
  [[nodiscard]] std::vector<wire::SaResponse>& responses() override { return sa_.responses(); }
  [[nodiscard]] std::vector<wire::Notice>& notices() override { return notices_; }

 private:
  linux::IpGroups groups_;
  const std::unique_ptr<linux::IpNeighbours> neighbours_;
  sa::LocalSa sa_;
  std::vector<wire::Notice> notices_;  ///< always empty
};

}  // namespace ipoib::daemon
