// Follows the routes through an interface by rtnetlink(7) notifications.
//
// The kernel sends a notification while it makes the change, before the system call that asked for
// it returns. So whoever reads all notifications after a packet has come out of the TUN knows each
// change that was complete when the packet was sent. This costs one system call, which mostly says
// that there are none.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"
#include "linux/route_messages.hpp"
#include "linux/route_source.hpp"

namespace ipoib::linux {

class RouteFeed final : public RouteSource {
 public:
  /// The number of notifications that are read at a time: more than in the bursts of a routing
  /// daemon, so that even the last one before a packet applies to it. They take tens of
  /// milliseconds.
  static constexpr std::size_t kMaxReads = 16384;

  /// Subscribes in the current network namespace.
  [[nodiscard]] static Result<std::unique_ptr<RouteFeed>> open(InterfaceName interface);

  [[nodiscard]] int descriptor() const override { return socket_.get(); }
  void read(std::vector<RouteChange>& changes) override;
  void rename(const std::string& name) override { interface_.name = name; }

 private:
  RouteFeed(FileDescriptor socket, InterfaceName interface);
  void take(std::size_t size, std::vector<RouteChange>& changes);
  void take_link(nlmsghdr* message, std::vector<RouteChange>& changes);

  FileDescriptor socket_;
  InterfaceName interface_;
  std::optional<bool> is_up_;  ///< the state that was announced last
  std::vector<char> buffer_;
};

}  // namespace ipoib::linux
