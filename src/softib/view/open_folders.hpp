// Folders of the view that the program reads with readdir(3).
#pragma once

#include <dirent.h>

#include <cstddef>
#include <string>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "softib/view/tree.hpp"

namespace softib::view {

/// What is in a folder of the tree. Without "." and "..", as POSIX permits.
[[nodiscard]] std::vector<dirent> entries_of(const Tree& tree, const std::string& folder);

/// What a DIR pointer stands for, if it is one of the view.
struct OpenFolder {
  std::string path;
  std::vector<dirent> entries;
  ipoib::FileDescriptor fd{};  ///< that of fdopendir(3), or the one that dirfd(3) has returned
  std::size_t next = 0;        ///< the entry that readdir(3) returns next
};

/// Keeps a folder until it is closed. The pointer is not dereferenced by anybody else.
[[nodiscard]] DIR* keep(OpenFolder folder);
/// The folder of a pointer from keep(); null for the C library's own. Does not allocate, and for a
/// program that reads no folder of the view costs one load.
[[nodiscard]] OpenFolder* open_folder(const DIR* stream);
/// Closes a folder of keep().
void close(OpenFolder* folder);

}  // namespace softib::view
