#include "route_findings.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <string_view>

#include "client.hpp"

namespace ipoib::ibarp {

bool is_multicast(const ibarp_address& address) {
  return address.family == AF_INET ? (address.bytes[0] & 0xf0U) == 0xe0 : address.bytes[0] == 0xff;
}

const char* requests_for(const ibarp_address& address) {
  return address.family == AF_INET ? "ARP requests" : "neighbour solicitations";
}

std::optional<HostRoute> find_route(Findings& findings, const Command& command) {
  auto route = host_route(*command.address, link_of(command));
  if (!route) {
    findings.wrong("route", "the host has none, or one that refuses packets: none is sent",
                   "ip route get " + command.host + "; add a route or an address of its subnet");
    return std::nullopt;
  }
  if (route->type == "local") {
    findings.ok("route", "an address of this host: its packets do not leave it");
    return std::nullopt;
  }
  const auto ours = interfaces_named("");
  if (std::ranges::find(ours, route->device) == ours.end()) {
    findings.wrong("route",
                   "leaves by " + (route->device.empty() ? "no interface" : route->device) +
                       ", which is not an interface of ipoibd (" + route->type + ")",
                   "ip route get " + command.host + "; ibarp interface lists those of ipoibd");
    return std::nullopt;
  }
  if (!command.device.empty() && command.device != route->device) {
    findings.wrong("route", "leaves by " + route->device + ", not by " + command.device,
                   "ip route get " + command.host);
    return std::nullopt;
  }
  std::string text = next_hop_text(*route);
  if (route->source) text += ", from " + text_of(*route->source);
  findings.ok("route", text);
  return route;
}

std::string chosen_interface(const Command& command) {
  const auto ours = interfaces_of(command);
  if (ours.size() != 1) misused("there are several interfaces: choose one with \"dev IF\"");
  return ours.front();
}

std::string link_of(const Command& command) {
  return is_of_one_link(*command.address) ? chosen_interface(command) : std::string();
}

std::string next_hop_text(const HostRoute& route) {
  return "by " + route.device +
         (route.gateway ? " and the gateway " + text_of(*route.gateway) : ", on its link");
}

bool is_up(Findings& findings, const ibarp_info& info) {
  const std::string name = info.interface;
  if (info.admin_up == 0) {
    findings.wrong("interface", name + " is administratively down", "ip link set " + name + " up");
    return false;
  }
  if (std::string_view(info.state) == "up") return true;
  findings.wrong("interface", name + " is not up; it waits for " + info.waiting_for,
                 "ibarp check dev " + name);
  return false;
}

}  // namespace ipoib::ibarp
