// libibarp: captures.
#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>

#include "control/ibarp_handle.hpp"

using namespace ipoib;           // NOLINT: the C functions are in no namespace
using namespace ipoib::control;  // NOLINT

extern "C" {

int ibarp_capture(ibarp* handle, const ibarp_address* neighbour) {
  return with(handle, [&] {
    CaptureRequest request;
    if (neighbour != nullptr) {
      request.neighbour = from_c(*neighbour);
      if (!request.neighbour) return invalid(handle, "not an IP address");
    }
    auto begun = CaptureConnection::begin(handle->connection, request);
    if (!begun) return refuse(handle, begun.error());
    handle->capture = std::make_unique<CaptureConnection>(std::move(*begun));
    return 0;
  });
}

void ibarp_capture_end(ibarp* handle) {
  if (handle != nullptr) handle->capture.reset();
}

int ibarp_capture_fd(const ibarp* handle) {
  return handle == nullptr || handle->capture == nullptr ? -ENOTCONN
                                                         : handle->capture->descriptor();
}

int ibarp_next_packet(ibarp* handle, ibarp_packet* packet, int milliseconds) {
  return with(handle, [&] {
    if (handle->capture == nullptr) return refuse(handle, Error{ENOTCONN, "there is no capture"});
    const auto next = handle->capture->next(std::chrono::milliseconds(milliseconds));
    if (!next) {
      if (next.error().code != EAGAIN) ibarp_capture_end(handle);
      return refuse(handle, next.error());
    }
    ibarp_packet out{};
    out.size = sizeof(out);
    out.when_ns = next->nanoseconds;
    out.is_received = next->is_received ? 1 : 0;
    out.length = next->packet.size();
    out.bytes = next->packet.data();
    out.lost = handle->capture->take_lost();
    return give(out, packet) ? 0 : invalid(handle, "packet->size is not set");
  });
}

}  // extern "C"
