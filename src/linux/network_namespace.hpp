// A network namespace other than the process's own: what is opened in it stays there, whoever uses
// it afterwards.
#pragma once

#include <string>
#include <utility>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"

namespace ipoib::host {

class NetworkNamespace {
 public:
  /// That of a name, as `ip netns` gives it, or of a path such as /proc/4711/ns/net; an empty name
  /// means the caller's own. It is kept, even when its name goes.
  [[nodiscard]] static Result<NetworkNamespace> open(const std::string& name);

  /// Calls `open` with the calling thread in the namespace, and no other thread. Throws
  /// std::runtime_error when it may not be entered.
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
  FileDescriptor fd_;  ///< none: the caller's own
};

}  // namespace ipoib::host
