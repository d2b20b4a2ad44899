// Says what keeps packets of a sender from this host. It sends nothing.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <string_view>

#include "route_findings.hpp"
#include "run.hpp"
#include "text.hpp"

namespace ipoib::ibarp {

namespace {

/// What an interface or its port refuses of what arrives.
constexpr std::array<std::string_view, 13> kReceiveDrops{
    "drop_bad_arp_sender",  "drop_duplicate_address", "drop_foreign_group",
    "drop_host_malformed",  "drop_host_refused",      "drop_malformed_datagram",
    "drop_not_up",          "drop_pinned_gid",        "drop_port_bad_pkey",
    "drop_port_bad_qkey",   "drop_port_no_receive",   "drop_receive_error",
    "drop_unsupported_type"};

/// Whether no host can have the address: unspecified, loopback, multicast, or the limited
/// broadcast.
bool is_martian(const ibarp_address& address) {
  if (is_multicast(address)) return true;
  if (address.family == AF_INET) {
    return address.bytes[0] == 0 || address.bytes[0] == 127 || address.bytes[0] >= 0xf0;
  }
  return std::all_of(std::begin(address.bytes), std::end(address.bytes) - 1,
                     [](auto byte) { return byte == 0; }) &&
         address.bytes[15] <= 1;
}

/// The kernel uses the larger one of the settings of the interface and of "all"
/// (Documentation/networking/ip-sysctl).
int reverse_path_filter(const std::string& device) {
  int most = 0;
  for (const std::string& each : {std::string("all"), device}) {
    int value = 0;
    std::ifstream("/proc/sys/net/ipv4/conf/" + each + "/rp_filter") >> value;
    most = std::max(most, value);
  }
  return most;
}

class SenderExplanation {
 public:
  explicit SenderExplanation(const Command& command)
      : command_(command), address_(*command.address), findings_(command.host) {}

  Findings find() {
    if (is_martian(address_)) {
      findings_.wrong("address", "no host can have it: the kernel drops packets from it",
                      "correct the sender");
      return std::move(findings_);
    }
    const auto route = host_route(address_, link_of(command_));
    if (route && route->type == "local") {
      findings_.wrong("address", "one of this host: the kernel takes packets from it for forged",
                      "ibarp stats: drop_duplicate_address; the log names who has it, too");
      return std::move(findings_);
    }
    const Client client(interface_for(route));
    const ibarp_info info = client.info();
    if (!is_up(findings_, info)) return std::move(findings_);
    explain_route_back(route, client.interface());
    explain_neighbour(client, route && route->gateway ? *route->gateway : address_);
    explain_partition(info);
    explain_drops(client);
    return std::move(findings_);
  }

 private:
  /// The interface at which the packets are expected: the given one, that of the route back, or the
  /// only one.
  [[nodiscard]] std::string interface_for(const std::optional<HostRoute>& route) const {
    const auto ours = interfaces_of(command_);
    const bool is_by_ours = route && std::ranges::find(ours, route->device) != ours.end();
    return is_by_ours ? route->device : chosen_interface(command_);
  }

  /// The filter of RFC 3704. For IPv6, only netfilter has one.
  void explain_route_back(const std::optional<HostRoute>& route, const std::string& device) {
    constexpr int kStrict = 1;
    const int filter = address_.family == AF_INET ? reverse_path_filter(device) : 0;
    if (route && route->device == device) {
      findings_.ok("route back", next_hop_text(*route));
      return;
    }
    const std::string text =
        route ? "by " + (route->device.empty() ? route->type : route->device) + ", not by " + device
              : "none: no answer is sent";
    const bool is_refused = filter == kStrict || (filter != 0 && !route);
    if (is_refused) {
      findings_.wrong(
          "route back",
          text + "; rp_filter is " + std::to_string(filter) +
              ", so the kernel drops packets from there",
          "ip route get " + command_.host + "; or sysctl net.ipv4.conf." + device + ".rp_filter");
    } else {
      findings_.warn("route back", text, "ip route get " + command_.host);
    }
  }

  void explain_neighbour(const Client& client, const ibarp_address& hop) {
    ibarp_entry entry{};
    entry.size = sizeof(entry);
    const int result = ibarp_get(client.get(), &hop, &entry);
    if (result == -ENOENT) {
      findings_.ok(
          "neighbour",
          text_of(hop) + " is not known: neither side has sent anything to the other lately");
      return;
    }
    client.check(result);
    std::string text = text_of(hop) + " is " + entry.state;
    if ((entry.flags & IBARP_HAS_HARDWARE) != 0) text += ", " + text_of(entry.hardware);
    if ((entry.flags & IBARP_IS_PINNED) != 0) {
      findings_.warn("neighbour", text + "; pinned to GID " + gid_text(entry.hardware.gid),
                     "if its card was replaced: ibarp replace " + text_of(hop) + " gid GID");
    } else {
      findings_.ok("neighbour", text);
    }
  }

  void explain_partition(const ibarp_info& info) {
    if (!is_limited(info)) return;
    findings_.warn(
        "partition", "this port is a limited member: it receives from full members only",
        "make one of the two ports a full member, in the configuration of the subnet manager");
  }

  void explain_drops(const Client& client) {
    Counts refused = drops_of(client);
    std::erase_if(refused, [](const auto& each) {
      return std::ranges::find(kReceiveDrops, each.first) == kReceiveDrops.end();
    });
    const std::string text = text_of(refused);
    if (text.empty()) {
      findings_.ok("drops", "nothing that arrived was refused since the start");
    } else {
      findings_.warn("drops", "of what arrived since the start, from all senders: " + text,
                     "ibarp stats again: does one grow? ibarp(8) explains each");
    }
  }

  const Command& command_;
  const ibarp_address address_;
  Findings findings_;
};

}  // namespace

Findings explain_sender(const Command& command) { return SenderExplanation(command).find(); }

}  // namespace ipoib::ibarp
