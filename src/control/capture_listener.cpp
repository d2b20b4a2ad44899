#include "control/capture_listener.hpp"

#include <sys/socket.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "control/connection_listener.hpp"
#include "control/protocol.hpp"

namespace ipoib::control {

namespace asio = boost::asio;

namespace {

/// Without the right to exceed the system's limit, the queue is as long as that permits.
void make_queue(int connection) {
  const int size = kCaptureQueueBytes;
  if (::setsockopt(connection, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) == 0) return;
  (void)::setsockopt(connection, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
}

}  // namespace

void refuse_capture(const FileDescriptor& connection, const Error& why) {
  const auto line = emit(Response(why));
  (void)!::send(connection.get(), line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

class CaptureListener::Impl : public std::enable_shared_from_this<Impl> {
 public:
  using Accepted = std::function<void(const CaptureRequest&, FileDescriptor)>;

  Impl(asio::io_context& context, Accepted accepted)
      : context_(context), accepted_(std::move(accepted)) {}

  void listen(FileDescriptor socket) {
    listener_.emplace(context_, std::move(socket),
                      [this](FileDescriptor connection) { await_request(std::move(connection)); });
  }
  void stop();

 private:
  /// A connection whose request is awaited.
  struct Awaited {
    Awaited(asio::io_context& context, FileDescriptor connection)
        : socket(context, connection.release()), timer(context) {}
    asio::posix::stream_descriptor socket;
    asio::steady_timer timer;
  };
  using AwaitedPtr = std::shared_ptr<Awaited>;

  void await_request(FileDescriptor connection);
  void on_request(const AwaitedPtr& from);
  void forget(const AwaitedPtr& from);

  asio::io_context& context_;
  const Accepted accepted_;
  std::optional<ConnectionListener> listener_;
  std::set<AwaitedPtr> awaited_;
  bool stopped_ = false;
};

void CaptureListener::Impl::await_request(FileDescriptor connection) {
  if (awaited_.size() >= kMaxAwaitedCaptures) {
    return refuse_capture(connection, Error{EBUSY, "too many captures begin; try later"});
  }
  make_queue(connection.get());
  const auto one = std::make_shared<Awaited>(context_, std::move(connection));
  awaited_.insert(one);
  one->timer.expires_after(kCapturePatience);
  one->timer.async_wait([self = shared_from_this(), one](const boost::system::error_code& error) {
    if (!error && !self->stopped_) self->forget(one);
  });
  one->socket.async_wait(asio::posix::stream_descriptor::wait_read,
                         [self = shared_from_this(), one](const boost::system::error_code& error) {
                           if (!error && !self->stopped_) self->on_request(one);
                         });
}

void CaptureListener::Impl::on_request(const AwaitedPtr& from) {
  FileDescriptor connection(from->socket.release());
  forget(from);
  std::array<char, kMaxRequestLine> text{};
  const auto size = ::recv(connection.get(), text.data(), text.size(), MSG_DONTWAIT);
  if (size <= 0) return;
  const auto request = parse_request(std::string_view(text.data(), static_cast<std::size_t>(size)));
  if (!request) return refuse_capture(connection, request.error());
  const auto* const capture = std::get_if<CaptureRequest>(&*request);
  if (capture == nullptr) {
    return refuse_capture(connection, Error{EINVAL, "this socket is for captures"});
  }
  accepted_(*capture, std::move(connection));
}

void CaptureListener::Impl::forget(const AwaitedPtr& from) {
  boost::system::error_code ignored;
  from->timer.cancel(ignored);
  from->socket.close(ignored);
  awaited_.erase(from);
}

void CaptureListener::Impl::stop() {
  stopped_ = true;
  listener_.reset();
  while (!awaited_.empty()) forget(AwaitedPtr(*awaited_.begin()));
}

CaptureListener::CaptureListener(
    asio::io_context& context, FileDescriptor socket,
    std::function<void(const CaptureRequest&, FileDescriptor)> accepted)
    : impl_(std::make_shared<Impl>(context, std::move(accepted))) {
  impl_->listen(std::move(socket));
}

CaptureListener::~CaptureListener() { impl_->stop(); }

}  // namespace ipoib::control
