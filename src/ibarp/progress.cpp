#include "progress.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace ipoib::ibarp {

namespace {
constexpr std::chrono::seconds kProgressInterval{1};
constexpr int kReadMs = 200;
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

int resolve_patiently(const Client& client, const ibarp_address& address, int milliseconds,
                      ibarp_path& path) {
  const int descriptor = ibarp_resolve_start(client.get(), &address, milliseconds);
  if (descriptor < 0) return descriptor;
  Progress progress;
  while (true) {
    pollfd waiting{descriptor, POLLIN, 0};
    (void)::poll(&waiting, 1, kReadMs);
    path.size = sizeof(path);
    const int result = ibarp_resolve_finish(client.get(), &path);
    if (result != -EAGAIN) return result;
    progress.show("asking " + text_of(address));
  }
}

}  // namespace ipoib::ibarp
