// Serves the control socket of a subnet: bounded clients, bounded lines, one request of a client at
// a time. Runs wholly on one io_context.
#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "ipoib/log_fwd.hpp"
#include "ipoib/result.hpp"
#include "softib/control/protocol.hpp"

namespace boost::asio {
class io_context;
}

namespace softib::control {

inline constexpr std::size_t kMaxControlClients = 64;
inline constexpr std::chrono::seconds kControlIdleTimeout{30};

/// Who answers the requests.
class ControlHandler {
 public:
  virtual ~ControlHandler() = default;
  /// What the answer has besides "ok".
  [[nodiscard]] virtual ipoib::Result<boost::json::object> handle(
      const control::Request& request) = 0;
};

/// What it counts is in the answers to `show`.
class ControlServer {
 public:
  /// Listens at `path`; a socket that is there is a dead subnet's. Throws std::runtime_error.
  /// Handler and log outlive the server.
  ControlServer(boost::asio::io_context& context, const std::string& path, ControlHandler& handler,
                ipoib::Logger& log);
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;
  /// Closes the socket and all clients, and takes the socket's name away.
  ~ControlServer();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace softib::control
