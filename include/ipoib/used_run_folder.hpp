// Holds the run folder of a daemon while it lives. The last daemon there removes the folder at its
// end.
//
// Each daemon has a shared lock on the folder (flock(2)) before it creates anything there. Who
// removes the folder has an exclusive one, so no daemon loses the folder that it has begun to use,
// even if it may not create another one.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/run_folder.hpp"

namespace ipoib {

/// Whether this process still has the rights to remove the folder at its end, or will give them up.
/// With the latter, a child process without capabilities waits for the end, and removes it.
enum class RemovalRights : std::uint8_t { stay, are_given_up };

class UsedRunFolder {
 public:
  /// Opens the folder with `open`, once more if it is removed at this moment. Returns nullopt if
  /// that fails. Requires that the process has one thread.
  [[nodiscard]] static std::optional<UsedRunFolder> take(
      const std::function<Result<Folder>()>& open, RemovalRights rights);
  UsedRunFolder(UsedRunFolder&&) noexcept = default;
  UsedRunFolder& operator=(UsedRunFolder&&) = delete;
  UsedRunFolder(const UsedRunFolder&) = delete;
  UsedRunFolder& operator=(const UsedRunFolder&) = delete;
  /// Removes the folder if it is empty, and no other daemon uses it.
  ~UsedRunFolder();

  [[nodiscard]] const std::string& path() const { return folder_.path; }

 private:
  explicit UsedRunFolder(Folder folder) : folder_(std::move(folder)) {}
  void start_remover();

  Folder folder_;
  FileDescriptor remover_;  ///< a socket to the child process, if there is one
  pid_t child_ = -1;
};

}  // namespace ipoib
