// Locks that die with their process: byte-range locks of an open file description (fcntl(2),
// F_OFD_SETLK). Unlike those of a process, they conflict inside one process as well, and closing
// another descriptor of the file does not drop them.
#pragma once

#include <cstdint>

namespace softib {

/// Takes the octet at `offset` for writing; false when somebody else has it. Never waits.
[[nodiscard]] bool try_lock(int fd, std::int64_t offset);
void unlock(int fd, std::int64_t offset);
/// Whether somebody else has it.
[[nodiscard]] bool is_locked(int fd, std::int64_t offset);

}  // namespace softib
