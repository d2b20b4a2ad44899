#include "program/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/write_all.hpp"

namespace ipoib::program {

namespace {

Error failure(const std::string& path, int code) {
  return Error{code, path + ": " + std::strerror(code)};
}

/// Writes everything and closes the file. Returns an errno value, or 0.
int fill(FileDescriptor file, std::string_view text) {
  const auto written = write_all(file.get(), std::as_bytes(std::span(text)));
  if (written.code != 0) return written.code;
  return ::close(file.release()) == 0 ? 0 : errno;
}

/// Also behind a symbolic link, such as /dev/stdout.
bool is_device_or_pipe(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

Error failure_without_file(const std::string& path, const std::string& incomplete, int code) {
  ::unlink(incomplete.c_str());
  return failure(path, code);
}

}  // namespace

/// The temporary file is in the same folder, since rename(2) works within a file system only. Its
/// name does not end with ".prom", so the collector of the node exporter does not read it.
Result<void> replace_file(const std::string& path, std::string_view contents) {
  if (path.empty()) return failure(path, ENOENT);
  if (is_device_or_pipe(path)) {
    return Error{EINVAL, path +
                             ": is a device or a pipe, which a file must not replace; "
                             "redirect the standard output to it"};
  }
  std::string temporary = path + ".XXXXXX";
  FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file) return failure(path, errno);
  constexpr mode_t kReadable = S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH;
  int code = ::fchmod(file.get(), kReadable) == 0 ? 0 : errno;
  if (code == 0) code = fill(std::move(file), contents);
  if (code == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) code = errno;
  if (code != 0) return failure_without_file(path, temporary, code);
  return {};
}

Result<void> create_private_file(const std::string& path, std::string_view contents) {
  constexpr mode_t kPrivate = S_IRUSR | S_IWUSR;
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kPrivate));
  if (!file) return failure(path, errno);
  if (const int code = fill(std::move(file), contents); code != 0)
    return failure_without_file(path, path, code);
  return {};
}

Result<void> print(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if ((std::fflush(stdout) == 0 && written) || errno == EPIPE) return {};
  return Error{errno, std::string("the output is incomplete: ") + std::strerror(errno)};
}

}  // namespace ipoib::program
