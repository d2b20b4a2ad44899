// For constructors of the subnet process.
#pragma once

#include <stdexcept>
#include <type_traits>
#include <utility>

#include "ipoib/result.hpp"

namespace softib::subnetd {

/// Throws std::runtime_error with the message, which is for the user.
template <class T>
T value_or_throw(ipoib::Result<T>&& result) {
  if (!result) throw std::runtime_error(result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace softib::subnetd
