// The process of a subnet: the value of softib/core, and what of it touches the world: the fabric
// file, the control socket, the SM's port on the wire, the clock.
//
// One thread, the io_context's. The endpoint's engine hands MADs over through a bounded queue.
// After each stimulus the picture is published first and answers are sent second, so that whoever
// reads "you are a member" is one.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ipoib/log_fwd.hpp"
#include "softib/control/server.hpp"
#include "softib/endpoint/endpoint.hpp"
#include "softib/fabric/fabric.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/fabric/subnet_lock.hpp"
#include "softib/subnet/subnet.hpp"

namespace softib::subnetd {

/// MADs that wait for the subnet's thread; more are dropped and counted as drop_mad_full.
inline constexpr std::size_t kMaxWaitingMads = 8192;

/// Between attempts to wake processes when the system has no descriptor or memory for it.
inline constexpr std::chrono::milliseconds kNudgeRetry{100};

class SubnetProcess final : private control::ControlHandler, private endpoint::MadReceiver {
 public:
  struct Options {
    fabric::SubnetFolder folder;
    subnet::SubnetConfig config;
    std::string capture;  ///< file for the packets of the SM's port; empty: none
  };

  /// Takes the folder, adopts what an earlier process has left in it, and serves. Throws
  /// std::runtime_error with a line for people. `context` and `log` outlive it.
  SubnetProcess(boost::asio::io_context& context, Options options, ipoib::Logger& log);
  SubnetProcess(const SubnetProcess&) = delete;
  SubnetProcess& operator=(const SubnetProcess&) = delete;
  /// Stops serving. When no process lives on any HCA, the folder goes too.
  ~SubnetProcess() override;

  /// No process lives on any HCA.
  [[nodiscard]] bool is_deserted() const;

 private:
  [[nodiscard]] ipoib::Result<boost::json::object> handle(const control::Request& request) override;
  void receive_mad(ConstBytes packet) override;
  void mad_deadline(ipoib::TimePoint /*now*/) override {}

  void adopt();
  void check_management(const subnet::SubnetSnapshot& before) const;
  void open_wire(const std::string& capture);
  void drain_mads();
  /// Writes what has changed into the fabric file, tells the nodes, and sends what is to be sent.
  void publish();
  void publish_node(NodeIndex index);
  void nudge(NodeIndex index);
  void nudge_again();
  void arm_timer();
  void remove_folder();
  /// Answers each kind of request; publishing is left to the caller.
  struct Commands;

  boost::asio::io_context& context_;
  const fabric::SubnetFolder folder_;
  ipoib::Logger& log_;
  fabric::SubnetLock lock_;
  fabric::FabricWriter fabric_;
  subnet::Subnet subnet_;
  std::mutex waiting_mutex_;
  std::vector<MadPacket> waiting_;  ///< from the engine to the subnet's thread
  bool is_drain_posted_ = false;
  /// What a drain that is still posted finds out by that the process object is gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<endpoint::Endpoint> endpoint_;  ///< its engine uses what is above
  NodeSet not_woken_;                             ///< nodes whose processes have to be nudged again
  ipoib::TimePoint nudge_at_ = ipoib::kNever;
  boost::asio::steady_timer timer_;
  std::unique_ptr<control::ControlServer> server_;
};

}  // namespace softib::subnetd
