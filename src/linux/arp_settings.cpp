#include "linux/arp_settings.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace ipoib::linux {

// Files below the folder are those of the folder's network namespace, whatever namespace the thread
// is in.
ArpSettings::ArpSettings()
    : folder_(::open("/proc/sys/net/ipv4/conf", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}

std::optional<int> ArpSettings::find(const std::string& interface, const char* setting) const {
  if (!folder_) return {};
  const std::string path = interface + "/" + setting;
  const FileDescriptor file(::openat(folder_.get(), path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 16> text{};
  const ssize_t size = file ? ::read(file.get(), text.data(), text.size()) : -1;
  if (size < 0) return {};
  int value = 0;
  (void)std::from_chars(text.data(), text.data() + size, value);
  return value;
}

/// The value of a setting; 0 if there is no such one.
int ArpSettings::number(const std::string& interface, const char* setting) const {
  return find(interface, setting).value_or(0);
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

std::optional<ArpPolicy> ArpSettings::read(const std::string& interface) const {
  if (folder_ && !find(interface, "arp_ignore")) return {};
  const auto small = [&](const char* setting) {
    return static_cast<std::uint8_t>(std::clamp(larger(interface, setting), 0, 255));
  };
  return ArpPolicy{.ignore = small("arp_ignore"),
                   .announce = small("arp_announce"),
                   .filter = larger(interface, "arp_filter") != 0,
                   .proxy = proxies(interface) || proxies_within(interface),
                   .forwards = forwards(interface)};
}

}  // namespace ipoib::linux
