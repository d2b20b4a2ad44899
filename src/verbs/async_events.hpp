// Asynchronous events of a device (IBA 11.6.3).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ipoib/result.hpp"
#include "verbs/device.hpp"

namespace ipoib::verbs {

enum class AsyncEvent : std::uint8_t {
  port_active,
  port_error,
  lid_change,
  pkey_change,
  gid_change,
  sm_change,
  client_reregister,
  queue_pair_fatal,  ///< or an overrun of a completion queue
  device_fatal,
  other,
};
[[nodiscard]] std::string_view name(AsyncEvent event);
[[nodiscard]] AsyncEvent classify(ibv_event_type type);

/// Reads a device's event descriptor without blocking. Events of other ports are skipped.
class AsyncEventReader {
 public:
  /// The number of events to take before the thread's other work gets its turn. The descriptor is
  /// still readable if there are more.
  static constexpr int kMaxEventsPerTurn = 64;

  /// Makes the device's event descriptor non-blocking; `device` must outlive this.
  [[nodiscard]] static Result<AsyncEventReader> open(const Device& device);

  [[nodiscard]] int descriptor() const { return context_->async_fd; }
  struct Event {
    AsyncEvent kind = AsyncEvent::other;
    /// The ibv_qp or ibv_cq of queue_pair_fatal, which may no longer exist.
    const void* object = nullptr;
  };
  /// Returns the next event, already acknowledged; nullopt if there is none, or none of this port
  /// among the next kMaxEventsPerTurn.
  [[nodiscard]] std::optional<Event> next();

 private:
  AsyncEventReader(ibv_context* context, std::uint8_t port) : context_(context), port_(port) {}

  ibv_context* context_;
  std::uint8_t port_;
};

}  // namespace ipoib::verbs
