#include "linux/network_namespace.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace ipoib::linux {

namespace {

constexpr const char* kNames = "/run/netns/";  // see ip-netns(8)
constexpr const char* kOwn = "/proc/thread-self/ns/net";

FileDescriptor open_path(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
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

/// namespaces(7): device and inode number identify a namespace.
bool NetworkNamespace::is_same_as(const NetworkNamespace& other) const {
  const auto status_of = [](const NetworkNamespace& one, struct stat& status) {
    return one.fd_ ? ::fstat(one.fd_.get(), &status) == 0 : ::stat(kOwn, &status) == 0;
  };
  struct stat own {};
  struct stat others {};
  return status_of(*this, own) && status_of(other, others) && own.st_dev == others.st_dev &&
         own.st_ino == others.st_ino;
}

NetworkNamespace::Stay::Stay(const NetworkNamespace& in) {
  if (!in.fd_) return;
  home_ = open_path(kOwn);
  if (!home_ || ::setns(in.fd_.get(), CLONE_NEWNET) != 0) {
    const int error = errno;
    throw std::runtime_error("network namespace " + in.name_ + ": " + std::strerror(error) +
                             (error == EPERM ? "; entering it needs CAP_SYS_ADMIN: run as root"
                                             : "; is it a namespace?"));
  }
}

NetworkNamespace::Stay::~Stay() {
  // The thread would open everything else in the wrong namespace.
  if (home_ && ::setns(home_.get(), CLONE_NEWNET) != 0) std::abort();
}

}  // namespace ipoib::linux
