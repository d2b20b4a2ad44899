#include "softib/topology/net_loader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "ipoib/file_descriptor.hpp"
#include "softib/topology/shapes.hpp"

namespace softib::topology {

namespace {

using ipoib::Error;
using ipoib::Result;

constexpr std::size_t kReadBytes = std::size_t{1} << 16;

Error failed(const std::string& path, int number) {
  return {number, path + ": " + std::strerror(number)};
}

/// Reads all, or fails with EFBIG after kMaxNetBytes.
Result<std::string> read_all(int fd, const std::string& name) {
  std::string text;
  for (;;) {
    const std::size_t size = text.size();
    text.resize(size + kReadBytes);
    const ssize_t got = ::read(fd, text.data() + size, kReadBytes);
    const int number = errno;
    text.resize(size + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return text;
    if (got < 0 && number != EINTR) return failed(name, number);
    if (text.size() > kMaxNetBytes) {
      return Error{EFBIG, name + ": more than " + std::to_string(kMaxNetBytes >> 20) + " MiB"};
    }
  }
}

Result<std::string> read_file(const std::string& path, bool must_be_regular) {
  // Opening a named pipe would wait for its writer.
  const int flags = O_RDONLY | O_CLOEXEC | (must_be_regular ? O_NONBLOCK : 0);
  const ipoib::FileDescriptor file(::open(path.c_str(), flags));
  if (!file) return failed(path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return failed(path, errno);
  if (S_ISDIR(status.st_mode)) return failed(path, EISDIR);
  if (must_be_regular && !S_ISREG(status.st_mode)) {
    return Error{EINVAL, path + " is not a regular file"};
  }
  return read_all(file.get(), path);
}

Result<IncludedFile> read_include(const std::string& includer, const std::string& path) {
  const auto slash = includer.rfind('/');
  const bool is_relative = !path.starts_with('/') && slash != std::string::npos;
  IncludedFile out{is_relative ? includer.substr(0, slash + 1) + path : path, {}};
  auto text = read_file(out.name, true);
  if (!text) return text.error();
  out.text = std::move(*text);
  return out;
}

}  // namespace

ipoib::Result<std::string> read_source(const std::string& path) {
  return path == "-" ? read_all(STDIN_FILENO, "standard input") : read_file(path, false);
}

ipoib::Result<NetFile> read_net(const std::string& path) {
  const auto text = read_source(path);
  if (!text) return text.error();
  return parse_net(*text, path == "-" ? "standard input" : path, read_include);
}

ipoib::Result<NetFile> load_topology(const std::string& shape_or_path) {
  auto topology = make_shape(shape_or_path);
  if (!is_shape(shape_or_path)) {
    auto file = read_net(shape_or_path);
    const bool may_be_shape = shape_or_path.find('/') == std::string::npos;
    if (!file && file.error().code == ENOENT && may_be_shape) return topology.error();
    if (file && file->topology.switches.empty() && file->topology.hcas.empty()) {
      return Error{EINVAL,
                   shape_or_path +
                       ": has neither a switch nor an HCA; expected a net file of ibsim, or "
                       "the output of ibnetdiscover"};
    }
    return file;
  }
  if (!topology) return topology.error();
  return NetFile{std::move(*topology), {}, 0};
}

}  // namespace softib::topology
