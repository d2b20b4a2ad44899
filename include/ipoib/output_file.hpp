// Files that a program writes to a path of the operator's choice.
#pragma once

#include <sys/types.h>

#include <string>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"

namespace ipoib {

/// Opens a file for writing, and creates it with `mode` if it does not exist. `flags` are further
/// ones of open(2), such as O_APPEND; O_CLOEXEC is set.
///
/// Another user must not choose which file is written. So the last part of the path is never a
/// symbolic link (ELOOP). In a folder that everybody may write to, such as /tmp, the file has to be
/// this user's own, with a single link; and the folder has to be this user's or root's (EPERM).
[[nodiscard]] Result<FileDescriptor> open_output_file(const std::string& path, int flags,
                                                      mode_t mode);

}  // namespace ipoib
