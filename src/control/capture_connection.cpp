#include "control/capture_connection.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace ipoib::control {

using std::chrono::milliseconds;

Result<CaptureConnection> CaptureConnection::begin(Connection& daemon,
                                                   const CaptureRequest& request) {
  auto socket = daemon.open_capture();
  if (!socket) return socket.error();
  CaptureConnection out(daemon.interface(), std::move(*socket));
  const auto line = emit(Request(request));
  // A daemon that refuses the connection sends its reason without reading the request.
  (void)!::send(out.socket_.get(), line.data(), line.size(), MSG_NOSIGNAL);
  const auto received = out.receive(daemon.timeout());
  if (!received && received.error().code == EAGAIN) {
    return Error{
        ETIMEDOUT,
        out.interface_ +
            ": ipoibd does not respond to the request for a capture: see its log, or restart it"};
  }
  if (!received) return received.error();
  const auto text = std::string(received->begin(), received->end());
  if (const auto response = parse_response(Request(request), text); !response) {
    return response.error();
  }
  return out;
}

Result<erf::CaptureRecord> CaptureConnection::next(milliseconds timeout) {
  while (true) {
    if (reader_) {
      if (const auto record = reader_->next()) return *record;
      if (!reader_->ok()) {
        return Error{EPROTO, interface_ +
                                 ": ipoibd has sent something else than packets: restart it, or "
                                 "run the ibarp of its version"};
      }
    }
    const auto received = receive(timeout);
    if (!received) return received.error();
    reader_.emplace(*received);
    lost_ += reader_->lost();
  }
}

std::uint64_t CaptureConnection::take_lost() { return std::exchange(lost_, 0); }

Result<ConstBytes> CaptureConnection::receive(milliseconds timeout) {
  constexpr milliseconds kLongest = std::chrono::hours(1);
  const bool is_limited = timeout >= milliseconds::zero();
  pollfd waiting{socket_.get(), POLLIN, 0};
  const auto wait = static_cast<int>(is_limited ? std::min(timeout, kLongest).count() : -1);
  // A signal ends the wait, since the caller may want to end then.
  const int ready = ::poll(&waiting, 1, wait);
  const auto none = [this] {
    return Error{EAGAIN, interface_ + ": no packet has come within the time-out"};
  };
  if (ready == 0 || (ready < 0 && errno == EINTR)) return none();
  const auto size = ::recv(socket_.get(), message_.data(), message_.size(), MSG_DONTWAIT);
  if (size > 0) return ConstBytes(message_).first(static_cast<std::size_t>(size));
  if (size == 0 || errno == ECONNRESET) {
    return Error{EPIPE, interface_ + ": ipoibd has ended the capture"};
  }
  if (errno == EAGAIN) return none();
  return Error{errno, interface_ + ": " + std::generic_category().message(errno)};
}

}  // namespace ipoib::control
