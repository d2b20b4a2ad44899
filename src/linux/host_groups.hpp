// The multicast groups that the host is in on an interface.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/result.hpp"

namespace ipoib::host {

/// Kernels before 6.14 do not list IPv4 memberships over rtnetlink; all have them in
/// /proc/net/igmp and igmp6, which show the network namespace in which they were opened.
class HostGroups {
 public:
  /// Opens both files in the current network namespace. A kernel without IPv6 has one of them.
  [[nodiscard]] static Result<HostGroups> open();
  [[nodiscard]] Result<std::vector<IpAddress>> read(std::string_view interface) const;

 private:
  HostGroups(FileDescriptor ipv4, FileDescriptor ipv6)
      : ipv4_(std::move(ipv4)), ipv6_(std::move(ipv6)) {}

  FileDescriptor ipv4_;
  FileDescriptor ipv6_;
};

/// The groups of `interface` in the text of /proc/net/igmp, of which each interface has a line and
/// each of its groups another one, indented.
[[nodiscard]] std::vector<IpAddress> groups_in_igmp(std::string_view text,
                                                    std::string_view interface);
/// The same for /proc/net/igmp6, a line for each group.
[[nodiscard]] std::vector<IpAddress> groups_in_igmp6(std::string_view text,
                                                     std::string_view interface);

}  // namespace ipoib::host
