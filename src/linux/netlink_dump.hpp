// One dump of a table of the kernel over rtnetlink.
#pragma once

#include <linux/netlink.h>

#include <functional>

#include "ipoib/bytes.hpp"
#include "ipoib/result.hpp"

struct nl_sock;

namespace ipoib::host {

struct DumpRequest {
  int type = 0;           ///< RTM_GET...
  ConstBytes header;      ///< the family's own: ifaddrmsg, rtmsg, ...
  int out_interface = 0;  ///< RTA_OIF, where the kernel can filter by it; 0: none
};

/// Calls `start` before the first message, and `visit` with each one. A dump during which the table
/// changed is taken again, from `start` on, but not for ever: the change that spoilt it is
/// announced too, so whoever follows the announcements repairs what is left.
[[nodiscard]] Result<void> netlink_dump(nl_sock* socket, const DumpRequest& request,
                                        const std::function<void()>& start,
                                        const std::function<void(nlmsghdr*)>& visit);

}  // namespace ipoib::host
