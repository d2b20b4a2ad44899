#include "program/progress.hpp"

#include <unistd.h>

#include <cstdio>

namespace ipoib::program {

namespace {
constexpr std::chrono::seconds kProgressInterval{1};
}  // namespace

Progress::Progress()
    : is_terminal_(::isatty(STDERR_FILENO) == 1), next_(Clock::now() + kProgressInterval) {}

void Progress::show(const std::string& text) {
  const auto now = Clock::now();
  if (!is_terminal_ || now < next_) return;
  next_ = now + kProgressInterval;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - begin_).count();
  std::fprintf(stderr, "\r%s, %lld s\033[K", text.c_str(), static_cast<long long>(seconds));
  is_shown_ = true;
}

void Progress::clear() {
  if (!is_shown_) return;
  std::fputs("\r\033[K", stderr);
  is_shown_ = false;
}

}  // namespace ipoib::program
