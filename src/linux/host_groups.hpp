// Reads the multicast groups that the host has joined on an interface.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/result.hpp"

namespace ipoib::linux {

/// Reads /proc/net/igmp and igmp6, since kernels before 6.14 do not list IPv4 memberships over
/// rtnetlink. Both show the network namespace in which they were opened.
class HostGroups {
 public:
  /// Opens both files in the current network namespace; igmp6 may be missing (no IPv6).
  [[nodiscard]] static Result<HostGroups> open();
  [[nodiscard]] Result<std::vector<IpAddress>> read(std::string_view interface) const;

 private:
  HostGroups(FileDescriptor ipv4, FileDescriptor ipv6)
      : ipv4_(std::move(ipv4)), ipv6_(std::move(ipv6)) {}

  FileDescriptor ipv4_;
  FileDescriptor ipv6_;
};

/// Parses /proc/net/igmp, which has a line for each interface, followed by an indented line for
/// each of its groups; returns those of `interface`.
[[nodiscard]] std::vector<IpAddress> groups_in_igmp(std::string_view text,
                                                    std::string_view interface);
/// Parses /proc/net/igmp6, which has a line for each group.
[[nodiscard]] std::vector<IpAddress> groups_in_igmp6(std::string_view text,
                                                     std::string_view interface);

}  // namespace ipoib::linux
