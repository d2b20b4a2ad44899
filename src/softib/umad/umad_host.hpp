// The umad side of a process: ports that are open, with their descriptors and queues, over one MAD
// layer and the process's endpoint.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "softib/endpoint/endpoint.hpp"
#include "softib/transport/fork_guard.hpp"
#include "softib/umad/mad_layer.hpp"

namespace softib::umad {

/// Bounds of an open port: agents as in the kernel, MADs that wait to be received.
inline constexpr std::size_t kMaxPortAgents = 32;
inline constexpr std::size_t kMaxWaiting = 4096;
inline constexpr std::size_t kMaxOpenPorts = 256;

/// Thread-safe. Errors are negative errno values, the umad way.
class UmadHost final : public endpoint::MadReceiver {
 public:
  /// Of this process, attached on first use. Null: there is no HCA, and `why` says why.
  [[nodiscard]] static UmadHost* get(std::string& why);
  /// Where a port was opened in this process, which may be on an HCA that has failed since. Null:
  /// it is none.
  [[nodiscard]] static UmadHost* of_port(int port);

  UmadHost(endpoint::Endpoint& endpoint, const fabric::SubnetFolder& folder, UmadHost* before);

  [[nodiscard]] endpoint::Endpoint& endpoint() { return endpoint_; }
  [[nodiscard]] const fabric::SubnetFolder& folder() const { return folder_; }

  /// Port `number` of the HCA, 0: the one that is on the subnet. A descriptor that is readable
  /// while a MAD waits; it names the port from now on. EINVAL: the HCA has no such port.
  [[nodiscard]] int open_port(int number);
  int close_port(int port);
  /// The agent's id on this port. EPERM: somebody on this HCA has one of its methods.
  [[nodiscard]] int add_agent(int port, const Registration& registration);
  int remove_agent(int port, int id);
  int send(int port, int id, const MadAddress& to, ConstBytes mad, const Persistence& persistence);

  struct Received {
    int id = 0;
    Arrived mad;
  };
  /// Takes the first MAD that waits if `limit` octets are enough for it; else it stays, and `mad`
  /// has a copy. Nothing when none waits. The agent id is -EINVAL when there is no such port, and
  /// -EIO, as often as asked, when the HCA has failed.
  [[nodiscard]] std::optional<Received> receive(int port, std::size_t limit);

 private:
  struct Agent {
    std::uint32_t number = 0;     ///< in the MAD layer
    transport::GuardedFd claims;  ///< holds the locks of its methods
  };
  struct Port {
    ipoib::FileDescriptor event;
    bool has_cable = true;
    std::array<std::optional<Agent>, kMaxPortAgents> agents;
    std::deque<Received> waiting;
  };
  struct Owner {
    int port = 0;
    int id = 0;
  };

  void receive_mad(ConstBytes packet) override;
  void mad_deadline(ipoib::TimePoint now) override;
  void device_lost() override;

  [[nodiscard]] ipoib::Result<transport::GuardedFd> claim(const Registration& registration) const;
  void forget(Agent& agent);
  void flush(std::unique_lock<std::mutex>& lock);
  void hand_up(Arrived mad);

  endpoint::Endpoint& endpoint_;
  const fabric::SubnetFolder folder_;
  /// Of a parent process, or on an HCA that has failed: pointed to for as long as the process
  /// lives.
  UmadHost* const before_;
  const std::uint32_t generation_ = transport::fork_generation();
  std::once_flag receiving_;
  std::mutex mutex_;  ///< of all below; not held while sending
  bool lost_ = false;
  MadLayer layer_;
  ipoib::TimePoint deadline_ = ipoib::kNever;
  std::map<int, Port> ports_;
  std::map<std::uint32_t, Owner> owners_;
};

}  // namespace softib::umad
