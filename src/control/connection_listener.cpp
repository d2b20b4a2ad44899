#include "control/connection_listener.hpp"

#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <utility>

namespace ipoib::control {

namespace {
/// The pause between two connections: an operator starts few daemons and captures.
constexpr std::chrono::milliseconds kPause{50};
}  // namespace

class ConnectionListener::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(boost::asio::io_context& context, FileDescriptor socket,
       std::function<void(FileDescriptor)> accepted)
      : socket_(context, socket.release()), pause_(context), accepted_(std::move(accepted)) {}

  void wait() {
    using Socket = boost::asio::posix::stream_descriptor;
    socket_.async_wait(Socket::wait_read,
                       [self = shared_from_this()](const boost::system::error_code& error) {
                         if (!error && !self->stopped_) self->accept();
                       });
  }
  void stop() {
    stopped_ = true;
    boost::system::error_code ignored;
    socket_.close(ignored);
    pause_.cancel(ignored);
  }

 private:
  void accept() {
    constexpr int kFlags = SOCK_NONBLOCK | SOCK_CLOEXEC;
    FileDescriptor connection(::accept4(socket_.native_handle(), nullptr, nullptr, kFlags));
    pause_.expires_after(kPause);
    pause_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      if (!error && !self->stopped_) self->wait();
    });
    if (connection) accepted_(std::move(connection));
  }

  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer pause_;
  const std::function<void(FileDescriptor)> accepted_;
  bool stopped_ = false;
};

ConnectionListener::ConnectionListener(boost::asio::io_context& context, FileDescriptor socket,
                                       std::function<void(FileDescriptor)> accepted)
    : impl_(std::make_shared<Impl>(context, std::move(socket), std::move(accepted))) {
  impl_->wait();
}

ConnectionListener::~ConnectionListener() { impl_->stop(); }

}  // namespace ipoib::control
