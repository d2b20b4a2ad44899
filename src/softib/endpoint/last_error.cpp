#include "softib/endpoint/last_error.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "ipoib/monotonic_clock.hpp"

namespace softib::endpoint {
namespace {

using Text = std::array<char, kMaxErrorText>;

thread_local Text last{};
PrintLimit print_limit;

bool is_printing() {
  const char* const value = ::secure_getenv("SOFTIB_LOG");
  const std::string_view text = value == nullptr ? "" : value;
  return !text.empty() && text != "0";
}

/// Prints with one system call, so that lines of several threads do not mix.
void print(const Text& text, std::uint32_t skipped) {
  std::array<char, kMaxErrorText + 80> line;
  const int size = skipped == 0
                       ? std::snprintf(line.data(), line.size(), "softib: %s\n", text.data())
                       : std::snprintf(line.data(), line.size(),
                                       "softib: %s (%u failures before were not printed)\n",
                                       text.data(), skipped);
  if (size > 0) (void)!::write(STDERR_FILENO, line.data(), static_cast<std::size_t>(size));
}

}  // namespace

std::optional<std::uint32_t> PrintLimit::admit(ipoib::TimePoint now) {
  const auto second =
      std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  if (second_.exchange(second) != second) printed_ = 0;
  if (printed_.fetch_add(1) < kPrintedPerSecond) return skipped_.exchange(0);
  ++skipped_;
  return std::nullopt;
}

void set_last_error(const char* function, int code, const char* why) noexcept {
  const char* const name = ::strerrorname_np(code);
  (void)std::snprintf(last.data(), last.size(), "%s: %s: %s", function,
                      name != nullptr ? name : "error", why);
  if (!is_printing()) return;
  if (const auto skipped = print_limit.admit(ipoib::monotonic_now())) print(last, *skipped);
}

const char* last_error() noexcept { return last.data(); }

}  // namespace softib::endpoint
