// Addresses of the interfaces of ipoibd in the network namespace of this process, and of their
// neighbours: ipoibd's cache resolves these, by libibarp.
//
// Each address that is being resolved occupies a thread, which waits for ipoibd. There is none
// while nothing is resolved.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "ipoib/time.hpp"
#include "softib/core/node_addresses.hpp"

namespace softib::ucma {

class IpoibAddresses {
 public:
  /// Addresses that are resolved at a time; more of them wait for their turn.
  static constexpr std::size_t kMaxThreads = 8;
  /// How long local() waits for the daemon of an interface.
  static constexpr std::chrono::milliseconds kInfoTimeout{1000};
  /// Pause before an address is tried again that no interface can resolve now, such as while ipoibd
  /// is restarted.
  static constexpr std::chrono::milliseconds kRetry{100};

  /// The interface with an address.
  struct Local {
    Gid gid;  ///< of its port
    PKey pkey;
  };
  /// The port of a neighbour.
  struct Neighbour {
    Gid gid;
    Local from;  ///< where the path to it begins
    IpAddress source;
  };
  /// Called on a thread of this object.
  using Callback = std::function<void(const IpAddress&, const Neighbour&)>;

  /// The object is never destroyed, since its threads use it.
  explicit IpoibAddresses(Callback on_found) : on_found_(std::move(on_found)) {}
  IpoibAddresses(const IpoibAddresses&) = delete;
  IpoibAddresses& operator=(const IpoibAddresses&) = delete;

  /// The interface of ipoibd with the address; nullopt if there is none, or its daemon does not
  /// answer.
  [[nodiscard]] static std::optional<Local> local(const IpAddress& address);
  /// Tries to resolve an address until then, unless that is under way for as long already.
  void resolve(const IpAddress& address, ipoib::TimePoint until);

 private:
  void work();
  [[nodiscard]] std::optional<IpAddress> next();
  [[nodiscard]] ipoib::TimePoint deadline_of(const IpAddress& address);

  const Callback on_found_;
  std::mutex mutex_;                                 ///< guards the members below
  std::map<IpAddress, ipoib::TimePoint> deadlines_;  ///< of addresses that are not resolved yet
  std::deque<IpAddress> waiting_;
  std::size_t threads_ = 0;
};

}  // namespace softib::ucma
