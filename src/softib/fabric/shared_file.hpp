// Files of a subnet's folder. Processes of several users work in it, root's among them, so whoever
// may write there must not lead others elsewhere: each step of the way is taken from the descriptor
// of the folder above, never through a symbolic link, and a file that has a second name is none of
// the subnet's. Who owns a file does not matter: a gate that was widened lets more users in.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"

namespace softib::fabric {

enum class IfMissing : std::uint8_t { fail, make };

/// The folder at `path`, for the calls below. The last component must not be a link; those before
/// it are the user's own word. Errors are errno values and say `path`.
[[nodiscard]] ipoib::Result<ipoib::FileDescriptor> open_folder(const std::string& path);
[[nodiscard]] ipoib::Result<ipoib::FileDescriptor> open_folder(int folder, const std::string& name);
/// One that is made here gets exactly `mode`, whatever the umask; one that is there keeps its own.
[[nodiscard]] ipoib::Result<void> make_folder(int folder, const std::string& name, mode_t mode);

/// A regular file of one name in `folder`, for reading and writing. One that is made here is open
/// to everybody who gets to the folder, whatever the umask. ENOENT: there is none; EPERM: it is
/// something else.
[[nodiscard]] ipoib::Result<ipoib::FileDescriptor> open_shared(int folder, const std::string& name,
                                                               IfMissing if_missing);
/// The same for a file directly in a subnet's folder, by its path.
[[nodiscard]] ipoib::Result<ipoib::FileDescriptor> open_shared(const std::string& path,
                                                               IfMissing if_missing);
/// Makes a named pipe in `folder` for everybody who gets there; one that is there is fine.
[[nodiscard]] ipoib::Result<void> make_pipe(int folder, const std::string& name);
/// Whether somebody has a pipe of that name open for reading, who is alive.
[[nodiscard]] bool has_reader(int folder, const std::string& name);
/// Whether the file is still the one that has the name: folders come and go.
[[nodiscard]] bool is_named(int file, int folder, const std::string& name);

}  // namespace softib::fabric
