// A file with metrics, for the textfile collector of Prometheus' node exporter.
#pragma once

#include <string>

#include "ipoib/result.hpp"

namespace ipoib::metrics {

/// Replaces the file, or creates it, in one step: a reader sees the old contents or the new ones,
/// and after a failure the old ones stay. Everybody may read it. A symbolic link is replaced, not
/// followed.
[[nodiscard]] Result<void> write_metrics_file(const std::string& path, const std::string& text);

}  // namespace ipoib::metrics
