#include "softib/file_lock.hpp"

#include <fcntl.h>

namespace softib {

namespace {
struct flock one_octet(short type, std::int64_t offset) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = offset;
  lock.l_len = 1;
  return lock;
}
}  // namespace

bool try_lock(int fd, std::int64_t offset) {
  auto lock = one_octet(F_WRLCK, offset);
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

void unlock(int fd, std::int64_t offset) {
  auto lock = one_octet(F_UNLCK, offset);
  (void)::fcntl(fd, F_OFD_SETLK, &lock);
}

bool is_locked(int fd, std::int64_t offset) {
  auto lock = one_octet(F_WRLCK, offset);
  return ::fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace softib
