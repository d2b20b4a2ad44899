#include "resolution.hpp"

#include <poll.h>

#include <cerrno>

#include "program/progress.hpp"

namespace ipoib::ibarp {

namespace {
constexpr int kReadMs = 200;
}  // namespace

int resolve_patiently(const Client& client, const ibarp_address& address, int milliseconds,
                      ibarp_path& path) {
  const int descriptor = ibarp_resolve_start(client.get(), &address, milliseconds);
  if (descriptor < 0) return descriptor;
  program::Progress progress;
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
