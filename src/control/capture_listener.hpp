// Accepts those who want to capture, and reads their requests.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "control/requests.hpp"
#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"

namespace boost::asio {
class io_context;
}

namespace ipoib::control {

/// Connections whose request is awaited, at a time, and how long.
inline constexpr std::size_t kMaxAwaitedCaptures = 8;
inline constexpr std::chrono::seconds kCapturePatience{5};
/// Bytes that wait for one who reads slowly, as far as the system permits.
inline constexpr int kCaptureQueueBytes = 4 << 20;

/// Tells one who wants to capture why he cannot.
void refuse_capture(const FileDescriptor& connection, const Error& why);

/// Owns the connections until their request has come.
class CaptureListener {
 public:
  /// `socket` listens and does not block. `accepted` gets each request with its connection, which
  /// does not block and has no response yet; it is not called after the listener is destroyed.
  CaptureListener(boost::asio::io_context& context, FileDescriptor socket,
                  std::function<void(const CaptureRequest&, FileDescriptor)> accepted);
  CaptureListener(const CaptureListener&) = delete;
  CaptureListener& operator=(const CaptureListener&) = delete;
  ~CaptureListener();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ipoib::control
