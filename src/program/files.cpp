#include "program/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "ipoib/file_descriptor.hpp"

namespace ipoib::program {

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

Error failure(const std::string& path, int code) {
  return Error{code, path + ": " + std::strerror(code)};
}

Error failure_without_file(const std::string& path, const std::string& incomplete) {
  const int code = errno;
  ::unlink(incomplete.c_str());
  return failure(path, code);
}

}  // namespace

/// The temporary file is in the same folder, since rename(2) works within a file system only. Its
/// name does not end with ".prom", so the collector of the node exporter does not read it.
Result<void> replace_file(const std::string& path, std::string_view contents) {
  if (path.empty()) return failure(path, ENOENT);
  std::string temporary = path + ".XXXXXX";
  FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file) return failure(path, errno);
  constexpr mode_t kReadable = S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH;
  const bool is_written = write_all(file.get(), contents) && ::fchmod(file.get(), kReadable) == 0 &&
                          ::close(file.release()) == 0 &&
                          std::rename(temporary.c_str(), path.c_str()) == 0;
  if (!is_written) return failure_without_file(path, temporary);
  return {};
}

Result<void> create_private_file(const std::string& path, std::string_view contents) {
  constexpr mode_t kPrivate = S_IRUSR | S_IWUSR;
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kPrivate));
  if (!file) return failure(path, errno);
  if (!write_all(file.get(), contents) || ::close(file.release()) != 0)
    return failure_without_file(path, path);
  return {};
}

Result<void> print(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if ((std::fflush(stdout) == 0 && written) || errno == EPIPE) return {};
  return Error{errno, std::string("the output is incomplete: ") + std::strerror(errno)};
}

}  // namespace ipoib::program
