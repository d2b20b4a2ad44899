// The view of this process: the system calls on the files of its HCAs. Each is for a path of
// Tree::own_path(), returns as the call of its name and sets errno. The HCAs are those of
// `softib run`, whose state is read from the fabric file at each call, so values are those of now;
// no call attaches the process to an HCA.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "softib/fabric/fabric.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/view/tree.hpp"

namespace softib::view {

/// The path if it is one of the view, else nullopt. Allocates only if the path may be one; a null
/// pointer is none.
[[nodiscard]] std::optional<std::string> own_path(const char* path);
/// As own_path(), for a path that may be relative to a folder of the view, if the program has it as
/// the descriptor `folder`.
[[nodiscard]] std::optional<std::string> own_path_at(int folder, const char* path);
/// The path of a file or folder of the view that open_file() has opened as `fd`, or as what `fd` is
/// a duplicate of. Costs one load in a process that has opened none, and allocates for no other
/// descriptor.
[[nodiscard]] std::optional<std::string> opened_path(int fd);

/// The subnet of this process.
struct ProcessSubnet {
  fabric::SubnetFolder folder;
  fabric::Fabric fabric;
};
/// nullopt if there is none now.
[[nodiscard]] std::optional<ProcessSubnet> process_subnet();
/// The HCAs of the process now.
[[nodiscard]] std::vector<ShownHca> process_hcas();
/// Their files.
[[nodiscard]] Tree process_tree();

/// Opens a file for reading: its text as it is now. The descriptor of a folder stands for its path.
/// Devices cannot be opened (ENXIO), since programs reach them through the libraries.
int open_file(const std::string& path, int flags);
/// As stat(2); there are no symbolic links.
int stat_file(const std::string& path, struct stat& status);
/// As access(2): files can be read, devices also written.
int access_file(const std::string& path, int mode);

}  // namespace softib::view
