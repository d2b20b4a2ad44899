// The only process-wide state; the interposed C functions need it, since they have no context.
#include <pthread.h>

#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "softib/endpoint/capture.hpp"
#include "softib/endpoint/endpoint.hpp"
#include "softib/fabric/unused_folder.hpp"
#include "softib/transport/fork_guard.hpp"

namespace softib::endpoint {

using ipoib::Error;
using ipoib::Result;

namespace {

/// Never destroyed, like the endpoint itself, whose engine runs until the process ends.
struct Process {
  std::mutex mutex;
  Endpoint* endpoint = nullptr;
  Endpoint::Mapped mapped;
  std::string folder;            ///< of the subnet that the endpoint belongs to
  std::uint32_t generation = 0;  ///< fork_generation() when the endpoint was made
  /// Endpoints of parent processes and lost ones; kept, since other objects refer to them.
  std::vector<Endpoint*> obsolete;
};

Process& process() {
  static Process& one = *new Process;
  return one;
}

/// Holds the mutex during a fork, so that no thread that the child lacks can own it.
void guard_forks() {
  static const int installed =
      ::pthread_atfork([] { process().mutex.lock(); }, [] { process().mutex.unlock(); },
                       [] { process().mutex.unlock(); });
  (void)installed;
}

/// If the subnet has ended before this process, its last program, removes its folder at exit. Other
/// threads may still use the endpoint.
void at_exit() {
  auto& state = process();
  const std::unique_lock lock(state.mutex, std::try_to_lock);
  if (!lock || state.endpoint == nullptr) return;
  if (state.generation != transport::fork_generation()) return;
  fabric::remove_if_ended(fabric::SubnetFolder(state.folder),
                          fabric::SlotAddress{state.endpoint->node(), state.endpoint->slot()});
}

void clean_up_at_exit() {
  static const int installed = std::atexit(at_exit);
  (void)installed;
}

Result<std::unique_ptr<Endpoint>> attach_by_environment(std::string& path,
                                                        Endpoint::Mapped& mapped) {
  const char* hca = ::secure_getenv(fabric::kHcaVariable);
  if (hca == nullptr) {
    return Error{ENODEV, "no emulated HCA: run the program under `softib run`"};
  }
  const auto folder = fabric::SubnetFolder::from_environment();
  if (!folder) return folder.error();
  path = folder->path();
  auto endpoint = Endpoint::attach(*folder, hca, &mapped);
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
  if (is_lost) state.endpoint->detach();
  if (!is_ours || is_lost) {
    std::string folder;
    auto attached = attach_by_environment(folder, state.mapped);
    if (!attached) return attached.error();
    clean_up_at_exit();
    state.folder = std::move(folder);
    if (state.endpoint != nullptr) state.obsolete.push_back(state.endpoint);
    state.endpoint = attached->release();
    state.generation = transport::fork_generation();
  }
  return state.endpoint;
}

}  // namespace softib::endpoint
