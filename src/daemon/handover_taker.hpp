// The new daemon's part of a handover (handover.hpp), after it has received everything.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <set>
#include <string>

#include "daemon/interfaces/handover.hpp"
#include "daemon/interfaces/interfaces.hpp"
#include "daemon/process/timer.hpp"
#include "daemon/process/watch.hpp"

namespace ipoib::daemon::handover {

/// How long the taker waits.
struct Patience {
  Duration preparing = std::chrono::seconds(30);  ///< for links that come up, and join their groups
  Duration releasing = std::chrono::seconds(10);  ///< for the old daemon, which lets go
};

class Taker {
 public:
  /// All of these outlive it.
  struct Dependencies {
    boost::asio::io_context& context;
    Interfaces& interfaces;
    std::function<void()> on_serving;                    ///< the interfaces are served from now on
    std::function<void(const std::string&)> on_failure;  ///< they belong to the other daemon
    Logger& log;
  };
  Taker(Dependencies dependencies, Connection connection, std::uint32_t peer,
        const Patience& patience = {});

  /// The interfaces of these partitions are in PumpMode::held.
  void start(const std::set<PKey>& handed);
  /// See InterfaceOwner::on_mode().
  void on_mode(InterfaceNumber interface, PumpMode mode);
  /// Whether the interfaces are served, or belong to the other daemon.
  [[nodiscard]] bool is_over() const { return state_ == State::serving || state_ == State::failed; }

 private:
  enum class State : std::uint8_t { preparing, ready, serving, failed };

  void on_readable();
  void send_ready();
  void serve();
  void fail(const std::string& why);

  const Dependencies dependencies_;
  Connection connection_;
  const std::uint32_t peer_;
  const Patience patience_;
  Timer timeout_;
  Watch watch_;
  State state_ = State::preparing;
  std::set<InterfaceNumber> held_;
  std::set<InterfaceNumber> unsettled_;
};

}  // namespace ipoib::daemon::handover
