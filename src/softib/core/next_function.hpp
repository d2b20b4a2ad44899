// For C functions that libsoftib.so defines in place of those of the C library.
#pragma once

#include <dlfcn.h>

#include <atomic>

namespace softib {

/// The next definition of a function, after this library. dlsym(3) is not async-signal-safe, so
/// functions that have to be call get() before, from a constructor.
template <class Function>
class NextFunction {
 public:
  explicit constexpr NextFunction(const char* name) : name_(name) {}
  Function* get() {
    Function* function = function_.load(std::memory_order_relaxed);
    if (function == nullptr) {
      function = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name_));
      function_.store(function, std::memory_order_relaxed);
    }
    return function;
  }

 private:
  const char* const name_;
  std::atomic<Function*> function_ = nullptr;
};

}  // namespace softib
