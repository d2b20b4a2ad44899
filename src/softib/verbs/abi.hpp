// Needed by each function of the verbs ABI: it is exported, throws nothing, and its thread cannot
// be cancelled in it.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <new>
#include <string>
#include <system_error>
#include <type_traits>

#include "ipoib/result.hpp"
#include "softib/core/no_cancellation.hpp"
#include "softib/verbs/last_error.hpp"

/// Begins the definition of each function that programs call by name.
#define SOFTIB_ABI extern "C" __attribute__((visibility("default")))

namespace softib::verbs {

/// Runs the body of a verb, which returns Result<void> or Result<T*>. An error or an exception sets
/// errno and becomes the errno value or a null pointer; its text is the last error of the thread.
template <class Body>
auto verb(Body&& body, const char* name = __builtin_FUNCTION()) noexcept {
  const NoCancellation whole;
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
    set_last_error(name, error, outcome.error().message.c_str());
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
    set_last_error(name, error, "no memory");
  } catch (const std::system_error& thrown) {
    error = thrown.code().value();
    set_last_error(name, error, thrown.what());
  } catch (...) {
    set_last_error(name, error, "an unexpected exception");
  }
  errno = error;
  if constexpr (std::is_void_v<Value>) {
    return error;
  } else {
    return Value{nullptr};
  }
}

[[nodiscard]] inline ipoib::Error unsupported(const char* what) {
  return {EOPNOTSUPP, std::string(what) + " is not supported"};
}

/// The result of verbs that return -1 on failure.
[[nodiscard]] inline int minus_one_if(int error) { return error == 0 ? 0 : -1; }

}  // namespace softib::verbs
