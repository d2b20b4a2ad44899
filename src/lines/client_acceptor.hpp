// Accepts the clients of a Unix socket, one after the other.
#pragma once

#include <boost/asio/local/stream_protocol.hpp>
#include <functional>
#include <memory>
#include <string>

namespace ipoib::lines {

class ClientAcceptor {
 public:
  using Protocol = boost::asio::local::stream_protocol;
  using OnClient = std::function<void(Protocol::socket)>;
  /// Why a client was not accepted. It is tried again after a pause.
  using OnFailure = std::function<void(const std::string&)>;

  ClientAcceptor(Protocol::acceptor acceptor, OnClient on_client, OnFailure on_failure);
  ClientAcceptor(const ClientAcceptor&) = delete;
  ClientAcceptor& operator=(const ClientAcceptor&) = delete;
  ~ClientAcceptor() { stop(); }

  void start();
  /// Closes the socket. Nothing is called any more.
  void stop();
  [[nodiscard]] Protocol::acceptor::executor_type executor();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ipoib::lines
