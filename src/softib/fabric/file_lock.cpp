#include "softib/fabric/file_lock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string>

namespace softib::fabric {

namespace {
struct flock bytes(short type, std::int64_t offset, std::int64_t length = 1) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = offset;
  lock.l_len = length;
  return lock;
}
}  // namespace

bool try_lock(int fd, std::int64_t offset, std::int64_t length) {
  auto lock = bytes(F_WRLCK, offset, length);
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool try_lock_shared(int fd, std::int64_t offset, std::int64_t length) {
  auto lock = bytes(F_RDLCK, offset, length);
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

void unlock(int fd, std::int64_t offset, std::int64_t length) {
  auto lock = bytes(F_UNLCK, offset, length);
  (void)::fcntl(fd, F_OFD_SETLK, &lock);
}

bool is_locked(int fd, std::int64_t offset) {
  auto lock = bytes(F_WRLCK, offset);
  return ::fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool write_holder(int fd) {
  const std::string line = std::to_string(::getpid()) + "\n";
  return ::ftruncate(fd, 0) == 0 &&
         ::pwrite(fd, line.data(), line.size(), 0) == static_cast<ssize_t>(line.size());
}

int read_holder(int fd) {
  std::array<char, 16> text{};
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  int pid = 0;
  if (size > 0) std::from_chars(text.data(), text.data() + size, pid);
  return pid;
}

}  // namespace softib::fabric
