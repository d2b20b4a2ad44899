// A capture of a running subnet: the socket to which the processes of the subnet connect, and their
// packets.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"
#include "softib/cli/capture_order.hpp"
#include "softib/fabric/capture_slots.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/transport/fork_guard.hpp"

namespace softib::cli {

/// Processes that are connected at a time; further ones are refused and counted.
inline constexpr std::size_t kMaxCapturedProcesses = 16'384;
/// How long the end waits for what processes have sent.
inline constexpr std::chrono::milliseconds kCaptureEndPatience{1000};

/// Owns the socket of a capture, its connections, and the packets that wait for their order. Its
/// end ends the capture.
class SubnetCapture {
 public:
  using Visit = std::function<bool(const CaptureOrder::Packet&)>;

  /// Begins a capture of these HCAs, or if there are none of all. Fails as the request to the
  /// subnet process does.
  [[nodiscard]] static ipoib::Result<SubnetCapture> begin(const fabric::SubnetFolder& folder,
                                                          const std::vector<std::string>& hcas);
  SubnetCapture(SubnetCapture&&) noexcept = default;
  SubnetCapture& operator=(SubnetCapture&&) = delete;
  ~SubnetCapture();

  /// Waits for packets for so long at most, and passes on those whose order is known. `visit`
  /// returns whether to go on.
  void read(std::chrono::milliseconds timeout, const Visit& visit);
  /// Ends the capture, and passes on all packets that were sent before.
  void end(const Visit& visit);
  /// Whether the subnet process has ended, and with it the capture.
  [[nodiscard]] bool has_ended() const { return has_ended_; }
  /// Packets that processes have left out since this one did not read them in time.
  [[nodiscard]] std::uint64_t lost() const { return order_.lost(); }
  /// Processes whose packets are missing: beyond the limit, or with malformed messages.
  [[nodiscard]] std::uint64_t refused() const { return refused_; }

 private:
  SubnetCapture(fabric::SubnetFolder folder, fabric::CaptureId id, transport::GuardedFd listener,
                ipoib::FileDescriptor epoll)
      : folder_(std::move(folder)),
        id_(id),
        listener_(std::move(listener)),
        epoll_(std::move(epoll)) {}
  void accept();
  void receive(int connection);
  void forget(int connection);
  void wait(std::chrono::milliseconds timeout);

  fabric::SubnetFolder folder_;
  fabric::CaptureId id_;
  transport::GuardedFd listener_;
  ipoib::FileDescriptor epoll_;
  std::map<int, transport::GuardedFd> connections_;
  /// The connection of the subnet process, which is the first: it connects before it tells others.
  int subnet_ = -1;
  CaptureOrder order_;
  std::vector<std::uint8_t> message_;
  std::uint64_t refused_ = 0;
  bool has_ended_ = false;
};

}  // namespace softib::cli
