// The interfaces of a port: makes and removes them as the plan says, brings each what concerns it,
// and buries those that have ended.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "daemon/alarm.hpp"
#include "daemon/interface.hpp"
#include "daemon/interface_plan.hpp"
#include "daemon/sa_requests.hpp"
#include "ipoib/backoff.hpp"

namespace ipoib::daemon {

/// Whom the interfaces work for.
class PortOwner {
 public:
  virtual ~PortOwner() = default;
  /// There is nothing left to do for the daemon. The reason is empty when it was told to stop.
  virtual void on_finished(const std::string& reason) = 0;
};

class Interfaces final : private InterfaceOwner {
 public:
  Interfaces(const SharedByInterfaces& shared, PortOwner& owner, SaRequestPort& sa, Logger& log);

  /// Makes the first interfaces. Throws std::runtime_error when one of them cannot be made.
  void start(const verbs::PortSnapshot& port);
  void on_port(const verbs::PortSnapshot& port);
  void on_client_reregister();
  void on_notice(const wire::Notice& notice);
  /// A response for an interface that is gone is dropped.
  void on_response(const wire::SaResponse& response);
  /// Ends all of them; PortOwner::on_finished() follows when that is done. Network interfaces stay
  /// where something has failed.
  void stop(const Ending& why);
  /// Ends all of them now, without waiting for anybody.
  void abandon();

 private:
  using Map = std::map<InterfaceNumber, std::unique_ptr<Interface>>;

  void on_ended(InterfaceNumber number, const Ending& why) override;

  void apply_plan();
  void make(PKey partition);
  void remove(PKey partition);
  void discard_kept();
  void bury(InterfaceNumber number, const Ending& why);

  const SharedByInterfaces shared_;
  PortOwner& owner_;
  SaRequestPort& sa_;
  Logger& log_;
  InterfacePlan plan_;
  Map interfaces_;
  InterfaceNumber last_number_;
  verbs::PortSnapshot port_;
  std::optional<Ending> stopping_;
  std::size_t left_out_ = 0;
  Retry retry_;
  Alarm retry_alarm_;
  /// What an interface's burial that is still under way finds out by that this is gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ipoib::daemon
