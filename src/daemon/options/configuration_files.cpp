#include "daemon/options/configuration_files.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "daemon/options/options.hpp"

namespace ipoib::daemon {

namespace {

namespace fs = std::filesystem;

/// Appends the drop-ins of `file`, then `file` itself.
void append(std::vector<std::string>& out, const fs::path& file) {
  std::error_code failed;
  std::vector<std::string> drop_ins;
  const auto folder = file.string() + ".d";
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    if (entry->path().extension() == ".conf") drop_ins.push_back(entry->path());
  }
  if (failed && failed != std::errc::no_such_file_or_directory) {
    throw UsageError(folder + ": " + failed.message());
  }
  std::sort(drop_ins.begin(), drop_ins.end(), std::greater<>());
  out.insert(out.end(), drop_ins.begin(), drop_ins.end());
  if (fs::exists(file, failed)) out.push_back(file);
  if (failed) throw UsageError(file.string() + ": " + failed.message());
}

}  // namespace

bool is_for_files(const std::string& option) {
  static const std::set<std::string> others{"help",   "version", "config",  "check-config",
                                            "reload", "cleanup", "takeover"};
  return !others.contains(option);
}

std::vector<std::string> configuration_files(const std::string& folder, const std::string& port) {
  std::vector<std::string> files;
  if (!port.empty() && port.find('/') == std::string::npos) {
    append(files, fs::path(folder) / (port + ".conf"));
  }
  append(files, fs::path(folder) / "ipoibd.conf");
  if (files.size() > kMaxConfigurationFiles) {
    throw UsageError(folder + ": more than " + std::to_string(kMaxConfigurationFiles) +
                     " configuration files: merge some");
  }
  return files;
}

}  // namespace ipoib::daemon
