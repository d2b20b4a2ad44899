// The interfaces of the daemon: creates and removes them as planned, distributes events and SA
// responses of its ports to them, and destroys those that have ended.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/interfaces/configuration.hpp"
#include "daemon/interfaces/handover.hpp"
#include "daemon/interfaces/partition_interface.hpp"
#include "daemon/interfaces/port_owner.hpp"
#include "daemon/options/interface_plan.hpp"
#include "daemon/process/timer.hpp"
#include "ipoib/log_fwd.hpp"

namespace ipoib::daemon {

/// Kept interfaces by the names with which they were created.
using KeptInterfaces = std::map<std::string, KeptInterface>;

class Interfaces final : private InterfaceOwner {
 public:
  struct Dependencies {
    boost::asio::io_context& context;
    PartitionInterfaces& factory;
    const Options& options;
    KeptInterfaces& kept;
    OperatorChanges& changes;
    PortOwner& owner;
    SaRequestPort& sa;
    HandedInterfaces& handed;  ///< by another daemon
    bool has_backup = false;   ///< each interface has a backup port
    Logger& log;
  };
  explicit Interfaces(const Dependencies& dependencies);

  /// Creates the first interfaces. Throws std::runtime_error if one of them cannot be created.
  void start(const verbs::PortSnapshot& primary);
  /// What start() has created disappears; what it has adopted is kept for the next try.
  void undo_start();
  /// Drops a response for an interface that no longer exists.
  void on_event(const InterfaceEvent& event);
  void replace_port(PortRole role);  ///< an interface that cannot have it ends
  /// Applies changed options.
  void reconfigure(const Reloaded& changes);
  [[nodiscard]] std::map<InterfaceNumber, PKey> partitions() const;      ///< of the interfaces
  [[nodiscard]] PartitionInterface* find(InterfaceNumber number) const;  ///< null if it has ended
  /// The interface on which the host has this address; null: none has.
  [[nodiscard]] PartitionInterface* find(const IpAddress& address) const;
  /// Ends all interfaces as stop() does; another daemon has taken over those of `taken`.
  void hand_over(const std::set<InterfaceNumber>& taken);
  /// One line for the operator: the interfaces, and what they wait for.
  [[nodiscard]] std::string status() const;
  /// Asks the threads of all interfaces for a response.
  void check_threads();
  /// Whether all have responded to the last check_threads().
  [[nodiscard]] bool threads_respond() const { return unanswered_.empty(); }
  /// Ends all interfaces; PortOwner::on_finished() follows. If something has failed, or with
  /// Options::keep, the network interfaces are kept.
  void stop(const StopReason& why);
  /// Ends all interfaces without waiting for SA responses.
  void stop_now();

 private:
  using Map = std::map<InterfaceNumber, std::unique_ptr<PartitionInterface>>;
  using Deleted = std::function<void(Result<void>)>;

  void on_ended(InterfaceNumber number, const StopReason& why) override;
  void on_report(InterfaceNumber number, const LinkReport& report) override;
  void on_mode(InterfaceNumber number, PumpMode mode) override;
  void on_renamed(InterfaceNumber number, const std::string& name) override;
  void on_handover(FileDescriptor connection) override;
  [[nodiscard]] Result<std::string> add_interface(InterfaceNumber beside, PKey partition,
                                                  const std::string& name) override;
  void delete_interface(InterfaceNumber number, Deleted done) override;

  void apply_plan();
  [[nodiscard]] InterfacePlan::Changes update_plan();
  void log_missing_vlans(const std::vector<PKey>& table);
  [[nodiscard]] bool knows_partitions() const;
  void create(PKey partition);
  void rename_vlans();
  void remove(PKey partition);
  void discard_kept();
  void remove_at_end(PartitionInterface& interface);
  void end_moved(PartitionInterface& interface);
  void destroy(InterfaceNumber number, const StopReason& why);
  void settle(PartitionInterface& interface, const StopReason& why);
  void finish_deletion(std::unique_ptr<PartitionInterface> interface, const Deleted& done);
  void destroy_later(std::unique_ptr<PartitionInterface> interface);
  void follow(PKey partition, const PartitionInterface& interface);

  const Dependencies dependencies_;
  InterfacePlan plan_;
  Map interfaces_;
  std::map<InterfaceNumber, Deleted> deleting_;  ///< by the operator
  std::vector<std::unique_ptr<PartitionInterface>> ended_;
  std::map<InterfaceNumber, std::string> awaited_;  ///< by the links, as reported
  std::set<InterfaceNumber> unanswered_;            ///< check_threads()
  std::map<PKey, SharedNamespace> homes_;  ///< of interfaces that were moved, or added elsewhere
  InterfaceNumber last_number_;
  PerPort<verbs::PortSnapshot> ports_;
  std::string trunk_;  ///< name of the TAP that carries the VLANs; empty until there is one
  std::optional<StopReason> stopping_;
  std::set<PKey> missing_vlans_;  ///< as logged; their partitions are not in the port's table
  std::size_t left_out_ = 0;
  Retry retry_;
  Timer retry_timer_;
  /// Tells pending calls of destroy() whether this object still exists.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ipoib::daemon
