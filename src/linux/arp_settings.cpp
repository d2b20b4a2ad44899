#include "linux/arp_settings.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace ipoib::host {

// Files below the folder are those of its network namespace, whatever that of the thread is.
ArpSettings::ArpSettings()
    : folder_(::open("/proc/sys/net/ipv4/conf", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}

/// 0 if there is no such setting.
int ArpSettings::number(const std::string& interface, const char* setting) const {
  if (!folder_) return 0;
  const std::string path = interface + "/" + setting;
  const FileDescriptor file(::openat(folder_.get(), path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 16> text{};
  const ssize_t size = file ? ::read(file.get(), text.data(), text.size()) : 0;
  int value = 0;
  (void)std::from_chars(text.data(), text.data() + std::max<ssize_t>(size, 0), value);
  return value;
}

int ArpSettings::larger(const std::string& interface, const char* setting) const {
  return std::max(number("all", setting), number(interface, setting));
}

bool ArpSettings::forwards(const std::string& interface) const {
  return number(interface, "forwarding") != 0;
}

bool ArpSettings::proxies(const std::string& interface) const {
  return forwards(interface) && larger(interface, "proxy_arp") != 0;
}

bool ArpSettings::proxies_within(const std::string& interface) const {
  return forwards(interface) && number(interface, "proxy_arp_pvlan") != 0;
}

ArpPolicy ArpSettings::read(const std::string& interface) const {
  const auto small = [&](const char* setting) {
    return static_cast<std::uint8_t>(std::clamp(larger(interface, setting), 0, 255));
  };
  return {.ignore = small("arp_ignore"),
          .announce = small("arp_announce"),
          .filter = larger(interface, "arp_filter") != 0,
          .proxy = proxies(interface) || proxies_within(interface)};
}

}  // namespace ipoib::host
