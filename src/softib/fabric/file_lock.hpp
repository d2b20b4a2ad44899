// File locks that the kernel releases when their process dies: byte-range locks of an open file
// description (fcntl(2), F_OFD_SETLK). Unlike traditional POSIX locks, they also conflict within a
// process, and closing another descriptor of the file does not release them.
#pragma once

#include <cstdint>

namespace softib::fabric {

/// Locks bytes from `offset` on exclusively, without waiting. Returns false if one is locked.
[[nodiscard]] bool try_lock(int fd, std::int64_t offset, std::int64_t length = 1);
/// Takes a shared lock on them, without waiting. Returns false if one is locked exclusively.
[[nodiscard]] bool try_lock_shared(int fd, std::int64_t offset, std::int64_t length = 1);
/// Releases the locks on bytes from `offset` on.
void unlock(int fd, std::int64_t offset, std::int64_t length = 1);
/// Whether another open file description has a lock on the byte.
[[nodiscard]] bool is_locked(int fd, std::int64_t offset);

/// Writes the ID of this process, which holds the lock, into the file, for messages to operators.
/// Returns false if that fails; the lock stays valid.
bool write_holder(int fd);
/// The process ID in the file, or 0 if there is none.
[[nodiscard]] int read_holder(int fd);

}  // namespace softib::fabric
