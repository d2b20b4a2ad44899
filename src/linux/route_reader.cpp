#include "linux/route_reader.hpp"

#include <linux/fib_rules.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "linux/netlink_dump.hpp"
#include "linux/netlink_message.hpp"

namespace ipoib::linux {
namespace {

// --- Nexthop objects -----------------------------------------------------------------------------

Result<void> read_objects(nl_sock* socket, int interface_index, std::vector<NextHopObject>& out) {
  const nhmsg header{};
  return netlink_dump(
      socket, {.type = RTM_GETNEXTHOP, .header = bytes_of(header), .out_interface = 0},
      [&] { out.clear(); },
      [&](nlmsghdr* message) {
        if (out.size() >= HostView::kMaxRoutes) return;
        if (auto object = nexthop_of(message, interface_index)) out.push_back(std::move(*object));
      });
}

/// The next hops of objects, first of single ones, then of groups.
NextHopObjects hops_of(const std::vector<NextHopObject>& objects) {
  NextHopObjects out;
  for (const NextHopObject& object : objects) {
    if (object.hop) out[object.id] = {*object.hop};
  }
  for (const NextHopObject& group : objects) {
    std::vector<RouteHop> hops;
    for (const auto& [id, weight] : group.members) {
      const auto member = out.find(id);
      if (member == out.end()) continue;
      hops.push_back(member->second.front());
      hops.back().weight = weight;
    }
    if (!hops.empty()) out[group.id] = std::move(hops);
  }
  return out;
}

// --- Routes --------------------------------------------------------------------------------------

void add_route(RouteOfTable&& found, std::vector<RoutingTable>& tables) {
  auto at = std::ranges::find(tables, found.table, &RoutingTable::id);
  if (at == tables.end()) at = tables.insert(at, RoutingTable{found.table, {}});
  at->routes.push_back(std::move(found.route));
}

Result<void> read_routes(nl_sock* socket, int interface_index, std::uint8_t family,
                         const NextHopObjects& objects, HostView& out) {
  rtmsg header{};
  header.rtm_family = family;
  std::vector<RouteOfTable> found;
  std::size_t left_out = 0;
  auto read = netlink_dump(
      socket, {.type = RTM_GETROUTE, .header = bytes_of(header), .out_interface = interface_index},
      [&] {
        found.clear();
        left_out = 0;
      },
      [&](nlmsghdr* message) {
        auto route = route_of(message, interface_index, objects);
        if (!route) return;
        if (found.size() < HostView::kMaxRoutes) {
          found.push_back(std::move(*route));
        } else {
          ++left_out;
        }
      });
  out.routes_left_out += left_out;
  for (RouteOfTable& one : found) add_route(std::move(one), out.tables);
  return read;
}

Result<void> read_redirects(nl_sock* socket, int interface_index, std::uint8_t family,
                            HostView& out) {
  rtmsg header{};
  header.rtm_family = family;
  header.rtm_flags = RTM_F_CLONED;
  std::vector<Redirect> found;
  auto read = netlink_dump(
      socket, {.type = RTM_GETROUTE, .header = bytes_of(header), .out_interface = interface_index},
      [&] { found.clear(); },
      [&](nlmsghdr* message) {
        if (found.size() >= HostView::kMaxRedirects) return;
        if (const auto redirect = redirect_of(message, interface_index)) found.push_back(*redirect);
      });
  out.redirects.insert(out.redirects.end(), found.begin(), found.end());
  return read;
}

Result<void> read_rules(nl_sock* socket, const std::string& interface, std::uint8_t family,
                        HostView& out) {
  fib_rule_hdr header{};
  header.family = family;
  std::vector<RoutingRule> found;
  auto read = netlink_dump(
      socket, {.type = RTM_GETRULE, .header = bytes_of(header), .out_interface = 0},
      [&] { found.clear(); },
      [&](nlmsghdr* message) {
        if (found.size() >= HostView::kMaxRules) return;
        if (auto rule = rule_of(message, interface)) found.push_back(*rule);
      });
  out.rules.insert(out.rules.end(), found.begin(), found.end());
  return read;
}

}  // namespace

Result<void> read_routing(nl_sock* socket, const InterfaceName& interface, HostView& out) {
  if (auto read = read_objects(socket, interface.index, out.nexthops); !read) return read.error();
  const NextHopObjects objects = hops_of(out.nexthops);
  for (const std::uint8_t family : {std::uint8_t{AF_INET}, std::uint8_t{AF_INET6}}) {
    if (auto read = read_routes(socket, interface.index, family, objects, out); !read) {
      return read.error();
    }
    if (auto read = read_redirects(socket, interface.index, family, out); !read) {
      return read.error();
    }
    if (auto read = read_rules(socket, interface.name, family, out); !read) return read.error();
  }
  return {};
}

}  // namespace ipoib::linux
