// The folder in which the daemons of a host keep sockets and locks.
//
//   /run/ipoibd/                        belongs to root, or to the user that the daemons run as
//       members/<port>                  locks, see daemon/shared_memberships.hpp
//       net-<inode>/<interface>/        control sockets, see control/socket_folder.hpp
//
// Its owner alone may create names in it and in the folders below, so nobody else can take a name
// first, or replace a file by a symbolic link. A folder that others may write to is refused.
#pragma once

#include <sys/types.h>

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
/// /run/ipoibd, and $XDG_RUNTIME_DIR/ipoibd if XDG_RUNTIME_DIR belongs to this user.
[[nodiscard]] std::vector<std::string> run_folders();

/// Opens the first of run_folders() in which this process may create files; creates it if it does
/// not exist. Fails with the reason of the first one.
[[nodiscard]] Result<Folder> open_run_folder();

/// Opens a folder in another one, and creates it with mode 0755 if it does not exist. ENOENT if
/// `above` has been removed; EPERM for a symbolic link and for a folder that others may write to.
[[nodiscard]] Result<Folder> open_folder(const Folder& above, const std::string& name);

/// Makes `owner` the owner of the run folder and of what is in it, before a daemon changes to that
/// user. Files with several links keep their owner.
[[nodiscard]] Result<void> give_run_folder(uid_t owner);

}  // namespace ipoib
