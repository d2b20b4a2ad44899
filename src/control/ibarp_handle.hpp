// libibarp: the handle, and the failures of functions that take one.
#pragma once

#include <cerrno>
#include <memory>
#include <string>

#include "control/capture_connection.hpp"
#include "control/connection.hpp"
#include "control/ibarp_values.hpp"
#include "control/protocol.hpp"

namespace ipoib::control {

/// The event that ibarp_next_event() has returned last, with the C structures that refer to it.
struct CurrentEvent {
  Event event;
  std::string changed{};
  ibarp_entry entry{};
  ibarp_info info{};
  ibarp_group group{};
  ibarp_station station{};
};

}  // namespace ipoib::control

struct ibarp {
  ipoib::control::Connection connection;
  std::string error;
  std::string warning{};
  ipoib::control::InterfaceInfo info;  ///< keeps the texts of the last ibarp_get_info()
  /// The connection of the subscription, apart so that requests are possible, too; null without
  /// one.
  std::unique_ptr<ipoib::control::Connection> subscription{};
  std::unique_ptr<ipoib::control::CurrentEvent> current{};  ///< null before the first event
  /// A separate connection on which the response to `request` is awaited.
  struct Resolving {
    ipoib::control::Connection connection;
    ipoib::control::Request request;
  };
  std::unique_ptr<ipoib::control::CaptureConnection> capture{};  ///< null without one
  std::unique_ptr<Resolving> resolving{};  ///< null if nothing is being resolved
};

namespace ipoib::control {

inline int refuse(ibarp* handle, const Error& error) {
  handle->error = error.message;
  return error.code == 0 ? -EIO : -error.code;
}

inline int invalid(ibarp* handle, const char* what) { return refuse(handle, Error{EINVAL, what}); }

/// Runs the body of a function that takes a handle.
template <class Call>
int with(ibarp* handle, Call call) noexcept {
  if (handle == nullptr) return -EINVAL;
  handle->error.clear();
  handle->warning.clear();
  const int result = guarded(call);
  if (result == -ENOMEM) {
    guarded([&] {
      return refuse(handle,
                    Error{ENOMEM, "not enough memory: free some, or raise the limit (ulimit -v)"});
    });
  }
  return result;
}

}  // namespace ipoib::control
