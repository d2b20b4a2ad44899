// Files that a command writes, and its standard output.
#pragma once

#include <string>
#include <string_view>

#include "ipoib/result.hpp"

namespace ipoib::program {

/// Replaces the file, or creates it, in one step: a reader sees the old contents or the new ones,
/// and after a failure the old ones stay. Everybody may read the file. A symbolic link is replaced,
/// not followed. Fails with EINVAL if there is a device, a pipe or a socket.
[[nodiscard]] Result<void> replace_file(const std::string& path, std::string_view contents);

/// Creates a file that only its owner may read. Fails with EEXIST if the path exists, also as a
/// symbolic link. After a failure there is no file.
[[nodiscard]] Result<void> create_private_file(const std::string& path, std::string_view contents);

/// Writes to the standard output and flushes it. A reader such as head(1) may close the pipe early;
/// that is no error.
[[nodiscard]] Result<void> print(std::string_view text);

}  // namespace ipoib::program
