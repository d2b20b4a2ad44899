#include "softib/cli/capture_target.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

namespace softib::cli {

using ipoib::Error;
using ipoib::Result;

namespace {

constexpr std::array<std::string_view, 4> kStandardOutput{"-", "/dev/stdout", "/dev/fd/1",
                                                          "/proc/self/fd/1"};

Error failure(const std::string& given) {
  return Error{errno, "cannot capture to " + given + ": " + std::strerror(errno)};
}

/// The path of a descriptor, which executed programs inherit.
std::string path_of(int descriptor) { return "/proc/self/fd/" + std::to_string(descriptor); }

}  // namespace

Result<std::string> capture_target(const std::string& given) {
  if (std::find(kStandardOutput.begin(), kStandardOutput.end(), given) != kStandardOutput.end()) {
    if (::isatty(STDOUT_FILENO) == 1) {
      return Error{EINVAL, "a capture is not written to a terminal: redirect the standard output"};
    }
    const int copy = ::fcntl(STDOUT_FILENO, F_DUPFD, STDERR_FILENO + 1);
    if (copy < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return failure(given);
    return path_of(copy);
  }
  std::string path = std::filesystem::absolute(given).string();
  // A symbolic link, which is not followed when the capture is opened.
  constexpr std::string_view kDescriptors = "/dev/fd/";
  if (path.starts_with(kDescriptors)) path.replace(0, kDescriptors.size(), "/proc/self/fd/");
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISFIFO(status.st_mode)) return path;
  // The pipe is kept open, so that the reader does not see an end before the program has opened it.
  const int pipe = ::open(path.c_str(), O_WRONLY);
  if (pipe < 0) return failure(given);
  return path_of(pipe);
}

}  // namespace softib::cli
