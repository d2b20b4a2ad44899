#include "metrics/metrics_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "ipoib/file_descriptor.hpp"

namespace ipoib::metrics {

namespace {

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

/// The temporary file is in the same folder, since rename(2) works within a file system only. Its
/// name does not end with ".prom", so the collector does not read it.
Result<void> write_metrics_file(const std::string& path, const std::string& text) {
  const auto failed = [&path](int code) { return Error{code, path + ": " + std::strerror(code)}; };
  if (path.empty()) return failed(ENOENT);
  std::string temporary = path + ".XXXXXX";
  FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file) return failed(errno);
  constexpr mode_t kReadable = S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH;
  const bool is_written = write_all(file.get(), text) && ::fchmod(file.get(), kReadable) == 0 &&
                          std::rename(temporary.c_str(), path.c_str()) == 0;
  if (is_written) return {};
  const int code = errno;
  ::unlink(temporary.c_str());
  return failed(code);
}

}  // namespace ipoib::metrics
