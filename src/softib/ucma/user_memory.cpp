#include "softib/ucma/user_memory.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace softib::ucma {

using ipoib::Error;
using ipoib::Result;

namespace {

/// The pointer to an address that a program passes as a number.
void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

/// Copies by a system call. Some containers do not let programs use process_vm_readv(2): there a
/// bad address causes a SIGSEGV.
template <class Transfer, class Copy>
Result<void> checked(std::size_t size, Transfer transfer, Copy copy) {
  if (transfer() == static_cast<ssize_t>(size)) return {};
  if (errno != ENOSYS && errno != EPERM)
    return Error{EFAULT, "the command names memory that the program has not mapped"};
  copy();
  return {};
}

}  // namespace

Result<void> copy_to_user(std::uint64_t address, ipoib::ConstBytes bytes) {
  const iovec here{const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
  const iovec there{pointer(address), bytes.size()};
  return checked(
      bytes.size(), [&] { return ::process_vm_writev(::getpid(), &here, 1, &there, 1, 0); },
      [&] { std::memcpy(pointer(address), bytes.data(), bytes.size()); });
}

Result<void> copy_from_user(ipoib::MutableBytes to, std::uint64_t address) {
  const iovec here{to.data(), to.size()};
  const iovec there{pointer(address), to.size()};
  return checked(
      to.size(), [&] { return ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0); },
      [&] { std::memcpy(to.data(), pointer(address), to.size()); });
}

}  // namespace softib::ucma
