// Serves lines over a Unix stream socket: each line from a client gets one line in response.
//
// Runs on one io_context. Handles one line of each client at a time; further ones wait in the
// client's socket. A client that sends fast or reads slowly thus uses a bounded buffer, and is
// disconnected when nothing moves for the idle timeout.
//
// With a limited rate, lines beyond it wait their turn. Equal lines that wait are served once, and
// all their clients get that response: it is as new as the last of them could expect.
#pragma once

#include <sys/socket.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace ipoib::lines {

/// Responds to lines. Responses end with a newline.
class LineHandler {
 public:
  using Done = std::function<void(std::string response)>;
  virtual ~LineHandler() = default;

  /// Responds to a line, given without newline, by calling `done` once, from any thread. `done`
  /// does nothing once the server is destroyed, but needs the io_context.
  virtual void serve(std::string_view line, const ucred& peer, Done done) = 0;
  /// The response to a line beyond the limit; the client is then disconnected.
  [[nodiscard]] virtual std::string too_long() = 0;
  /// What a client beyond the limits is told before it is disconnected.
  [[nodiscard]] virtual std::string too_many_clients() = 0;
  /// Accepting failed, most likely for lack of descriptors; the server tries again.
  virtual void on_accept_failure(const std::string& why) = 0;
};

class LineServer {
 public:
  using Protocol = boost::asio::local::stream_protocol;
  /// `burst` lines at once, then one more after each interval; no limit if that is zero.
  struct Rate {
    unsigned burst = 1;
    std::chrono::nanoseconds interval{};
  };
  struct Options {
    std::size_t max_line = 0;  ///< bytes, with the newline
    std::chrono::milliseconds idle_timeout{};
    std::size_t max_clients = 0;
    std::size_t max_clients_per_user = 0;
    Rate rate{};  ///< of all clients together
  };
  struct Counters {
    std::uint64_t clients = 0;   ///< accepted
    std::uint64_t refused = 0;   ///< beyond the limits on clients
    std::uint64_t delayed = 0;   ///< lines beyond the rate
    std::uint64_t too_long = 0;  ///< lines beyond the limit
    std::uint64_t timeouts = 0;  ///< clients disconnected when nothing moved
  };

  /// Serves the clients of a listening socket. The handler outlives the server.
  LineServer(Protocol::acceptor acceptor, LineHandler& handler, const Options& options);
  LineServer(const LineServer&) = delete;
  LineServer& operator=(const LineServer&) = delete;
  /// Closes the socket and all connections.
  ~LineServer();

  [[nodiscard]] const Counters& counters() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ipoib::lines
