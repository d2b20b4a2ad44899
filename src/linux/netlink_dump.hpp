// Dumps a table of the kernel over rtnetlink.
#pragma once

#include <linux/netlink.h>

#include <functional>

#include "ipoib/bytes.hpp"
#include "ipoib/result.hpp"

struct nl_sock;

namespace ipoib::linux {

struct DumpRequest {
  int type = 0;           ///< RTM_GET...
  ConstBytes header;      ///< family header: ifaddrmsg, rtmsg, ...
  int out_interface = 0;  ///< RTA_OIF for tables that the kernel can filter by it; 0: none
};

/// Calls `start` before the first message and `visit` with each one. Repeats a dump that a change
/// of the table has interrupted, but not beyond a limit: the change is also announced, so a
/// subscriber will make another dump.
[[nodiscard]] Result<void> netlink_dump(nl_sock* socket, const DumpRequest& request,
                                        const std::function<void()>& start,
                                        const std::function<void(nlmsghdr*)>& visit);

}  // namespace ipoib::linux
