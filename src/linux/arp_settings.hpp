// Reads the kernel's settings for ARP, which it neither announces over netlink nor applies on a
// TUN.
#pragma once

#include <optional>
#include <string>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/host_view.hpp"
#include "ipoib/result.hpp"

namespace ipoib::linux {

class ArpSettings final : public ArpPolicySource {
 public:
  /// Opens /proc/sys/net/ipv4/conf in the network namespace of the calling thread; without it, as
  /// in a container, all settings are the kernel's defaults.
  ArpSettings();

  /// The policy of an interface, combined with the settings for all interfaces.
  [[nodiscard]] std::optional<ArpPolicy> read(const std::string& interface) const override;
  /// Whether the host replies for an address that it reaches through another interface.
  [[nodiscard]] bool proxies(const std::string& interface) const;
  /// Whether the host replies for an address that it reaches through the same interface.
  [[nodiscard]] bool proxies_within(const std::string& interface) const;
  [[nodiscard]] bool forwards(const std::string& interface) const;

 private:
  [[nodiscard]] std::optional<int> find(const std::string& interface, const char* setting) const;
  [[nodiscard]] int number(const std::string& interface, const char* setting) const;
  [[nodiscard]] int larger(const std::string& interface, const char* setting) const;

  FileDescriptor folder_;
};

}  // namespace ipoib::linux
