#include "softib/subnet_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "softib/file_lock.hpp"

namespace softib {

using ipoib::Error;
using ipoib::Result;

namespace {

/// Whether the file is still the one that has the name: a subnet that ends takes its folder away.
bool is_named(int file, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(file, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace

Result<SubnetLock> SubnetLock::take(const SubnetFolder& folder) {
  constexpr int kAttempts = 16;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (const auto created = folder.create(); !created) return created.error();
    ipoib::FileDescriptor file(::open(folder.lock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!file && errno == ENOENT) continue;
    if (!file) {
      return Error{errno, "cannot open " + folder.lock() + ": " + std::strerror(errno)};
    }
    if (!try_lock(file.get(), 0)) {
      return Error{EBUSY, "subnet '" + folder.name() + "' is running already in " + folder.path() +
                              " (process " + std::to_string(read_holder(file.get())) +
                              "); choose another --subnet"};
    }
    if (!is_named(file.get(), folder.lock())) continue;
    if (!write_holder(file.get())) {
      return Error{errno, "cannot write " + folder.lock() + ": " + std::strerror(errno)};
    }
    return SubnetLock(std::move(file));
  }
  return Error{EBUSY, "the folder " + folder.path() + " comes and goes"};
}

}  // namespace softib
