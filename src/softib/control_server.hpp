// Serves the control socket of a subnet: bounded clients, bounded lines, one request of a client at
// a time. Runs wholly on one io_context.
#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "ipoib/result.hpp"
#include "softib/control_protocol.hpp"

namespace boost::asio {
class io_context;
}

namespace softib {

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

class ControlServer {
 public:
  struct Counters {
    std::uint64_t requests = 0;      ///< understood
    std::uint64_t bad_requests = 0;  ///< not understood, or too long
    std::uint64_t denied = 0;        ///< from another user than the subnet's or root
    std::uint64_t turned_away = 0;   ///< at kMaxControlClients
    std::uint64_t timeouts = 0;      ///< clients cut off when nothing moved
  };

  /// Listens at `path`; a socket that is there is a dead subnet's. Throws std::system_error. The
  /// handler outlives the server.
  ControlServer(boost::asio::io_context& context, const std::string& path, ControlHandler& handler);
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;
  /// Closes the socket and all clients, and takes the socket's name away.
  ~ControlServer();

  [[nodiscard]] const Counters& counters() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace softib
