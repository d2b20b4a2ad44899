// Topologies from files and specifications: the only part of the folder that reads files.
#pragma once

#include <string>

#include "softib/topology/net_file.hpp"

namespace softib::topology {

/// Reads a net file and those that it includes, whose names are relative to the folder of the file
/// that includes them, and which must be regular files. "-" is the standard input. Fails as
/// parse_net() does, and with errors of opening and reading.
[[nodiscard]] ipoib::Result<NetFile> read_net(const std::string& path);

/// The text of a file, or for "-" of the standard input. Fails with EFBIG after kMaxNetBytes.
[[nodiscard]] ipoib::Result<std::string> read_source(const std::string& path);

/// The topology of a shape (shapes.hpp), if the text begins with the name of one and a colon; else
/// of the file of this name.
[[nodiscard]] ipoib::Result<NetFile> load_topology(const std::string& shape_or_path);

}  // namespace softib::topology
