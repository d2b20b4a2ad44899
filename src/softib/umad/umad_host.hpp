// The umad side of a process: open ports with their descriptors and receive queues, on one MAD
// layer and the endpoint of the process.
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

/// Bounds of an open port: its agents, as in the kernel, and its receive queue.
inline constexpr std::size_t kMaxPortAgents = 32;
inline constexpr std::size_t kMaxQueuedMads = 4096;
/// The number of these that may be unsolicited, which must not keep out responses.
inline constexpr std::size_t kMaxQueuedUnsolicited = 2048;
inline constexpr std::size_t kMaxUnsolicitedBytes = 4 << 20;
inline constexpr std::size_t kMaxOpenPorts = 256;

/// The umad side of a process; thread-safe. Errors are negative errno values, as in libibumad.
class UmadHost final : public endpoint::MadReceiver {
 public:
  /// The host of this process on one of its HCAs, counted from 0; it is attached on first use. Null
  /// if there is no such HCA; `why` then has the reason.
  [[nodiscard]] static UmadHost* get(std::size_t hca, std::string& why);
  /// The host on which this process opened a port; its HCA may have failed since. Null if `port` is
  /// not open.
  [[nodiscard]] static UmadHost* of_port(int port);

  UmadHost(endpoint::MadEndpoint& endpoint, std::size_t hca, const fabric::SubnetFolder& folder,
           UmadHost* previous);

  [[nodiscard]] endpoint::MadEndpoint& endpoint() { return endpoint_; }
  [[nodiscard]] std::string device_name() const { return fabric::device_name(hca_); }
  [[nodiscard]] const fabric::SubnetFolder& folder() const { return folder_; }

  /// Opens port `number` of the HCA; 0 means HcaPorts::preferred(). Returns the port's id, a
  /// descriptor that is readable while a MAD is queued. Returns -EINVAL if there is no such port.
  [[nodiscard]] int open_port(int number);
  int close_port(int port);
  /// Returns the id of the agent on this port; -EPERM if an agent on this port of the HCA, of any
  /// process, has one of its methods.
  [[nodiscard]] int add_agent(int port, const Registration& registration);
  int remove_agent(int port, int id);
  int send(int port, int id, const MadAddress& to, ConstBytes mad, const RetryPolicy& retry);

  struct Received {
    int id = 0;
    ReceivedMad mad;
  };
  /// Takes the first queued MAD if it has at most `limit` bytes; a longer one stays queued and is
  /// returned as a copy. Returns nullopt if no MAD is queued. The agent id is -EINVAL if there is
  /// no such port, and -EIO, for each call, after the HCA has failed.
  [[nodiscard]] std::optional<Received> receive(int port, std::size_t limit);

 private:
  struct Agent {
    std::uint32_t number = 0;     ///< of the MAD layer
    transport::GuardedFd claims;  ///< holds the locks of its methods
  };
  struct Port {
    ipoib::FileDescriptor event;
    std::uint8_t number = 1;  ///< on the HCA
    std::array<std::optional<Agent>, kMaxPortAgents> agents;
    std::deque<Received> queue;
    std::size_t unsolicited = 0;  ///< in the queue
    std::size_t unsolicited_bytes = 0;
  };
  struct Owner {
    int port = 0;
    int id = 0;
  };

  [[nodiscard]] bool receive_mad(const MadPacket& packet) override;
  void mad_deadline(ipoib::TimePoint now) override;
  void device_lost() override;

  [[nodiscard]] ipoib::Result<transport::GuardedFd> claim(const Registration& registration,
                                                          std::uint8_t port) const;
  void unregister(Agent& agent);
  void flush(std::unique_lock<std::mutex>& lock);
  void deliver(ReceivedMad mad);

  endpoint::MadEndpoint& endpoint_;
  const std::size_t hca_;
  const fabric::SubnetFolder folder_;
  /// The host on the same HCA of the parent process, or of the time before the HCA failed; never
  /// destroyed.
  UmadHost* const previous_;
  const std::uint32_t generation_ = transport::fork_generation();
  std::once_flag receiver_set_;
  std::mutex mutex_;  ///< guards the members below; not held while sending
  bool lost_ = false;
  MadLayer layer_;
  ipoib::TimePoint deadline_ = ipoib::kNever;
  std::map<int, Port> ports_;
  std::map<std::uint32_t, Owner> owners_;
};

}  // namespace softib::umad
