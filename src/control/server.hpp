// Serves the control protocol on the abstract socket @ipoibd/<interface> of the calling thread's
// network namespace.
//
// Runs wholly on one io_context, the control thread's; lines/line_server.hpp says what a client
// costs at most.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "control/protocol.hpp"
#include "ipoib/log_fwd.hpp"

namespace boost::asio {
class io_context;
}
namespace ipoib {
class TraceRings;
}

namespace ipoib::control {

class LogLevels;

/// Clients at a time. The last few places are kept for root, lest users lock it out.
inline constexpr std::size_t kMaxClients = 32;
inline constexpr std::size_t kPlacesForRoot = 8;
inline constexpr std::chrono::seconds kIdleTimeout{60};

/// The interface as the server sees it; the daemon implements it.
class Handler {
 public:
  virtual ~Handler() = default;

  /// Answers one request, now or later, by one call of `done`, from any thread: request and answer
  /// are values that may travel to the interface's thread and back. `done` may be called after the
  /// server is gone, and does nothing then, but not after the io_context is.
  virtual void handle(InterfaceRequest request, std::function<void(Response)> done) = 0;
  /// Answers with the members of a group, as handle() does.
  virtual void find_members(const Gid& mgid, std::function<void(Response)> done) = 0;
};

class Server {
 public:
  struct Parts {
    Handler& handler;
    LogLevels& levels;
    const TraceRings& trace;
    Logger& log;
  };
  struct Options {
    std::string interface;
    std::chrono::milliseconds idle_timeout = kIdleTimeout;
  };

  /// Binds and listens. Throws std::system_error when the name is taken: another daemon has the
  /// interface. Everything in `parts` must outlive the server.
  Server(boost::asio::io_context& context, Parts parts, const Options& options);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// Closes the socket and all clients.
  ~Server();

  struct Counters {
    std::uint64_t clients = 0;       ///< accepted
    std::uint64_t refused = 0;       ///< turned away at kMaxClients
    std::uint64_t requests = 0;      ///< understood
    std::uint64_t bad_requests = 0;  ///< not understood
    std::uint64_t denied = 0;        ///< asked for by others than root
    std::uint64_t timeouts = 0;      ///< clients cut off when nothing moved
  };
  [[nodiscard]] Counters counters() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ipoib::control
