// Included in every source of a build with faults (mutations.py); never in another build.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <type_traits>

namespace ipoib_mutation {

/// What the environment variable IPOIB_MUTATION says: the number of a fault, or the path of a file
/// with a byte for each fault, which becomes 1 when its switch is reached.
struct Selection {
  Selection() {
    const std::string_view text =
        std::getenv("IPOIB_MUTATION") != nullptr ? std::getenv("IPOIB_MUTATION") : "";
    if (!text.starts_with('/')) {
      number = std::atoi(text.data());
      return;
    }
    // Not open(2), which softib defines: that may have faults, too.
    const int file =
        static_cast<int>(::syscall(SYS_openat, AT_FDCWD, text.data(), O_RDWR | O_CLOEXEC));
    const off_t size = ::lseek(file, 0, SEEK_END);
    if (size <= 0) return;
    void* const mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) reached = static_cast<volatile char*>(mapped);
    ::close(file);
  }

  int number = 0;
  volatile char* reached = nullptr;
};

inline bool is_selected(int number) {
  static const Selection selection;
  if (selection.reached != nullptr) selection.reached[number] = 1;
  return selection.number == number;
}
/// So that a sandbox does not forbid the file.
inline const bool kIsPrepared = is_selected(0);

#ifdef IPOIB_MUTATION_CHECK
/// A fault in a constant expression has no effect at run time: it does not pass the check.
bool active(int number);
#else
/// Whether IPOIB_MUTATION names this fault. Never in a constant expression.
constexpr bool active(int number) { return !std::is_constant_evaluated() && is_selected(number); }
#endif

/// A mutex in place of this one.
template <typename Mutex>
Mutex& unused(Mutex&) {
  thread_local Mutex mutex;
  return mutex;
}

}  // namespace ipoib_mutation
