// The C functions through which librdmacm reaches the rdma_cm device: open(2), write(2) and
// fstat(2), in the forms that C libraries and compilers call. open() also opens files of the view.
// For other files they call the next definition. write() is async-signal-safe then, and so is
// fstat().
//
// The wait for an event is a cancellation point: a thread that is cancelled in it unwinds through
// write(), which holds nothing and has no handler for all exceptions there.
#undef _FORTIFY_SOURCE  // it would define some of these functions
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <exception>
#include <optional>

#include "softib/core/next_function.hpp"
#include "softib/core/no_cancellation.hpp"
#include "softib/endpoint/last_error.hpp"
#include "softib/ucma/commands.hpp"
#include "softib/ucma/ucma_host.hpp"
#include "softib/view/process_view.hpp"

#define SOFTIB_ABI extern "C" __attribute__((visibility("default")))

namespace {

using softib::NextFunction;
using softib::ucma::UcmaHost;

constexpr const char* kDevice = "/dev/infiniband/rdma_cm";
/// Descriptors beyond it cannot be event channels.
constexpr int kMaxDescriptors = 1 << 16;

/// The inodes of the sockets of event channels, by descriptor. A program may close one without a
/// notice, and then its number is that of another file.
constinit std::array<std::atomic<std::uint64_t>, kMaxDescriptors> channel_inodes{};

using Open = int(const char*, int, ...);
using OpenAt = int(int, const char*, int, ...);
using Open2 = int(const char*, int);
using OpenAt2 = int(int, const char*, int);
using Write = ssize_t(int, const void*, std::size_t);
using Stat = int(int, struct stat*);
using Stat64 = int(int, struct stat64*);
using XStat = int(int, int, struct stat*);
using XStat64 = int(int, int, struct stat64*);

constinit NextFunction<Open> next_open{"open"};
constinit NextFunction<Open> next_open64{"open64"};
constinit NextFunction<OpenAt> next_openat{"openat"};
constinit NextFunction<OpenAt> next_openat64{"openat64"};
constinit NextFunction<Open2> next_open_2{"__open_2"};
constinit NextFunction<Open2> next_open64_2{"__open64_2"};
constinit NextFunction<OpenAt2> next_openat_2{"__openat_2"};
constinit NextFunction<OpenAt2> next_openat64_2{"__openat64_2"};
constinit NextFunction<Write> next_write{"write"};
constinit NextFunction<Stat> next_fstat{"fstat"};
constinit NextFunction<Stat64> next_fstat64{"fstat64"};
constinit NextFunction<XStat> next_fxstat{"__fxstat"};
constinit NextFunction<XStat64> next_fxstat64{"__fxstat64"};

/// dlsym(3) is not async-signal-safe.
__attribute__((constructor)) void find_next() {
  (void)next_write.get();
  (void)next_fstat.get();
}

bool is_channel(int fd) {
  if (fd < 0 || fd >= kMaxDescriptors) return false;
  const auto inode = channel_inodes[static_cast<std::size_t>(fd)].load(std::memory_order_relaxed);
  return inode != 0 && inode == softib::ucma::inode_of(fd);
}

int fail(int error) {
  errno = error;
  return -1;
}

int open_channel(int flags) {
  const softib::NoCancellation whole;
  try {
    int error = 0;
    UcmaHost* const host = UcmaHost::get(error);
    if (host == nullptr) return fail(error);
    const int fd = host->open_channel(flags);
    if (fd < 0) return fail(-fd);
    if (fd >= kMaxDescriptors) {
      ::close(fd);
      return fail(EMFILE);
    }
    channel_inodes[static_cast<std::size_t>(fd)] = softib::ucma::inode_of(fd);
    return fd;
  } catch (const std::exception&) {
    return fail(ENOMEM);
  }
}

/// Opens the device, or a file of the view (view/process_view.hpp); nullopt for other files. A
/// relative path is one below `folder`.
std::optional<int> open_own(const char* path, int flags, int folder = AT_FDCWD) {
  try {
    const auto own = softib::view::own_path_at(folder, path);
    if (!own) return std::nullopt;
    if (*own == kDevice) return open_channel(flags);
    const softib::NoCancellation whole;
    return softib::view::open_file(*own, flags);
  } catch (const std::exception&) {
    return fail(ENOMEM);
  }
}

/// Executes a command; returns 0 or an errno value.
int execute(int fd, ipoib::ConstBytes command) {
  const softib::NoCancellation whole;
  try {
    UcmaHost* const host = UcmaHost::of_channel(fd);
    if (host == nullptr) return EIO;  // of the parent process
    const auto done = host->execute(fd, command);
    if (done) return 0;
    const auto& [code, why] = done.error();
    const bool is_waiting = code == EAGAIN && softib::ucma::is_get_event(command);
    if (!is_waiting) {
      softib::endpoint::set_last_error(softib::ucma::function_of(command), code, why.c_str());
    }
    return code;
  } catch (const std::exception&) {
    return ENOMEM;
  }
}

/// The number of the kernel's own device, if it has one. By a system call, since this library
/// defines stat() and statx(), which know only the emulated device.
std::optional<dev_t> kernels_device() {
  struct statx real {};
  const auto done = ::syscall(SYS_statx, AT_FDCWD, kDevice, 0, STATX_TYPE, &real);
  if (done != 0 || !S_ISCHR(real.stx_mode)) return std::nullopt;
  return makedev(real.stx_rdev_major, real.stx_rdev_minor);
}

/// What fstat(2) returns for a file of the view is about what stat(2) shows; the size is that of
/// the text.
template <class Status>
void describe_own(int fd, Status& status) {
  const int before = errno;
  try {
    struct stat shown {};
    const auto own = softib::view::opened_path(fd);
    if (own && softib::view::stat_file(*own, shown) == 0) {
      status.st_dev = shown.st_dev;
      status.st_ino = shown.st_ino;
      status.st_mode = shown.st_mode;
      status.st_nlink = shown.st_nlink;
    }
  } catch (const std::exception&) {
    // It stays the descriptor of an unknown file.
  }
  errno = before;
}

/// librdmacm wants a character device, and the number that the kernel names, if there is one.
template <class Status>
void describe_device(Status& status) {
  constexpr mode_t kMode = S_IFCHR | 0666;
  constexpr unsigned kMiscMajor = 10;
  status = {};
  status.st_mode = kMode;
  status.st_nlink = 1;
  status.st_rdev = kernels_device().value_or(makedev(kMiscMajor, 0));
}

/// fstat(2) in all of its forms.
template <class Status, class Next>
int stat_descriptor(int fd, Status& status, Next next) {
  if (is_channel(fd)) {
    describe_device(status);
    return 0;
  }
  const int done = next();
  if (done == 0) describe_own(fd, status);
  return done;
}

mode_t mode_of(int flags, std::va_list arguments) {
  const bool creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return creates ? static_cast<mode_t>(va_arg(arguments, unsigned)) : 0;
}

}  // namespace

#define SOFTIB_READ_MODE(mode)                   \
  std::va_list arguments;                        \
  va_start(arguments, flags);                    \
  const mode_t mode = mode_of(flags, arguments); \
  va_end(arguments)

SOFTIB_ABI int open(const char* path, int flags, ...) {
  if (const auto own = open_own(path, flags)) return *own;
  SOFTIB_READ_MODE(mode);
  return next_open.get()(path, flags, mode);
}

SOFTIB_ABI int open64(const char* path, int flags, ...) {
  if (const auto own = open_own(path, flags)) return *own;
  SOFTIB_READ_MODE(mode);
  return next_open64.get()(path, flags, mode);
}

SOFTIB_ABI int openat(int folder, const char* path, int flags, ...) {
  if (const auto own = open_own(path, flags, folder)) return *own;
  SOFTIB_READ_MODE(mode);
  return next_openat.get()(folder, path, flags, mode);
}

SOFTIB_ABI int openat64(int folder, const char* path, int flags, ...) {
  if (const auto own = open_own(path, flags, folder)) return *own;
  SOFTIB_READ_MODE(mode);
  return next_openat64.get()(folder, path, flags, mode);
}

// NOLINTBEGIN(bugprone-reserved-identifier): names of the C library
SOFTIB_ABI int __open_2(const char* path, int flags) {
  if (const auto own = open_own(path, flags)) return *own;
  return next_open_2.get()(path, flags);
}

SOFTIB_ABI int __open64_2(const char* path, int flags) {
  if (const auto own = open_own(path, flags)) return *own;
  return next_open64_2.get()(path, flags);
}

SOFTIB_ABI int __openat_2(int folder, const char* path, int flags) {
  if (const auto own = open_own(path, flags, folder)) return *own;
  return next_openat_2.get()(folder, path, flags);
}

SOFTIB_ABI int __openat64_2(int folder, const char* path, int flags) {
  if (const auto own = open_own(path, flags, folder)) return *own;
  return next_openat64_2.get()(folder, path, flags);
}
// NOLINTEND(bugprone-reserved-identifier)

/// Executes a command. One that waits for an event waits for the byte that shows that there is one,
/// so a signal interrupts or restarts it, and O_NONBLOCK makes it return, as for any socket.
SOFTIB_ABI ssize_t write(int fd, const void* data, std::size_t size) {
  if (!is_channel(fd)) return next_write.get()(fd, data, size);
  const ipoib::ConstBytes command(static_cast<const std::uint8_t*>(data), size);
  for (;;) {
    const int error = execute(fd, command);
    if (error == 0) return static_cast<ssize_t>(size);
    if (error != EAGAIN || !softib::ucma::is_get_event(command)) return fail(error);
    std::uint8_t byte = 0;
    const softib::CancellationPoint here;
    const ssize_t count = ::recv(fd, &byte, sizeof byte, MSG_PEEK);
    if (count < 0) return -1;
    if (count == 0) return fail(EIO);
  }
}

SOFTIB_ABI int fstat(int fd, struct stat* status) noexcept {
  return stat_descriptor(fd, *status, [&] { return next_fstat.get()(fd, status); });
}

SOFTIB_ABI int fstat64(int fd, struct stat64* status) noexcept {
  return stat_descriptor(fd, *status, [&] { return next_fstat64.get()(fd, status); });
}

// For programs that were built with a C library before 2.33.
// NOLINTBEGIN(bugprone-reserved-identifier)
SOFTIB_ABI int __fxstat(int version, int fd, struct stat* status) noexcept;
SOFTIB_ABI int __fxstat(int version, int fd, struct stat* status) noexcept {
  return stat_descriptor(fd, *status, [&] { return next_fxstat.get()(version, fd, status); });
}

SOFTIB_ABI int __fxstat64(int version, int fd, struct stat64* status) noexcept;
SOFTIB_ABI int __fxstat64(int version, int fd, struct stat64* status) noexcept {
  return stat_descriptor(fd, *status, [&] { return next_fxstat64.get()(version, fd, status); });
}
// NOLINTEND(bugprone-reserved-identifier)
