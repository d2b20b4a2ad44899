// Serves lines over a Unix stream socket: a line comes, is answered by a line, and so on.
//
// Runs wholly on one io_context. Each client has one line in hand at a time and one answer on its
// way; what it sends meanwhile waits in its socket. So a client that sends much or reads slowly
// costs a bounded buffer and nobody's time, and is cut off when nothing moves for the idle timeout.
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

/// What the lines mean. Answers are whole lines, with their newline.
class LineHandler {
 public:
  using Done = std::function<void(std::string answer)>;
  virtual ~LineHandler() = default;

  /// Why a client is turned away while `clients` others are served, as the line that it is told;
  /// empty: it may come in.
  [[nodiscard]] virtual std::string refusal(const ucred& peer, std::size_t clients) = 0;
  /// Answers a line, which comes without newline, by one call of `done`, from any thread. `done`
  /// may be called after the server is gone, and does nothing then, but not after the io_context
  /// is.
  virtual void serve(std::string_view line, const ucred& peer, Done done) = 0;
  /// The answer to a line beyond the limit, after which the client is cut off.
  [[nodiscard]] virtual std::string too_long() = 0;
  /// No client can be accepted, most likely for want of descriptors; tried again in a moment.
  virtual void on_accept_failure(const std::string& why) = 0;
};

class LineServer {
 public:
  using Protocol = boost::asio::local::stream_protocol;
  struct Options {
    std::size_t max_line = 0;  ///< octets, with the newline
    std::chrono::milliseconds idle_timeout{};
  };
  struct Counters {
    std::uint64_t clients = 0;   ///< let in
    std::uint64_t refused = 0;   ///< turned away by the handler
    std::uint64_t too_long = 0;  ///< lines beyond the limit
    std::uint64_t timeouts = 0;  ///< clients cut off when nothing moved
  };

  /// Serves who comes to a socket that listens. The handler outlives the server.
  LineServer(Protocol::acceptor acceptor, LineHandler& handler, const Options& options);
  LineServer(const LineServer&) = delete;
  LineServer& operator=(const LineServer&) = delete;
  /// Closes the socket and all clients.
  ~LineServer();

  [[nodiscard]] const Counters& counters() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ipoib::lines
