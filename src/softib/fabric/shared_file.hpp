// Files in a subnet's folder. Processes of several users, root among them, work in it, so a user
// who may write there must not be able to redirect the others. Therefore each path component is
// opened relative to the descriptor of the folder above, symbolic links are never followed, and
// files with more than one link are refused. The owner of a file does not matter.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"

namespace softib::fabric {

enum class IfMissing : std::uint8_t { fail, create };

/// Opens a folder for the functions below. The last component must not be a link; those before it
/// are trusted. Errors are errno values and name `path`.
[[nodiscard]] ipoib::Result<ipoib::FileDescriptor> open_folder(const std::string& path);
[[nodiscard]] ipoib::Result<ipoib::FileDescriptor> open_folder(int folder, const std::string& name);
/// Creates a folder with exactly `mode`, whatever the umask. An existing one keeps its mode.
[[nodiscard]] ipoib::Result<void> make_folder(int folder, const std::string& name, mode_t mode);

/// Opens a regular file with a single link for reading and writing. A file created here has mode
/// 0666, whatever the umask. Fails with ENOENT if there is none, EPERM if it is something else, and
/// EAGAIN if a lease on it has to be broken first. Never blocks.
[[nodiscard]] ipoib::Result<ipoib::FileDescriptor> open_shared(int folder, const std::string& name,
                                                               IfMissing if_missing);
/// Opens a file directly in a subnet's folder, by its path.
[[nodiscard]] ipoib::Result<ipoib::FileDescriptor> open_shared(const std::string& path,
                                                               IfMissing if_missing);
/// Creates a named pipe with mode 0666 in `folder` unless it exists.
[[nodiscard]] ipoib::Result<void> make_pipe(int folder, const std::string& name);
/// Gives a socket mode 0666, whatever the umask. Fails with EPERM if the name is not a socket with
/// a single link.
[[nodiscard]] ipoib::Result<void> open_socket_to_all(int folder, const std::string& name);
/// Opens a socket for connect_socket(). Fails with ENOENT if there is none, and with EPERM as
/// open_socket_to_all().
[[nodiscard]] ipoib::Result<ipoib::FileDescriptor> open_socket(int folder, const std::string& name);
/// Returns 0 or the error of connect(2).
[[nodiscard]] int connect_socket(int socket, const ipoib::FileDescriptor& opened);
/// Whether a process has the named pipe open for reading.
[[nodiscard]] bool has_reader(int folder, const std::string& name);
/// Whether `file` is still the file with this name, and has not been removed or replaced.
[[nodiscard]] bool is_named(int file, int folder, const std::string& name);

}  // namespace softib::fabric
