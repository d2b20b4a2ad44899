#include "program/progress.hpp"

#include <unistd.h>

#include <cstdio>
#include <system_error>
#include <utility>

namespace ipoib::program {

namespace {
constexpr std::chrono::seconds kProgressInterval{1};
/// How often BlockingProgress looks whether a second has gone by.
constexpr std::chrono::milliseconds kLookInterval{200};
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

std::atomic<bool> BlockingProgress::is_shown_{false};

BlockingProgress::BlockingProgress(std::string text) : text_(std::move(text)) {
  if (::isatty(STDERR_FILENO) != 1 || is_shown_.exchange(true)) return;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    is_shown_ = false;  // at the limit of processes the command goes on without
  }
}

BlockingProgress::~BlockingProgress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_ended_ = true;
  }
  ended_.notify_one();
  thread_.join();
  is_shown_ = false;
}

void BlockingProgress::run() {
  Progress progress;
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, kLookInterval, [this] { return is_ended_; })) {
    progress.show(text_);
  }
}

}  // namespace ipoib::program
