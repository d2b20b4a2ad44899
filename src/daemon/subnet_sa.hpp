// The SA of an InfiniBand subnet, and the port's subscription to its reports.
#pragma once

#include <memory>

#include "daemon/sa_backend.hpp"
#include "ipoib/log_fwd.hpp"
#include "sa/sa_client.hpp"
#include "sa/subscriptions.hpp"
#include "verbs/watched_mad_port.hpp"

namespace ipoib::daemon {

class SubnetSa final : public SaBackend {
 public:
  /// `log` outlives it.
  SubnetSa(std::unique_ptr<verbs::WatchedMadPort> mads, Logger& log, std::uint64_t seed);

  void on_port(const verbs::PortSnapshot& port, TimePoint now) override;
  void request(const wire::SaRequest& request, TimePoint now) override;
  void on_readable(TimePoint now) override;
  void on_time(TimePoint now) override;
  void end(TimePoint now) override;

  [[nodiscard]] TimePoint next_deadline() const override;
  [[nodiscard]] int descriptor() const override { return mads_->fd(); }
  [[nodiscard]] bool has_failed() const override { return mads_->failed(); }
  [[nodiscard]] std::vector<wire::SaResponse>& responses() override { return responses_; }
  [[nodiscard]] std::vector<wire::Notice>& notices() override { return client_.notices(); }

 private:
  void dispatch(TimePoint now);

  Logger& log_;
  const std::unique_ptr<verbs::WatchedMadPort> mads_;
  sa::SaClient client_;
  sa::Subscriptions subscriptions_;
  std::vector<wire::SaResponse> responses_;
  bool ended_ = false;
  bool logged_missing_reports_ = false;
};

}  // namespace ipoib::daemon
