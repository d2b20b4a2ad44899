// The folder in which the daemons of a host keep sockets and locks.
//
//   /run/ipoibd/                        belongs to root, or to the user that the daemons run as
//       members/<port>                  locks, see daemon/port/shared_memberships.hpp
//       net-<inode>/<interface>/        control sockets, see control/socket_folder.hpp
//   /run/ipoibd.<user id>/              the same for a daemon that was started while one of another
//                                       user had the first folder
//
// Its owner alone may create names in it and in the folders below, so nobody else can take a name
// first, or replace a file by a symbolic link. A folder that others may write to is refused.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"

namespace ipoib {

/// Environment variable with the path of another folder, for tests.
inline constexpr const char* kRunFolderVariable = "IPOIBD_DIR";

struct Folder {
  std::string path;
  FileDescriptor fd;
};

/// Where daemons may have their folder, the usual place first: the value of IPOIBD_DIR alone, else
/// `ipoibd` in the folder `system`, those of other users that exist there, and
/// $XDG_RUNTIME_DIR/ipoibd if XDG_RUNTIME_DIR belongs to this user.
[[nodiscard]] std::vector<std::string> run_folders(const std::string& system = "/run");

/// What to do if a folder does not exist: create it with mode 0755, or fail with ENOENT.
enum class IfMissing : std::uint8_t { create, fail };

/// Opens the first of run_folders() that belongs to this user, else the first one in which this
/// process may create files. Fails with the reason of the first one.
[[nodiscard]] Result<Folder> open_run_folder(IfMissing if_missing = IfMissing::create);

/// Opens a folder in another one. Fails with ENOENT also if `above` has been removed, and with
/// EPERM for a symbolic link and for a folder that others may write to.
[[nodiscard]] Result<Folder> open_folder(const Folder& above, const std::string& name,
                                         IfMissing if_missing = IfMissing::create);

/// Opens the one of run_folders() at `path`, as open_run_folder() does.
[[nodiscard]] Result<Folder> open_run_folder_at(const std::string& path, IfMissing if_missing);

/// Makes `owner` the owner of the run folder and of what is in it, before a daemon changes to that
/// user. Files with several links keep their owner. If `is_in_use` says that a daemon of another
/// user needs the folder, `owner` gets /run/ipoibd.<user id> instead. Returns the folder.
[[nodiscard]] Result<Folder> give_run_folder(uid_t owner,
                                             const std::function<bool(const Folder&)>& is_in_use);

}  // namespace ipoib
