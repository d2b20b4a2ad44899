// The descriptors of the test process, to find leaks, and a process without any left.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>
#include <vector>

#include "ipoib/file_descriptor.hpp"

namespace softib::test {

inline std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// Limits the number of descriptors of this process for its lifetime.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t limit) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit lower{std::min(limit, before_.rlim_max), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &lower);
  }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

/// Opens files until no descriptor is left.
inline std::vector<ipoib::FileDescriptor> take_all_descriptors() {
  std::vector<ipoib::FileDescriptor> all;
  for (;;) {
    ipoib::FileDescriptor one(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!one) return all;
    all.push_back(std::move(one));
  }
}

}  // namespace softib::test
