// The rdma_cm device of a process: its event channels with their descriptors, on one RDMA
// connection manager and the endpoints of the process's HCAs.
//
// The descriptor of a channel is one end of a pair of sockets; the host has the other one. So it
// can be polled, and has flags of its own; whichever way the program closes it, the host sees the
// other end hang up. While the channel has events, there is one byte to read.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "softib/endpoint/endpoint.hpp"
#include "softib/rdma_cm/manager.hpp"
#include "softib/transport/fork_guard.hpp"
#include "softib/ucma/cm_status.hpp"
#include "softib/ucma/ipoib_addresses.hpp"
#include "softib/ucma/port_locks.hpp"

namespace softib::ucma {

/// The times after which a process is looked for again whose connection has ended while it was
/// running: soon at first, since a process that dies closes its sockets before it loses its locks,
/// then always after twice the time, up to the longest one.
inline constexpr ipoib::Duration kFirstRecheck = std::chrono::milliseconds(5);
inline constexpr ipoib::Duration kLongestRecheck = std::chrono::seconds(1);

/// The inode of a descriptor; 0 if it is not open. Async-signal-safe.
[[nodiscard]] std::uint64_t inode_of(int fd);

/// The rdma_cm device of a process; thread-safe.
class UcmaHost final : private rdma_cm::Node {
 public:
  /// The host of this process, whose HCAs are attached on first use. If it has none, returns null
  /// and sets `error` to an errno value.
  [[nodiscard]] static UcmaHost* get(int& error);
  /// The host of this process with this descriptor of a channel; null if the descriptor is not one.
  [[nodiscard]] static UcmaHost* of_channel(int fd);

  UcmaHost(std::vector<endpoint::Endpoint*> endpoints, const fabric::SubnetFolder& folder,
           fabric::Fabric fabric, UcmaHost* previous);

  /// Opens an event channel; `flags` are those of open(2). Returns its descriptor, or a negative
  /// errno value.
  [[nodiscard]] int open_channel(int flags);
  /// Executes a command that was written to the descriptor. Fails with EAGAIN if the command waits
  /// for an event and there is none, and with EBADF if it is no channel.
  [[nodiscard]] ipoib::Result<void> execute(int fd, ipoib::ConstBytes command);

 private:
  struct Channel {
    rdma_cm::ChannelId id;
    std::uint64_t inode = 0;  ///< of the program's socket: another file may have its number now
    transport::GuardedFd other_end;
    bool is_signalled = false;
  };
  /// Receives the MADs of one HCA, and learns of its peers that end.
  class Receiver final : public endpoint::MadReceiver, public endpoint::ProcessWatcher {
   public:
    Receiver(UcmaHost& host, std::size_t hca) : host_(host), hca_(hca) {}
    [[nodiscard]] bool receive_mad(const MadPacket& packet) override;
    void mad_deadline(ipoib::TimePoint now) override;
    void connection_ended(const endpoint::RemoteProcess& process) override;
    void hung_up(int fd) override;
    void device_lost() override;

   private:
    UcmaHost& host_;
    const std::size_t hca_;
  };
  using Peer = std::pair<std::size_t, endpoint::RemoteProcess>;  ///< with the HCA

  [[nodiscard]] HcaPorts ports(std::size_t hca) const override;
  [[nodiscard]] IpAddress source(const rdma_cm::LocalPort& port,
                                 const IpAddress& destination) const override;
  [[nodiscard]] std::optional<Local> find_local(const IpAddress& address) override;
  [[nodiscard]] std::optional<Remote> find(const IpAddress& address,
                                           ipoib::TimePoint until) override;
  [[nodiscard]] ipoib::Result<void> lock_port(const rdma_cm::PortRequest& request,
                                              std::uint16_t port) override;
  void unlock_port(rdma_cm::PortSpace space, std::uint16_t port) override;
  [[nodiscard]] bool may_use_privileged_ports() const override;
  [[nodiscard]] bool announce(const rdma_cm::LocalPort& port,
                              ipoib::wire::ServiceId service) override;
  void withdraw(const rdma_cm::LocalPort& port, ipoib::wire::ServiceId service) override;
  [[nodiscard]] bool hold_group(const rdma_cm::LocalPort& port, const Gid& mgid,
                                std::uint8_t join_state) override;
  [[nodiscard]] bool release_group(const rdma_cm::LocalPort& port, const Gid& mgid,
                                   std::uint8_t join_state) override;

  void attach_receivers();
  [[nodiscard]] std::optional<Local> local_of(const IpoibAddresses::Local& interface,
                                              const IpAddress& address) const;
  void on_neighbour(const IpAddress& address, const IpoibAddresses::Neighbour& found);
  [[nodiscard]] ipoib::TimePoint next_recheck() const;
  void close_channel(int fd);
  void check(const Peer& peer, ipoib::Duration next, ipoib::TimePoint now);
  void flush(std::unique_lock<std::mutex>& lock);
  void signal(rdma_cm::ChannelId id);

  const std::vector<endpoint::Endpoint*> endpoints_;
  const fabric::Fabric fabric_;
  /// The host of the parent process, or of the time before an HCA failed; never destroyed.
  UcmaHost* const previous_;
  IpoibAddresses ipoib_;
  const std::uint32_t generation_ = transport::fork_generation();
  std::once_flag receivers_set_;
  std::vector<std::unique_ptr<Receiver>> receivers_;
  mutable std::mutex mutex_;  ///< guards the members below; not held while sending
  std::map<rdma_cm::LocalPort, PortLocks> locks_;  ///< of ports that have a cable
  std::map<int, Channel> channels_;                ///< by the program's descriptor
  std::map<rdma_cm::ChannelId, int> descriptors_;
  struct Recheck {
    ipoib::TimePoint when;
    ipoib::Duration next{};  ///< the time after that
  };
  std::map<Peer, Recheck> rechecks_;
  ipoib::TimePoint deadline_ = ipoib::kNever;
  std::map<IpAddress, Remote> found_;  ///< only while the manager looks for them again
  rdma_cm::Manager manager_;
  CmStatus status_;
};

}  // namespace softib::ucma
