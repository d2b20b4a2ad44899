// What a link needs before it can carry packets (docs/states.md, "Bring-up"): the port, its own
// hardware address, the parameters of the broadcast group, the configuration of the queue pair that
// follows from them, and the carrier.
#pragma once

#include <optional>
#include <string>

#include "ipoib/log_fwd.hpp"
#include "link/bring_up.hpp"
#include "link/output.hpp"
#include "link/path_requests.hpp"
#include "wire/mc_member_record.hpp"

namespace ipoib::link {

class LinkSetup {
 public:
  /// `qpn` names an existing queue pair, which need not be configured. `out` and `log` outlive this
  /// object.
  LinkSetup(Qpn qpn, Output& out, Logger& log) : out_(out), log_(log) { own_.qpn = qpn; }
  LinkSetup(const LinkSetup&) = delete;
  LinkSetup& operator=(const LinkSetup&) = delete;

  // Each of these references stays valid, and shows the present value.
  /// QPN of the queue pair, GID of the port.
  [[nodiscard]] const HwAddress& own() const { return own_; }
  [[nodiscard]] const PortGid& port_gid() const { return port_gid_; }
  /// Those of the broadcast group while it is joined.
  [[nodiscard]] const std::optional<wire::McMemberRecord>& parameters() const {
    return parameters_;
  }
  [[nodiscard]] const BringUp& bring_up() const { return bring_up_; }

  [[nodiscard]] const PortStatus& port() const { return bring_up_.port(); }
  [[nodiscard]] LinkState state() const { return bring_up_.state(); }
  [[nodiscard]] bool is_up() const { return bring_up_.is_up(); }
  [[nodiscard]] bool is_running() const { return bring_up_.is_running(); }
  [[nodiscard]] PathSource path_source() const {
    return {port_gid_, port().lmc, port().grh_required};
  }
  /// Of the configured queue pair; 0 if it is not configured.
  [[nodiscard]] QKey qkey() const { return configured_.value_or(ConfigureQueuePair{}).qkey; }
  /// What the operator has to do before the link can join groups; empty if it joins them or has
  /// joined them.
  [[nodiscard]] std::string waiting_for() const;

  // --- Stimuli ---------------------------------------------------------------------------------
  /// Returns what the link has to do. Its own address changes only by take_port().
  [[nodiscard]] BringUp::Step on_port(const PortStatus& port);
  void take_port();
  /// The queue pair was recreated: it is in RESET.
  void on_queue_pair(Qpn qpn);
  /// RFC 4391, 5: the Q_Key of the link is that of the broadcast group. Configures the queue pair.
  /// Returns whether parameters have changed that other groups have from the broadcast group.
  bool on_broadcast_joined(const wire::McMemberRecord& record);
  /// All necessary groups are joined: raises the carrier.
  void on_joined();
  /// The link cannot use what it has joined; it joins again. Requires go_down().
  void on_setup_failed() { bring_up_.on_setup_failed(); }
  /// The broadcast group cannot be used now.
  void go_down();
  void stop() { bring_up_.stop(); }

 private:
  void set_carrier(bool on);
  void configure_queue_pair();

  Output& out_;
  Logger& log_;
  BringUp bring_up_;
  HwAddress own_{};
  PortGid port_gid_;
  std::optional<wire::McMemberRecord> parameters_;
  /// Current configuration of the queue pair; nullopt if it is not configured.
  std::optional<ConfigureQueuePair> configured_;
  bool carrier_ = false;
};

}  // namespace ipoib::link
