// The SA of an InfiniBand subnet, and the port's subscription to its reports.
#pragma once

#include <memory>

#include "daemon/port/sa_backend.hpp"
#include "daemon/port/shared_memberships.hpp"
#include "ipoib/log_fwd.hpp"
#include "sa/sa_client.hpp"
#include "sa/subscriptions.hpp"
#include "verbs/watched_mad_port.hpp"

namespace ipoib::daemon {

class SubnetSa final : public SaBackend {
 public:
  /// `log` outlives it. For `seed` and `random` see SaClient.
  SubnetSa(std::unique_ptr<verbs::WatchedMadPort> mads, SharedMemberships memberships, Logger& log,
           std::uint64_t seed, RandomSource random);

  void on_port(const verbs::PortSnapshot& port, TimePoint now) override;
  void on_client_reregister() override { memberships_.on_reregister(); }
  void request(const wire::SaRequest& request, TimePoint now) override;
  void on_readable(TimePoint now) override;
  void on_time(TimePoint now) override;
  void end(TimePoint now) override;

  [[nodiscard]] TimePoint next_deadline() const override;
  [[nodiscard]] int descriptor() const override { return mads_->fd(); }
  [[nodiscard]] bool has_failed() const override { return mads_->failed(); }
  [[nodiscard]] sa::Counters counters() const override { return client_.counters(); }
  [[nodiscard]] std::vector<wire::SaResponse>& responses() override { return responses_; }
  [[nodiscard]] std::vector<wire::Notice>& notices() override { return notices_; }

 private:
  /// Pause between two attempts to receive the reports.
  static constexpr Duration kClaimPause = std::chrono::seconds(10);

  void renew_subscriptions(TimePoint now);
  void dispatch(TimePoint now);

  Logger& log_;
  const std::unique_ptr<verbs::WatchedMadPort> mads_;
  SharedMemberships memberships_;
  sa::SaClient client_;
  sa::Subscriptions subscriptions_;
  std::vector<wire::SaResponse> responses_;
  std::vector<wire::Notice> notices_;
  bool has_sa_ = false;
  bool ended_ = false;
  TimePoint claim_at_ = kNever;
};

}  // namespace ipoib::daemon
