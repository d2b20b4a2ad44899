#include "lines/client_acceptor.hpp"

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <utility>

namespace ipoib::lines {

using boost::system::error_code;

namespace {

/// Time until the next accept after a failure, most likely for lack of descriptors.
constexpr std::chrono::milliseconds kAcceptPause{200};

}  // namespace

/// What is under way keeps it alive.
struct ClientAcceptor::State : std::enable_shared_from_this<State> {
  State(Protocol::acceptor from, OnClient client, OnFailure failure)
      : acceptor(std::move(from)),
        pause(acceptor.get_executor()),
        on_client(std::move(client)),
        on_failure(std::move(failure)) {}

  void accept() {
    acceptor.async_accept([self = shared_from_this()](error_code error, Protocol::socket socket) {
      if (self->is_stopped) return;
      if (error) return self->fail(error);
      self->on_client(std::move(socket));
      if (!self->is_stopped) self->accept();
    });
  }
  void fail(error_code error) {
    on_failure(error.message());
    pause.expires_after(kAcceptPause);
    pause.async_wait([self = shared_from_this()](error_code) {
      if (!self->is_stopped) self->accept();
    });
  }

  Protocol::acceptor acceptor;
  boost::asio::steady_timer pause;
  const OnClient on_client;
  const OnFailure on_failure;
  bool is_stopped = false;
};

ClientAcceptor::ClientAcceptor(Protocol::acceptor acceptor, OnClient on_client,
                               OnFailure on_failure)
    : state_(std::make_shared<State>(std::move(acceptor), std::move(on_client),
                                     std::move(on_failure))) {}

void ClientAcceptor::start() { state_->accept(); }

void ClientAcceptor::stop() {
  state_->is_stopped = true;
  error_code ignored;
  state_->acceptor.close(ignored);
  state_->pause.cancel(ignored);
}

ClientAcceptor::Protocol::acceptor::executor_type ClientAcceptor::executor() {
  return state_->acceptor.get_executor();
}

}  // namespace ipoib::lines
