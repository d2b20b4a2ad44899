// The one piece of process-wide state that an interposed C ABI cannot do without.
#include <pthread.h>

#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "softib/endpoint/capture.hpp"
#include "softib/endpoint/endpoint.hpp"
#include "softib/transport/fork_guard.hpp"

namespace softib::endpoint {

using ipoib::Error;
using ipoib::Result;

namespace {

/// Never destroyed, like the endpoint itself: its engine runs until the process is no more.
struct Process {
  std::mutex mutex;
  Endpoint* endpoint = nullptr;
  std::uint32_t generation = 0;  ///< of the fork in which the endpoint was made
  /// Those of parents, and lost ones: dead, but pointed to.
  std::vector<Endpoint*> left_behind;
};

Process& process() {
  static Process& one = *new Process;
  return one;
}

/// The lock is held over a fork, so that a child never finds it taken by a thread that it lacks.
void guard_forks() {
  static const int installed =
      ::pthread_atfork([] { process().mutex.lock(); }, [] { process().mutex.unlock(); },
                       [] { process().mutex.unlock(); });
  (void)installed;
}

Result<std::unique_ptr<Endpoint>> attach_by_environment() {
  const char* hca = ::secure_getenv(fabric::kHcaVariable);
  if (hca == nullptr) {
    return Error{ENODEV, "no emulated HCA: run the program under `softib run`"};
  }
  const auto folder = fabric::SubnetFolder::from_environment();
  if (!folder) return folder.error();
  auto endpoint = Endpoint::attach(*folder, hca);
  const char* capture = ::secure_getenv(fabric::kCaptureVariable);
  if (!endpoint || capture == nullptr || *capture == '\0') return endpoint;
  auto file = CaptureFile::open(capture);
  if (!file) return file.error();
  return std::unique_ptr<Endpoint>(
      std::make_unique<CapturingEndpoint>(std::move(*endpoint), std::move(*file)));
}

}  // namespace

Result<Endpoint*> process_endpoint() {
  guard_forks();
  auto& state = process();
  const std::lock_guard lock(state.mutex);
  const bool is_ours =
      state.endpoint != nullptr && state.generation == transport::fork_generation();
  const bool is_lost = is_ours && state.endpoint->is_lost();
  if (is_lost) state.endpoint->retire();
  if (!is_ours || is_lost) {
    auto attached = attach_by_environment();
    if (!attached) return attached.error();
    if (state.endpoint != nullptr) state.left_behind.push_back(state.endpoint);
    state.endpoint = attached->release();
    state.generation = transport::fork_generation();
  }
  return state.endpoint;
}

}  // namespace softib::endpoint
