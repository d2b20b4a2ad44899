// The only process-wide state; the interposed C functions need it, since they have no context.
#include <pthread.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "program/limits.hpp"
#include "softib/endpoint/capture.hpp"
#include "softib/endpoint/endpoint.hpp"
#include "softib/fabric/unused_folder.hpp"
#include "softib/transport/fork_guard.hpp"

namespace softib::endpoint {

using ipoib::Error;
using ipoib::Result;

namespace {

/// The endpoint of the process on one of its HCAs.
struct Attachment {
  Endpoint* endpoint = nullptr;
  std::uint32_t generation = 0;  ///< fork_generation() when the endpoint was made
  [[nodiscard]] bool is_ours() const {
    return endpoint != nullptr && generation == transport::fork_generation();
  }
};

/// The state of the process. It is never destroyed, like the endpoints themselves, whose engines
/// run until the process ends.
struct Process {
  std::mutex mutex;
  std::array<Attachment, fabric::kMaxProcessHcas> attachments;
  Endpoint::Mapped mapped;
  std::string folder;  ///< of the subnet that the endpoints belong to
  /// Endpoints of parent processes and lost ones; kept, since other objects refer to them.
  std::vector<Endpoint*> obsolete;
};

Process& process() {
  static Process& one = *new Process;
  return one;
}

/// Registers handlers that hold the mutex during a fork, so that no thread that the child lacks can
/// own it.
void guard_forks() {
  static const int installed =
      ::pthread_atfork([] { process().mutex.lock(); }, [] { process().mutex.unlock(); },
                       [] { process().mutex.unlock(); });
  (void)installed;
}

/// Runs at exit: if the subnet has ended and this is its last program, removes its folder. Other
/// threads may still use the endpoint.
void at_exit() {
  auto& state = process();
  const std::unique_lock lock(state.mutex, std::try_to_lock);
  if (!lock) return;
  std::vector<fabric::SlotAddress> own;
  for (const Attachment& each : state.attachments) {
    if (each.is_ours()) own.push_back({each.endpoint->node(), each.endpoint->slot()});
  }
  if (!own.empty()) fabric::remove_if_ended(fabric::SubnetFolder(state.folder), own);
}

void clean_up_at_exit() {
  static const int installed = std::atexit(at_exit);
  (void)installed;
}

Result<std::unique_ptr<Endpoint>> attach_by_environment(std::size_t number, std::string& path,
                                                        Endpoint::Mapped& mapped) {
  const auto hcas = process_hca_names();
  if (!hcas) return hcas.error();
  if (number >= hcas->size()) {
    return Error{ENODEV, "the program has " + std::to_string(hcas->size()) +
                             " emulated HCAs, not " + std::to_string(number + 1) +
                             ": name more (softib run --hca A,B)"};
  }
  const auto folder = fabric::SubnetFolder::from_environment();
  if (!folder) return folder.error();
  path = folder->path();
  auto endpoint = Endpoint::attach(*folder, (*hcas)[number], &mapped);
  const char* capture = ::secure_getenv(fabric::kCaptureVariable);
  if (!endpoint || capture == nullptr || *capture == '\0') return endpoint;
  auto file = CaptureFile::open(capture);
  if (!file) return file.error();
  (*endpoint)->observe(std::make_unique<Capture>(std::move(*file), (*endpoint)->self()));
  return endpoint;
}

/// A number in an environment variable; nullopt if there is none.
std::optional<unsigned long> number_in(const char* variable) {
  const char* const text = ::secure_getenv(variable);
  unsigned long number = 0;
  if (text == nullptr) return std::nullopt;
  const char* const end = text + std::strlen(text);
  const auto read = std::from_chars(text, end, number);
  return read.ec == std::errc() && read.ptr == end ? std::optional(number) : std::nullopt;
}

std::optional<std::string> host_of_rank() {
  const auto hosts = number_in(kHostsVariable).value_or(0);
  if (hosts == 0) return std::nullopt;
  for (const char* variable : kRankVariables) {
    if (const auto rank = number_in(variable)) return "host" + std::to_string(1 + *rank % hosts);
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<std::string>> process_hca_names() {
  const char* const list = ::secure_getenv(fabric::kHcaVariable);
  if (list == nullptr) {
    return Error{ENODEV, "no emulated HCA: run the program under `softib run`"};
  }
  if (const auto host = host_of_rank()) return std::vector{*host};
  return fabric::parse_hcas(list);
}

std::size_t process_hcas() {
  const auto hcas = process_hca_names();
  return hcas ? hcas->size() : 1;
}

Result<Endpoint*> process_endpoint(std::size_t hca) {
  guard_forks();
  auto& state = process();
  const std::lock_guard lock(state.mutex);
  Attachment& attachment = state.attachments.at(hca);
  const bool is_ours = attachment.is_ours();
  const bool is_lost = is_ours && attachment.endpoint->is_lost();
  if (is_lost) attachment.endpoint->detach();
  if (!is_ours || is_lost) {
    std::string folder;
    auto attached = attach_by_environment(hca, folder, state.mapped);
    if (!attached) {
      const Error& error = attached.error();
      return Error{error.code, error.message + ipoib::program::limit_remedy(error.message)};
    }
    clean_up_at_exit();
    state.folder = std::move(folder);
    if (attachment.endpoint != nullptr) state.obsolete.push_back(attachment.endpoint);
    attachment = {attached->release(), transport::fork_generation()};
  }
  return attachment.endpoint;
}

}  // namespace softib::endpoint
