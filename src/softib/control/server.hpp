// Serves the control socket of a subnet. Bounds the number of clients and the length of lines; each
// client has one request in progress at a time. Runs on one io_context.
#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "ipoib/log_fwd.hpp"
#include "ipoib/result.hpp"
#include "softib/control/protocol.hpp"
#include "softib/fabric/folder.hpp"

namespace boost::asio {
class io_context;
}

namespace softib::control {

inline constexpr std::size_t kMaxClients = 64;
inline constexpr std::size_t kMaxClientsPerUser = 48;
inline constexpr std::chrono::seconds kIdleTimeout{30};

class RequestHandler {
 public:
  virtual ~RequestHandler() = default;
  /// Returns the node of an HCA, and adds it if there is none of that name.
  [[nodiscard]] virtual ipoib::Result<NodeIndex> attach(const fabric::HcaName& hca) = 0;
  /// Returns the content of the response.
  [[nodiscard]] virtual ipoib::Result<boost::json::object> handle(const Request& request) = 0;
};

/// Adds its counters to the responses to `show`.
class Server {
 public:
  /// Listens at `path`, where it replaces the socket of a dead subnet process. Throws
  /// std::runtime_error. Handler and log must outlive the server.
  Server(boost::asio::io_context& context, const std::string& path, RequestHandler& handler,
         ipoib::Logger& log);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// Closes and unlinks the socket, and disconnects all clients.
  ~Server();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace softib::control
