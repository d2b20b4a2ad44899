// One client of the control server: reads a line, has it answered, writes the answer, and so on.
//
// At any time exactly one of the three is under way, and a timer runs that ends the session when it
// takes too long. What a client sends meanwhile waits in its socket, so a session never holds more
// than one request line and one response line.
#pragma once

#include <sys/socket.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "control/protocol.hpp"

namespace ipoib::control {

class Session : public std::enable_shared_from_this<Session> {
 public:
  using Socket = boost::asio::local::stream_protocol::socket;

  /// What a session asks of its server. The server takes itself out, by stop(), before it dies.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// Answers by one call of `done`, from any thread.
    virtual void serve(const Session& from, Request request,
                       std::function<void(Response)> done) = 0;
    virtual void count_bad_request() = 0;
    virtual void count_timeout() = 0;
    /// The session has ended.
    virtual void forget(const std::shared_ptr<Session>& session) = 0;
  };

  Session(Socket socket, const ucred& peer, Owner& owner, std::chrono::milliseconds timeout);

  void start() { read_line(); }
  /// Closes the socket; the owner is not called any more.
  void stop();
  [[nodiscard]] const ucred& peer() const { return peer_; }

 private:
  void read_line();
  void on_line(std::size_t size);
  void on_response(std::uint64_t turn, const Response& response);
  void write(const Response& response, bool then_close);
  /// Ends the session unless the next step begins in time.
  void arm();
  void end();

  Socket socket_;
  ucred peer_;
  Owner* owner_;  ///< nullptr after stop() and end()
  std::chrono::milliseconds timeout_;
  boost::asio::steady_timer timer_;
  std::string input_;
  std::string output_;
  std::uint64_t turn_ = 0;  ///< which request is in hand: a late answer is not taken for another's
};

}  // namespace ipoib::control
