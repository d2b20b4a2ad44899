#include "softib/cli/known_subnets.hpp"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "softib/core/name.hpp"
#include "softib/fabric/attached_processes.hpp"
#include "softib/fabric/fabric.hpp"
#include "softib/fabric/file_lock.hpp"
#include "softib/fabric/shared_file.hpp"
#include "softib/subnet/subnet_manager.hpp"

namespace softib::cli {

namespace fs = std::filesystem;

namespace {

/// What can be read of a file: the process that a file of /proc is about may go meanwhile.
std::string content_of(const fs::path& path) {
  const std::ifstream file(path);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

bool is_softib(const fs::path& process) { return content_of(process / "comm") == "softib\n"; }

/// Time since the start of a softib process (proc(5), field 22 of stat).
std::optional<std::uint64_t> uptime_of(int pid) {
  const fs::path process = fs::path("/proc") / std::to_string(pid);
  if (!is_softib(process)) return std::nullopt;
  const std::string stat = content_of(process / "stat");
  const auto name_end = std::min(stat.rfind(')') + 1, stat.size());
  std::istringstream fields(stat.substr(name_end));
  constexpr int kFieldsBefore = 19;
  std::string skipped;
  for (int i = 0; i < kFieldsBefore; ++i) fields >> skipped;
  double start = 0;
  double now = 0;
  fields >> start;
  std::istringstream(content_of("/proc/uptime")) >> now;
  start /= static_cast<double>(::sysconf(_SC_CLK_TCK));
  if (!fields || now < start) return std::nullopt;
  return static_cast<std::uint64_t>(now - start);
}

/// Whether a path has no control characters, which would change what a terminal shows.
bool is_printable(const std::string& path) {
  return std::ranges::none_of(path, [](unsigned char c) { return c < ' ' || c == 0x7f; });
}

std::string owner_of(const fabric::SubnetFolder& folder) {
  struct stat status {};
  if (::lstat(folder.path().c_str(), &status) != 0) return "?";
  const auto* const user = ::getpwuid(status.st_uid);
  const std::string name = user != nullptr ? user->pw_name : "";
  return name.empty() || !is_printable(name) ? std::to_string(status.st_uid) : name;
}

/// Adds the folders whose lock a process has open.
void add_folders_of(const fs::path& process, std::set<std::string>& folders) {
  std::error_code gone;
  std::error_code ignored;
  for (fs::directory_iterator entry(process / "fd", gone), end; !gone && entry != end;
       entry.increment(gone)) {
    const fs::path file = fs::read_symlink(entry->path(), ignored);
    const auto folder = file.parent_path();
    // A process may have any name, and any file open.
    if (file.filename() == "lock" && is_valid_name(folder.filename().string()) &&
        is_printable(folder.string())) {
      folders.insert(folder.string());
    }
  }
}

std::vector<KnownSubnet> find_all(const std::set<std::string>& folders) {
  std::vector<KnownSubnet> found;
  for (const auto& folder : folders) {
    if (auto subnet = find_subnet(fabric::SubnetFolder(folder)))
      found.push_back(std::move(*subnet));
  }
  return found;
}

}  // namespace

std::optional<KnownSubnet> find_subnet(const fabric::SubnetFolder& folder) {
  const auto lock = fabric::open_shared(folder.lock(), fabric::IfMissing::fail);
  if (!lock) return std::nullopt;
  KnownSubnet subnet{folder, 0, std::nullopt, 0, {}, owner_of(folder)};
  if (fabric::is_locked(lock->get(), 0)) {
    subnet.pid = fabric::read_holder(lock->get());
    subnet.uptime = uptime_of(subnet.pid);
  }
  const auto fabric = fabric::Fabric::open(folder.fabric());
  if (!fabric) {
    for (NodeIndex index = 0; index < kMaxNodes; ++index) {
      const int pid = fabric::first_attached_pid(folder, index);
      if (pid != 0 && pid != subnet.pid) subnet.programs.push_back(std::max(pid, 0));
    }
    return subnet;
  }
  for (NodeIndex index = 0; index < fabric->nodes(); ++index) {
    if (fabric->node_version(index) == 0 || !fabric->node(index)) continue;
    if (index != kSubnetNode) ++subnet.hcas;
    for (const auto& process : fabric::attached_processes(*fabric, folder, index)) {
      if (process.pid != subnet.pid) subnet.programs.push_back(process.pid);
    }
  }
  return subnet;
}

std::vector<KnownSubnet> subnets_in(const std::string& directory) {
  std::set<std::string> folders;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    if (is_valid_name(entry.path().filename().string())) folders.insert(entry.path().string());
  }
  return find_all(folders);
}

std::vector<KnownSubnet> subnets_of_processes() {
  std::set<std::string> folders;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    const bool is_process = name.find_first_not_of("0123456789") == std::string::npos;
    if (is_process && is_softib(entry.path())) add_folders_of(entry.path(), folders);
  }
  auto found = find_all(folders);
  std::erase_if(found, [](const auto& subnet) { return subnet.pid == 0; });
  return found;
}

}  // namespace softib::cli
