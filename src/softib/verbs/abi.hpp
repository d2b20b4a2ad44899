// Needed by each function of the verbs ABI: it is exported, and throws nothing.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <new>
#include <system_error>
#include <type_traits>

#include "ipoib/result.hpp"

/// Begins the definition of each function that programs call by name.
#define SOFTIB_ABI extern "C" __attribute__((visibility("default")))

namespace softib::verbs {

/// Runs the body of a verb, which returns Result<void> or Result<T*>. An error or an exception sets
/// errno and becomes the errno value or a null pointer.
template <class Body>
auto verb(Body&& body) noexcept {
  using Value = typename std::invoke_result_t<Body>::value_type;
  int error = EIO;
  try {
    auto outcome = body();
    if constexpr (std::is_void_v<Value>) {
      if (outcome) return 0;
    } else {
      if (outcome) return *outcome;
    }
    error = outcome.error().code;
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
  } catch (const std::system_error& thrown) {
    error = thrown.code().value();
  } catch (...) {
  }
  errno = error;
  if constexpr (std::is_void_v<Value>) {
    return error;
  } else {
    return Value{nullptr};
  }
}

[[nodiscard]] inline ipoib::Error unsupported(const char* what) { return {EOPNOTSUPP, what}; }

/// For the verbs that return -1.
[[nodiscard]] inline int minus_one_if(int error) { return error == 0 ? 0 : -1; }

}  // namespace softib::verbs
