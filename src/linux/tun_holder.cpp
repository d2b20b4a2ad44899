#include "linux/tun_holder.hpp"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "ipoib/number.hpp"

namespace ipoib::linux {

namespace fs = std::filesystem;

namespace {

/// Whether a file of /proc/PID/fdinfo is that of the device (proc(5), tun_chr_show_fdinfo()).
bool is_open_device(const fs::path& descriptor, const std::string& interface) {
  std::ifstream file(descriptor);
  const std::string wanted = "iff:\t" + interface;
  for (std::string line; std::getline(file, line);) {
    if (line == wanted) return true;
  }
  return false;
}

bool has_open(const fs::path& process, const std::string& interface) {
  std::error_code error;
  for (fs::directory_iterator each(process / "fdinfo", error), end; !error && each != end;
       each.increment(error)) {
    if (is_open_device(each->path(), interface)) return true;
  }
  return false;
}

}  // namespace

/// Another namespace may have a device of the same name.
std::optional<TunHolder> find_tun_holder(const std::string& interface) {
  std::error_code error;
  const auto own = fs::read_symlink("/proc/self/ns/net", error);
  for (fs::directory_iterator each("/proc", error), end; !error && each != end;
       each.increment(error)) {
    const auto pid = parse_number<pid_t>(each->path().filename().string());
    std::error_code hidden;
    if (!pid || fs::read_symlink(each->path() / "ns/net", hidden) != own || hidden) continue;
    if (!has_open(each->path(), interface)) continue;
    std::string command;
    std::getline(std::ifstream(each->path() / "comm"), command);
    return TunHolder{*pid, command};
  }
  return std::nullopt;
}

}  // namespace ipoib::linux
