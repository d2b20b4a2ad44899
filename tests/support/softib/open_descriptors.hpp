// The descriptors of the test process, to find leaks.
#pragma once

#include <filesystem>
#include <iterator>

namespace softib::test {

inline std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace softib::test
