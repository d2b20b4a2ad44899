// The subnet process: runs subnet::Subnet and does its I/O, which is the fabric file, the control
// socket, the port of the SM, and the clock.
//
// Everything runs in the thread of the io_context; the endpoint's engine thread passes MADs to it
// through a bounded queue, in which each port has a share. After each stimulus, changes are first
// published in the fabric file, then responses are sent: a client that reads a successful join
// response is a member already.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ipoib/log_fwd.hpp"
#include "softib/control/server.hpp"
#include "softib/endpoint/endpoint.hpp"
#include "softib/fabric/fabric.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/fabric/subnet_lock.hpp"
#include "softib/subnet/subnet.hpp"
#include "softib/subnetd/captures.hpp"
#include "softib/subnetd/cm_memberships.hpp"
#include "softib/subnetd/mad_queue.hpp"
#include "softib/subnetd/roce_sockets.hpp"

namespace softib::subnetd {

/// Bound of the queue of received MADs. Those beyond it, or beyond their sender's share of it, are
/// dropped and counted as drop_mad_full.
inline constexpr std::size_t kMaxQueuedMads = 8192;

/// Interval of the attempts to wake processes while descriptors or memory are exhausted.
inline constexpr std::chrono::milliseconds kWakeRetry{100};

/// Pauses before the checks of a process whose connection has ended. The first one is short; but a
/// process that dies closes its sockets before it loses its locks, and what it has sent is still on
/// its way. Each further pause is twice as long, up to the longest one.
inline constexpr std::chrono::milliseconds kFirstProcessCheck{5};
inline constexpr std::chrono::milliseconds kLongestProcessCheck{1000};

class SubnetProcess final : private control::RequestHandler,
                            private endpoint::MadReceiver,
                            private endpoint::ProcessWatcher {
 public:
  struct Options {
    fabric::SubnetFolder folder;
    /// The options of the subnet. If they are nullopt, those count that an earlier process has
    /// stored in the folder, or else the default ones.
    std::optional<subnet::SubnetConfig> config;
    std::string capture;  ///< file for the packets of the SM's port; empty: none
  };

  /// Locks the folder, adopts the state that an earlier process left in it, and serves. Throws
  /// std::runtime_error with a message for the user. `context` and `log` must outlive it.
  SubnetProcess(boost::asio::io_context& context, Options options, ipoib::Logger& log);
  SubnetProcess(const SubnetProcess&) = delete;
  SubnetProcess& operator=(const SubnetProcess&) = delete;
  /// Stops serving, and removes the folder if no process is attached to any HCA.
  ~SubnetProcess() override;

  /// Whether no process is attached to any HCA.
  [[nodiscard]] bool is_unused() const;
  /// The requests that have come: a program that asks to attach will do so soon.
  [[nodiscard]] std::uint64_t requests() const { return requests_; }
  /// Whether a process holds the subnet (fabric::hold_subnet()).
  [[nodiscard]] bool is_held() const { return lock_.is_held(); }
  /// Whether the folder is still there; without it, nobody can find this process.
  [[nodiscard]] bool has_folder() const { return lock_.is_in(folder_); }

 private:
  [[nodiscard]] ipoib::Result<NodeIndex> attach(const fabric::HcaName& hca) override;
  [[nodiscard]] ipoib::Result<boost::json::object> handle(const control::Request& request) override;
  [[nodiscard]] bool receive_mad(const MadPacket& packet) override;
  void connection_ended(const endpoint::RemoteProcess& process) override;

  void adopt();
  [[nodiscard]] subnet::SubnetConfig choose_config(
      const std::optional<subnet::SubnetConfig>& given) const;
  [[nodiscard]] ipoib::Result<void> store_options();
  void attach_endpoint(const std::string& capture);
  void start_roce();
  [[nodiscard]] bool is_serving_posted();
  void post_serving();
  void serve_mads();
  /// Writes the changes into the fabric file, wakes processes on the changed nodes, and sends
  /// outgoing MADs.
  void publish();
  void publish_node(NodeIndex index);
  /// Writes into the fabric file who captures the packets of a node. Returns whether that is a
  /// change.
  bool publish_captures(NodeIndex index);
  void publish_all_captures();
  void wake(NodeIndex index);
  void wake_again();
  void check_later(const endpoint::RemoteProcess& process, ipoib::Duration after);
  void check_processes(ipoib::TimePoint now);
  void leave_groups(const endpoint::RemoteProcess& process);
  void end_connections(const endpoint::RemoteProcess& process);
  void arm_timer();
  void remove_folder();
  /// Executes each kind of request; the caller publishes.
  struct Commands;

  boost::asio::io_context& context_;
  const fabric::SubnetFolder folder_;
  ipoib::Logger& log_;
  fabric::SubnetLock lock_;
  /// Removes the folder if the constructor fails, unless an earlier process has used it.
  class NewFolder {
   public:
    explicit NewFolder(const fabric::SubnetFolder& folder);
    NewFolder(const NewFolder&) = delete;
    NewFolder& operator=(const NewFolder&) = delete;
    ~NewFolder();
    void keep() { folder_ = nullptr; }

   private:
    const fabric::SubnetFolder* folder_;  ///< null: stays
  };
  NewFolder new_folder_;
  subnet::SubnetConfig config_;  ///< as stored in the folder
  fabric::FabricWriter fabric_;
  subnet::Subnet subnet_;
  std::mutex queue_mutex_;
  MadQueue queue_{kMaxQueuedMads};  ///< from the engine to the io_context's thread
  bool is_serving_posted_ = false;
  std::uint64_t requests_ = 0;
  bool is_loss_logged_ = false;  ///< the loss of the fabric file
  /// False once this object is destroyed; handlers that are still posted check it.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<endpoint::Endpoint> endpoint_;  ///< its engine uses the members above
  std::unique_ptr<RoceSockets> roce_;             ///< of a RoCE port
  CmMemberships memberships_;
  struct Check {
    ipoib::TimePoint when;
    ipoib::Duration after{};  ///< since the one before
  };
  std::map<endpoint::RemoteProcess, Check> checks_;  ///< of processes whose connection has ended
  NodeSet to_wake_;                                  ///< nodes to wake again
  ipoib::TimePoint wake_at_ = ipoib::kNever;
  boost::asio::steady_timer timer_;
  Captures captures_;
  std::unique_ptr<control::Server> server_;
};

}  // namespace softib::subnetd
