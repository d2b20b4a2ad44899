#include "softib/verbs/process_memory.hpp"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <limits>

namespace softib::verbs {
namespace {

/// The pages that a range touches.
struct Pages {
  Pages(const void* begin, std::size_t size) {
    static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto address = std::bit_cast<std::uintptr_t>(begin);
    first = std::bit_cast<void*>(address / page * page);
    bytes = address % page + size;
  }
  void* first = nullptr;
  std::size_t bytes = 0;
};

/// Calls madvise(2); returns 0 or an errno value.
int advise(const Pages& pages, int advice) {
  while (::madvise(pages.first, pages.bytes, advice) != 0) {
    if (errno != EINTR && errno != EAGAIN) return errno;
  }
  return 0;
}

/// Lets the kernel add 0 to a word, atomically: another thread may write to it meanwhile.
bool write_unchanged(std::uint8_t* word) {
  constexpr int kAddZero = FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0);
  static std::uint32_t nobody_waits_here = 0;
  return ::syscall(SYS_futex, &nobody_waits_here, FUTEX_WAKE_OP_PRIVATE, 0, nullptr, word,
                   kAddZero) >= 0;
}

/// Touches memory that the kernel does not populate: all before Linux 5.14, and protected memory,
/// for which it has the same error.
int touch(const Pages& pages, bool to_write) {
  constexpr std::size_t kSmallestPage = 4096;
  ProcessMemory memory;
  auto* const begin = static_cast<std::uint8_t*>(pages.first);
  for (std::size_t at = 0; at < pages.bytes; at += kSmallestPage) {
    std::uint8_t byte = 0;
    if (!memory.read({&byte, 1}, begin + at)) return EFAULT;
    if (to_write && !write_unchanged(begin + at)) return EFAULT;
  }
  return 0;
}

}  // namespace

bool ProcessMemory::read(std::span<std::uint8_t> to, const std::uint8_t* from) {
  const iovec here{to.data(), to.size()};
  const iovec there{const_cast<std::uint8_t*>(from), to.size()};
  return ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == static_cast<ssize_t>(to.size());
}

bool ProcessMemory::write(std::uint8_t* to, hca::ConstBytes from) {
  const iovec here{const_cast<std::uint8_t*>(from.data()), from.size()};
  const iovec there{to, from.size()};
  return ::process_vm_writev(::getpid(), &here, 1, &there, 1, 0) ==
         static_cast<ssize_t>(from.size());
}

bool ProcessMemory::populate(std::uint8_t* begin, std::size_t size) {
  return prefetch_pages(begin, size, true) == 0;
}

int prefetch_pages(std::uint8_t* begin, std::size_t size, bool to_write) {
  const Pages pages(begin, size);
  const int error = advise(pages, to_write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
  if (error == EINVAL) return touch(pages, to_write);
  return error == ENOMEM ? EFAULT : error;
}

/// Whether a range is mapped. Nothing is written back: MS_ASYNC only checks the range since Linux
/// 2.6.19.
bool is_mapped(const void* begin, std::size_t size) {
  constexpr std::size_t kMost = std::numeric_limits<std::ptrdiff_t>::max();
  if (size > kMost) return false;  // msync() would round it up to 0
  const Pages pages(begin, size);
  return size == 0 || ::msync(pages.first, pages.bytes, MS_ASYNC) == 0;
}

}  // namespace softib::verbs
