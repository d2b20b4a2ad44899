#include "softib/fabric/subnet_lock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "softib/fabric/file_lock.hpp"
#include "softib/fabric/shared_file.hpp"
#include "softib/fabric/unused_folder.hpp"

namespace softib::fabric {

using ipoib::Error;
using ipoib::Result;

namespace {

/// Bytes of the file that are locked: by the subnet process, and by those that hold the subnet.
constexpr std::int64_t kProcessOffset = 0;
constexpr std::int64_t kHoldersOffset = 1;

}  // namespace

Result<SubnetLock> SubnetLock::take(const SubnetFolder& folder) {
  constexpr int kAttempts = 64;
  constexpr std::chrono::milliseconds kPause{10};
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (const auto created = folder.create(); !created) return created.error();
    auto file = open_shared(folder.lock(), IfMissing::create);
    if (!file && file.error().code == ENOENT) continue;
    if (!file) {
      return Error{file.error().code, "cannot open " + folder.lock() + ": " + file.error().message};
    }
    if (!try_lock(file->get(), kProcessOffset)) {
      // A process that removes the folder empties the file first.
      if (read_holder(file->get()) == 0 && attempt + 1 < kAttempts) {
        std::this_thread::sleep_for(kPause);
        continue;
      }
      return Error{EBUSY, "subnet '" + folder.name() + "' is already running in " + folder.path() +
                              " (process " + std::to_string(read_holder(file->get())) +
                              "); choose another --subnet"};
    }
    // A subnet process that exits removes its folder.
    if (!is_named(file->get(), AT_FDCWD, folder.lock())) continue;
    if (!write_holder(file->get())) {
      const int code = errno;
      file->reset();
      // Of a subnet that was killed, the options remain.
      if (::access(folder.fabric().c_str(), F_OK) != 0) (void)remove_without_process(folder);
      return Error{code, "cannot write " + folder.lock() + ": " + std::strerror(code)};
    }
    return SubnetLock(std::move(*file));
  }
  return Error{EBUSY, "the folder " + folder.path() + " keeps being removed: try again"};
}

bool SubnetLock::is_in(const SubnetFolder& folder) const {
  return is_named(file_.get(), AT_FDCWD, folder.lock());
}

bool SubnetLock::is_held() const { return is_locked(file_.get(), kHoldersOffset); }

Result<void> hold_subnet(const SubnetFolder& folder) {
  auto file = open_shared(folder.lock(), IfMissing::fail);
  if (!file) return file.error();
  if (!try_lock_shared(file->get(), kHoldersOffset) || ::fcntl(file->get(), F_SETFD, 0) != 0) {
    return Error{errno, "cannot lock " + folder.lock() + ": " + std::strerror(errno) +
                            "; lslocks shows which process keeps it locked"};
  }
  (void)file->release();
  return {};
}

}  // namespace softib::fabric
