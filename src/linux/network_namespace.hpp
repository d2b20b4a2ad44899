// A network namespace to open sockets and devices in; they stay in it wherever they are used.
#pragma once

#include <string>
#include <utility>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"

namespace ipoib::linux {

class NetworkNamespace {
 public:
  /// `name` is a name of `ip netns`, a path such as /proc/4711/ns/net, or empty for the caller's
  /// own namespace. Keeps the namespace alive.
  [[nodiscard]] static Result<NetworkNamespace> open(const std::string& name);

  /// The namespace of a descriptor, such as one of /proc/4711/ns/net; `name` is for error messages.
  [[nodiscard]] static NetworkNamespace of(FileDescriptor fd, const std::string& name) {
    return {name, std::move(fd)};
  }

  /// Whether both are the same namespace; false if that cannot be found out.
  [[nodiscard]] bool is_same_as(const NetworkNamespace& other) const;

  /// Calls `open` with the calling thread, and no other, in the namespace. Throws
  /// std::runtime_error if entering it fails.
  template <class Open>
  auto run(Open&& open) const {
    const Stay stay(*this);
    return std::forward<Open>(open)();
  }

 private:
  class Stay {
   public:
    explicit Stay(const NetworkNamespace& in);
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;
    ~Stay();

   private:
    FileDescriptor home_;
  };

  NetworkNamespace(std::string name, FileDescriptor fd)
      : name_(std::move(name)), fd_(std::move(fd)) {}

  std::string name_;
  FileDescriptor fd_;  ///< empty for the caller's own
};

}  // namespace ipoib::linux
