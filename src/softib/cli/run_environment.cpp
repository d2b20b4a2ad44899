#include "softib/cli/run_environment.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "softib/core/fabric_types.hpp"
#include "softib/core/name.hpp"

namespace softib::cli {

namespace fs = std::filesystem;

namespace {

constexpr const char* kNamedNamespaces = "/run/netns";
constexpr std::string_view kSanitizerRuntime = SOFTIB_SANITIZER_RUNTIME;

std::optional<struct stat> status_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return status;
}

bool same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

std::optional<std::string> name_of_namespace(const struct stat& ours) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(kNamedNamespaces, ignored)) {
    const auto theirs = status_of(entry.path());
    if (theirs && same(*theirs, ours)) return entry.path().filename();
  }
  return std::nullopt;
}

/// Only the initial network namespace has the system-wide settings. (A comparison with the
/// namespace of process 1 needs privileges.)
bool is_initial_namespace() {
  return status_of("/proc/sys/net/core/netdev_max_backlog").has_value();
}

/// A list of ld.so(8); empty parts are left out.
std::string joined(std::string_view first, std::string_view second) {
  const bool both = !first.empty() && !second.empty();
  return std::string(first).append(both ? ":" : "").append(second);
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return {};
  const std::string_view all = name.data();
  return std::string(all.substr(0, all.find('.')));
}

/// Finds a file of softib from the location of this program: in a folder of the build tree, or
/// installed.
ipoib::Result<std::string> find_beside_program(const char* build_folder, const char* name) {
  std::error_code failed;
  const fs::path folder = fs::read_symlink("/proc/self/exe", failed).parent_path();
  const std::array candidates{folder / ".." / build_folder / name,
                              folder / SOFTIB_RELATIVE_LIBDIR / name,
                              fs::path(SOFTIB_LIBDIR) / name};
  for (const auto& candidate : candidates) {
    if (fs::exists(candidate, failed)) return fs::weakly_canonical(candidate, failed).string();
  }
  return ipoib::Error{ENOENT, std::string(name) + " is neither in " +
                                  candidates[0].lexically_normal().string() +
                                  " nor in " SOFTIB_LIBDIR ": build or install it"};
}

}  // namespace

std::string as_name(std::string_view text) {
  std::string name(text.substr(0, kMaxNodeName));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !is_valid_name(std::string("x") + c); }, '-');
  if (!name.empty() && !is_valid_name(name)) name.front() = 'x';  // starts with a dot or dash
  return name.empty() ? "host" : name;
}

std::string default_hca_name() {
  const auto ours = status_of("/proc/self/ns/net");
  if (!ours) return as_name(host_name());
  if (const auto name = name_of_namespace(*ours)) return as_name(*name);
  return is_initial_namespace() ? as_name(host_name()) : "ns-" + std::to_string(ours->st_ino);
}

ipoib::Result<std::string> find_libsoftib() { return find_beside_program("lib", "libsoftib.so"); }

ipoib::Result<std::string> find_lab_program() {
  return find_beside_program("python", "softib_lab");
}

Preload preload_of(std::string_view library, std::string_view preloads, std::string_view folders) {
  const std::string_view folder = library.substr(0, library.rfind('/'));
  const bool has_blank = library.find(' ') != library.npos;
  const auto loaded = has_blank ? library.substr(folder.size() + 1) : library;
  Preload preload;
  preload.libraries = joined(joined(kSanitizerRuntime, loaded), preloads);
  preload.folders = joined(std::string(folder) + "/abi", joined(has_blank ? folder : "", folders));
  return preload;
}

}  // namespace softib::cli
