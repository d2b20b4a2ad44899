// The configuration files that are read by default.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ipoib::daemon {

inline constexpr std::size_t kMaxConfigurationFiles = 64;

/// Whether a file may set the option. Others are for the command line, as they are commands.
[[nodiscard]] bool is_for_files(const std::string& option);

/// Those that exist, the one that takes precedence first: of `port` ("mlx5_0:1", or empty) the
/// files PORT.conf.d/*.conf, from the last to the first by name, and PORT.conf; then in the same
/// way those for all ports, ipoibd.conf.d/*.conf and ipoibd.conf. At most kMaxConfigurationFiles;
/// throws UsageError if there are more, or if a folder cannot be read.
[[nodiscard]] std::vector<std::string> configuration_files(const std::string& folder,
                                                           const std::string& port);

}  // namespace ipoib::daemon
