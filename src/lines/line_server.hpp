// Serves lines over a Unix stream socket: each line from a client gets one line in response.
//
// Runs on one io_context. Handles one line of each client at a time; further ones wait in the
// client's socket. A client that sends fast or reads slowly thus uses a bounded buffer, and is
// disconnected when nothing moves for the idle timeout.
//
// A response may open a stream: from then on the client gets lines that the handler pushes, and
// sends nothing; if it does, or closes, it is disconnected. The lines wait in a bounded queue. What
// does not fit is lost, and once the client has read the queue it is told how much that was. So a
// client that does not read costs its queue, and may go on reading at any time.
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
#include <utility>

namespace ipoib::lines {

/// The server's side of a client that gets lines. For the thread of the io_context only.
class LineStream {
 public:
  virtual ~LineStream() = default;
  /// Sends a line, which ends with a newline; several streams may share it. Does nothing once the
  /// stream is closed.
  virtual void push(const std::shared_ptr<const std::string>& line) = 0;
  [[nodiscard]] virtual bool is_open() const = 0;
};

/// A response to a line, which ends with a newline.
struct Answer {
  Answer(std::string line) : text(std::move(line)) {}  // NOLINT: most answers are a text
  Answer(const char* line) : text(line) {}             // NOLINT
  /// Opens a stream, which is passed to `use` on the thread of the io_context.
  Answer(std::string line, std::function<void(std::shared_ptr<LineStream>)> use)
      : text(std::move(line)), open(std::move(use)) {}

  std::string text;
  std::function<void(std::shared_ptr<LineStream>)> open;  ///< empty: no stream
};

/// Responds to lines.
class LineHandler {
 public:
  using Done = std::function<void(Answer)>;
  virtual ~LineHandler() = default;

  /// Responds to a line, given without newline, by calling `done` once, from any thread. `done`
  /// does nothing once the server is destroyed, but needs the io_context.
  virtual void serve(std::string_view line, const ucred& peer, Done done) = 0;
  /// The response to a line beyond the limit; the client is then disconnected.
  [[nodiscard]] virtual std::string too_long() = 0;
  /// What a client beyond the limits is told before it is disconnected.
  [[nodiscard]] virtual std::string too_many_clients() = 0;
  /// The response instead of one that opens a stream beyond the limits.
  [[nodiscard]] virtual std::string too_many_streams() { return too_many_clients(); }
  /// Tells the client of a stream how many lines it has lost.
  [[nodiscard]] virtual std::string lost(std::uint64_t /*lines*/) { return {}; }
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
    /// How many of the clients may have a stream.
    std::size_t max_streams = 0;
    std::size_t max_streams_per_user = 0;
    std::size_t max_stream_bytes = 0;  ///< of the lines that wait in a stream
  };
  struct Counters {
    std::uint64_t clients = 0;   ///< accepted
    std::uint64_t refused = 0;   ///< beyond the limits on clients
    std::uint64_t delayed = 0;   ///< lines beyond the rate
    std::uint64_t too_long = 0;  ///< lines beyond the limit
    std::uint64_t timeouts = 0;  ///< clients disconnected when nothing moved
    std::uint64_t streams = 0;   ///< opened
    std::uint64_t lost = 0;      ///< lines of streams
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
