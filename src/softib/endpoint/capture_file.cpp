#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "erf/capture_format.hpp"
#include "ipoib/number.hpp"
#include "ipoib/output_file.hpp"
#include "ipoib/write_all.hpp"
#include "program/limits.hpp"
#include "softib/core/no_cancellation.hpp"
#include "softib/endpoint/capture.hpp"

namespace softib::endpoint {

using ipoib::Error;
using ipoib::FileDescriptor;
using ipoib::Result;

namespace {

constexpr std::string_view kDescriptors = "/proc/self/fd/";

Error failure(const std::string& path, const std::string& why, int code) {
  return Error{code, "cannot capture to " + path + ": " + why};
}

/// A descriptor that is given by its path is opened again, so that each process has its own.
/// Sockets, and streams of another user, cannot be opened again.
Result<FileDescriptor> open_for_appending(const std::string& path) {
  if (!path.starts_with(kDescriptors)) {
    auto file = ipoib::open_output_file(path, O_APPEND, 0666);
    if (!file) return Error{file.error().code, "cannot capture to " + file.error().message};
    return file;
  }
  // O_NONBLOCK, since a pipe whose reader has ended would be waited for.
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC));
  if (file) (void)::fcntl(file.get(), F_SETFL, O_APPEND);
  if (!file && (errno == ENXIO || errno == EACCES)) {
    const auto number = ipoib::parse_number<int>(path.substr(kDescriptors.size()));
    file.reset(::fcntl(number.value_or(-1), F_DUPFD_CLOEXEC, 0));
  }
  if (!file) return failure(path, std::strerror(errno), errno);
  return file;
}

bool write_header_to(int file, ConstBytes header) {
  const auto written = ipoib::write_all(file, std::as_bytes(header));
  errno = written.code;
  return written.code == 0;
}

/// Writes the header. Several processes may do so in an empty file at a time, so it is written at
/// the beginning and not appended.
bool write_header(int file, bool is_stream) {
  const auto header = ipoib::erf::file_header();
  if (is_stream) return write_header_to(file, header);
  const auto path = std::string(kDescriptors) + std::to_string(file);
  const FileDescriptor at_start(::open(path.c_str(), O_WRONLY | O_CLOEXEC));  // without O_APPEND
  return at_start && write_header_to(at_start.get(), header);
}

}  // namespace

Result<CaptureFile> CaptureFile::begin(const std::string& path) {
  const auto file = open_for_appending(path);
  if (!file) return file.error();
  struct stat status {};
  const bool is_old = !path.starts_with(kDescriptors) && ::fstat(file->get(), &status) == 0 &&
                      S_ISREG(status.st_mode);
  if (is_old && ::ftruncate(file->get(), 0) != 0) return failure(path, std::strerror(errno), errno);
  return open(path, StreamHeader::write);
}

Result<CaptureFile> CaptureFile::open(const std::string& path, StreamHeader stream_header) {
  auto opened = open_for_appending(path);
  if (!opened) return opened.error();
  FileDescriptor file = std::move(*opened);
  struct stat status {};
  bool ready = ::fstat(file.get(), &status) == 0;
  const bool is_stream = ready && !S_ISREG(status.st_mode);
  const bool needs_header = is_stream ? stream_header == StreamHeader::write : status.st_size == 0;
  if (ready && needs_header) ready = write_header(file.get(), is_stream);
  if (!ready) return failure(path, std::strerror(errno), errno);
  return CaptureFile(std::move(file), path, is_stream);
}

void CaptureFile::add(ConstBytes packet, Direction direction, WallTime when) {
  if (!file_) return;
  ipoib::erf::append_record(batch_, packet, direction, when);
}

void CaptureFile::flush() {
  if (!file_) return;
  // A pipe takes a batch in pieces, and its reader makes the program wait anyway, so it is locked.
  // A file takes the batch as a whole, and anybody who may read it could keep a lock for ever.
  if (is_stream_) ::flock(file_.get(), LOCK_EX);
  const auto written = ipoib::write_all(file_.get(), std::as_bytes(std::span(batch_)));
  if (written.code != 0) stop(written);
  if (is_stream_ && file_) ::flock(file_.get(), LOCK_UN);
  batch_.clear();
}

/// Truncates the file after the last complete record.
void CaptureFile::stop(const ipoib::Written& written) {
  struct stat status {};
  if (written.bytes > 0 && ::fstat(file_.get(), &status) == 0) {
    const auto incomplete = written.bytes - ipoib::erf::complete_size(batch_, written.bytes);
    (void)!::ftruncate(file_.get(), status.st_size - static_cast<off_t>(incomplete));
  }
  const std::string why = std::strerror(written.code);
  const NoCancellation whole;
  std::fprintf(stderr, "softib: the capture %s ends here: %s%s\n", path_.c_str(), why.c_str(),
               ipoib::program::limit_remedy(why).c_str());
  file_.reset();
}

}  // namespace softib::endpoint
