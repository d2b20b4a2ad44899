#include "softib/transport/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstring>
#include <string>

#include "ipoib/write_all.hpp"

namespace softib::transport {

using ipoib::Error;
using ipoib::FileDescriptor;
using ipoib::Result;

namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

Error failure(const char* what) {
  const int code = errno;
  return Error{code, std::string(what) + ": " + std::strerror(code)};
}

Error cannot_map() { return failure("cannot map shared memory"); }

/// Checks the descriptor. The seals come first, since the server of a FUSE file system decides what
/// the status of a file is and when it comes.
Result<void> check(int fd, std::size_t bytes) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  struct stat status {};
  if (seals < 0 || (seals & kSeals) != kSeals || ::fstat(fd, &status) != 0 ||
      status.st_size != static_cast<off_t>(bytes)) {
    return Error{EINVAL,
                 "the descriptor of the peer is not sealed shared memory of the right size: use "
                 "the same version of softib for all programs"};
  }
  return {};
}

bool map_at(std::uint8_t* where, int fd, std::size_t from, std::size_t bytes) {
  return ::mmap(where, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                static_cast<off_t>(from)) != MAP_FAILED;
}

}  // namespace

Result<FileDescriptor> make_shared_memory(const char* name, std::size_t bytes) {
  FileDescriptor fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return failure("cannot create shared memory");
  if (const int code = ipoib::set_file_size(fd.get(), bytes); code != 0) {
    return Error{code, std::string("cannot allocate shared memory: ") + std::strerror(code)};
  }
  // A new memfd takes seals, since nobody has mapped it or sealed its seals.
  [[maybe_unused]] const int sealed = ::fcntl(fd.get(), F_ADD_SEALS, kSeals);
  assert(sealed == 0);
  return fd;
}

Result<SharedMapping> SharedMapping::map(int fd, std::size_t bytes) {
  return map(fd, bytes, PROT_READ | PROT_WRITE);
}

Result<SharedMapping> SharedMapping::map_readonly(int fd, std::size_t bytes) {
  return map(fd, bytes, PROT_READ);
}

Result<SharedMapping> SharedMapping::map(int fd, std::size_t bytes, int protection) {
  if (const auto valid = check(fd, bytes); !valid) return valid.error();
  void* const memory = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return cannot_map();
  return SharedMapping(memory, bytes);
}

Result<SharedMapping> SharedMapping::map_ring(int fd, std::size_t head, std::size_t ring) {
  if (const auto valid = check(fd, head + ring); !valid) return valid.error();
  const std::size_t size = head + 2 * ring;
  void* const reserved = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == MAP_FAILED) return cannot_map();
  SharedMapping mapping(reserved, size);
  if (!map_at(mapping.data(), fd, 0, head + ring) ||
      !map_at(mapping.data() + head + ring, fd, head, ring)) {
    return cannot_map();
  }
  return mapping;
}

void SharedMapping::Unmap::operator()(std::uint8_t* memory) const { ::munmap(memory, size); }

}  // namespace softib::transport
