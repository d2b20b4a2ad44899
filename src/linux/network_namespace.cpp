#include "linux/network_namespace.hpp"

#include <cap-ng.h>
#include <fcntl.h>
#include <sched.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace ipoib::host {

namespace {

constexpr const char* kNames = "/run/netns/";  // see ip-netns(8)
constexpr const char* kOwn = "/proc/thread-self/ns/net";

FileDescriptor open_path(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

/// Makes CAP_SYS_ADMIN effective while it exists, if it is permitted. The daemon needs it for
/// setns(2) only.
class SysAdmin {
 public:
  SysAdmin() { set(CAPNG_ADD); }
  SysAdmin(const SysAdmin&) = delete;
  SysAdmin& operator=(const SysAdmin&) = delete;
  ~SysAdmin() {
    if (is_raised_) set(CAPNG_DROP);
  }

 private:
  void set(capng_act_t action) {
    if (capng_get_caps_process() != 0) return;
    const bool is_effective = capng_have_capability(CAPNG_EFFECTIVE, CAP_SYS_ADMIN) == 1;
    const bool is_permitted = capng_have_capability(CAPNG_PERMITTED, CAP_SYS_ADMIN) == 1;
    if (!is_permitted || is_effective == (action == CAPNG_ADD)) return;
    capng_update(action, CAPNG_EFFECTIVE, CAP_SYS_ADMIN);
    is_raised_ = capng_apply(CAPNG_SELECT_CAPS) == 0 && action == CAPNG_ADD;
  }

  bool is_raised_ = false;
};

int enter(int network_namespace) {
  int error = 0;
  {
    const SysAdmin raised;
    if (::setns(network_namespace, CLONE_NEWNET) != 0) error = errno;
  }
  errno = error;
  return error == 0 ? 0 : -1;
}

}  // namespace

Result<NetworkNamespace> NetworkNamespace::open(const std::string& name) {
  if (name.empty()) return NetworkNamespace(name, FileDescriptor());
  const bool is_path = name.find('/') != std::string::npos;
  FileDescriptor fd = open_path(is_path ? name : kNames + name);
  if (!fd) {
    const int error = errno;
    return Error(error, "network namespace " + name + ": " + std::strerror(error) +
                            "; `ip netns list` shows the named ones");
  }
  return NetworkNamespace(name, std::move(fd));
}

NetworkNamespace::Stay::Stay(const NetworkNamespace& in) {
  if (!in.fd_) return;
  home_ = open_path(kOwn);
  if (!home_ || enter(in.fd_.get()) != 0) {
    const int error = errno;
    throw std::runtime_error("network namespace " + in.name_ + ": " + std::strerror(error) +
                             (error == EPERM ? "; entering it needs CAP_SYS_ADMIN: run as root"
                                             : "; is it a namespace?"));
  }
}

NetworkNamespace::Stay::~Stay() {
  // The thread would open everything else in the wrong namespace.
  if (home_ && enter(home_.get()) != 0) std::abort();
}

}  // namespace ipoib::host
