// Locks that die with their process: byte-range locks of an open file description (fcntl(2),
// F_OFD_SETLK). Unlike those of a process, they conflict inside one process as well, and closing
// another descriptor of the file does not drop them.
#pragma once

#include <cstdint>

namespace softib::fabric {

/// Takes the octet at `offset` for writing; false when somebody else has it. Never waits.
[[nodiscard]] bool try_lock(int fd, std::int64_t offset);
/// Takes it together with others who take it so; waits for who has it for writing.
void lock_shared(int fd, std::int64_t offset);
void unlock(int fd, std::int64_t offset);
/// Whether somebody else has it.
[[nodiscard]] bool is_locked(int fd, std::int64_t offset);

/// For people: the process that holds the lock writes its id into the file. False when the file
/// system does not take it; the lock is none the worse for it.
bool write_holder(int fd);
/// 0 when nobody has.
[[nodiscard]] int read_holder(int fd);

}  // namespace softib::fabric
