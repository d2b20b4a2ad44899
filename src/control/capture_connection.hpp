// The client's side of a capture, on the socket for captures:
//
//   -> {"op":"capture","neighbour":"10.44.0.2"}
//   <- {"ok":true}
//   <- messages of erf/capture_messages.hpp
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "control/connection.hpp"
#include "erf/capture_messages.hpp"
#include "ipoib/file_descriptor.hpp"

namespace ipoib::control {

/// Owns the connection that carries the packets, and the last message of it. For one thread.
class CaptureConnection {
 public:
  /// Begins a capture on the interface of `daemon`. Fails as Connection::open_capture() does, with
  /// ETIMEDOUT, EPIPE or EPROTO, or with the daemon's error.
  [[nodiscard]] static Result<CaptureConnection> begin(Connection& daemon,
                                                       const CaptureRequest& request);

  /// The next packet, which is valid until the next call. Waits for so long at most; a negative
  /// time-out means no limit. Fails with EAGAIN if there is none in time, EPIPE when the daemon has
  /// ended, and EPROTO.
  [[nodiscard]] Result<erf::CaptureRecord> next(std::chrono::milliseconds timeout);
  /// The packets that were left out before the last packet and not reported before; sets it to 0.
  [[nodiscard]] std::uint64_t take_lost();
  /// Readable when there may be a packet, unless the last message has more of them, so call next()
  /// until EAGAIN.
  [[nodiscard]] int descriptor() const { return socket_.get(); }

 private:
  CaptureConnection(std::string interface, FileDescriptor socket)
      : interface_(std::move(interface)), socket_(std::move(socket)) {}
  [[nodiscard]] Result<ConstBytes> receive(std::chrono::milliseconds timeout);

  std::string interface_;
  FileDescriptor socket_;
  std::vector<std::uint8_t> message_ = std::vector<std::uint8_t>(erf::kMaxCaptureMessage);
  std::optional<erf::CaptureMessageReader>
      reader_;  ///< of the message; its memory stays where it is
  std::uint64_t lost_ = 0;
};

}  // namespace ipoib::control
