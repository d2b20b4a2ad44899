// The captures of a subnet (`softib capture`): who captures what, and until when.
//
// This process, too, connects to the socket of the process that captures. The capture ends when
// that connection does.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ipoib/result.hpp"
#include "softib/control/protocol.hpp"
#include "softib/fabric/capture_slots.hpp"
#include "softib/fabric/folder.hpp"

namespace softib::subnetd {

/// Owns the connections to the processes that capture. For the thread of the io_context.
class Captures {
 public:
  /// `changed` is called after each change. `folder` must outlive it.
  Captures(boost::asio::io_context& context, const fabric::SubnetFolder& folder,
           std::function<void()> changed)
      : context_(context), folder_(folder), changed_(std::move(changed)) {}
  Captures(const Captures&) = delete;
  Captures& operator=(const Captures&) = delete;
  ~Captures() { *alive_ = false; }

  /// Fails with EBUSY beyond fabric::kMaxCaptures, EEXIST for an id that is in use, and if nobody
  /// listens at the socket of the capture.
  [[nodiscard]] ipoib::Result<void> begin(const control::Capture& request);
  /// Removes the socket of the capture, too. Nothing happens if there is none.
  void end(fabric::CaptureId id);
  void end_all();
  /// The word of a node in the fabric file.
  [[nodiscard]] std::uint64_t word_of(std::string_view hca) const;

 private:
  struct Running {
    control::Capture request;
    std::unique_ptr<boost::asio::posix::stream_descriptor> connection;
  };

  boost::asio::io_context& context_;
  const fabric::SubnetFolder& folder_;
  const std::function<void()> changed_;
  std::vector<Running> running_;
  /// False once this object is destroyed; handlers that are still posted check it.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace softib::subnetd
