// Serves the control protocol on the abstract socket @ipoibd/<interface> in the network namespace
// of the calling thread.
//
// Runs on one io_context, that of the control thread. lines/line_server.hpp describes the limits
// for each client.
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

/// Clients at a time. kReservedForRoot of them are reserved, so that other users cannot lock out
/// root.
inline constexpr std::size_t kMaxClients = 32;
inline constexpr std::size_t kReservedForRoot = 8;
inline constexpr std::chrono::seconds kIdleTimeout{60};

/// The interface as the server sees it; implemented by the daemon.
class Handler {
 public:
  virtual ~Handler() = default;

  /// Carries out one request and calls `done` once with the response, now or later, from any
  /// thread. `done` does nothing once the server is destroyed, but needs the io_context.
  virtual void handle(InterfaceRequest request, std::function<void(Response)> done) = 0;
  /// Finds the members of a group, and calls `done` as handle() does.
  virtual void find_members(const Gid& mgid, std::function<void(Response)> done) = 0;
  /// Adds an interface of the same daemon, and calls `done` as handle() does.
  virtual void add_interface(const AddInterfaceRequest& request,
                             std::function<void(Response)> done) = 0;
  /// Deletes the interface itself, and calls `done` as handle() does. The server may be destroyed
  /// by a later handler of the io_context: by then the response is written.
  virtual void delete_interface(std::function<void(Response)> done) = 0;
};

class Server {
 public:
  struct Dependencies {
    Handler& handler;
    LogLevels& levels;
    const TraceRings& trace;
    Logger& log;
  };
  struct Options {
    std::string interface;
    std::chrono::milliseconds idle_timeout = kIdleTimeout;
  };

  /// Binds and listens. Throws std::system_error if another daemon has bound the name.
  /// `dependencies` must outlive the server.
  Server(boost::asio::io_context& context, Dependencies dependencies, const Options& options);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// Closes the socket and all connections.
  ~Server();

  struct Counters {
    std::uint64_t clients = 0;       ///< accepted
    std::uint64_t refused = 0;       ///< beyond the limit on clients
    std::uint64_t requests = 0;      ///< valid
    std::uint64_t bad_requests = 0;  ///< invalid
    std::uint64_t denied = 0;        ///< only root may make them
    std::uint64_t timeouts = 0;      ///< connections closed for lack of progress
  };
  [[nodiscard]] Counters counters() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ipoib::control
