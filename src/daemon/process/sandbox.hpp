// The system calls that the daemon may use: a filter of seccomp(2).
//
// Without it, a fault in a parser would give an attacker all calls of the kernel. A refused call
// fails with EPERM, and is logged by name once. docs/security.md lists the permitted calls.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/log_fwd.hpp"

namespace ipoib::daemon {

enum class SandboxMode : std::uint8_t {
  off,
  log,  ///< the kernel logs what would be refused, and carries it out
  on
};

/// Who may use a group of calls, besides the control thread.
enum class CallUsers : std::uint8_t {
  control_thread,
  subnet,  ///< interface threads on an emulated subnet, which act as HCAs
  kernel,  ///< interface threads on a device of the kernel, whose provider of libibverbs reads
           ///< files
  all      ///< all interface threads
};

struct CallGroup {
  CallUsers users;
  const char* purpose;
  std::vector<const char*> calls;
};
/// The permitted calls, without the conditions on their arguments.
[[nodiscard]] std::span<const CallGroup> permitted_calls();

/// Why the process cannot have a filter: the instruments in it make other calls.
[[nodiscard]] std::optional<std::string> obstacle_to_sandbox();

/// Restricts the calling thread further, to what interface threads of this kind (subnet
/// or kernel) need.
void enter_interface_sandbox(SandboxMode mode, CallUsers kind);

/// Restricts all threads of the process for good, and logs refused calls while it exists. At most
/// one object may exist at a time.
class Sandbox {
 public:
  /// Throws std::runtime_error if the kernel has no filters.
  Sandbox(SandboxMode mode, std::shared_ptr<Logger> log);
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;
  ~Sandbox();

 private:
  void report(int refusals) const;
  void end_reports();

  const std::shared_ptr<Logger> log_;
  FileDescriptor refusals_;  ///< write end of a pipe, for the signal handler
  std::thread reporter_;
};

}  // namespace ipoib::daemon
