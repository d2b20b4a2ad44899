#include "linux/ethernet_links.hpp"

#include <linux/rtnetlink.h>
#include <netlink/addr.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include "linux/netlink_dump.hpp"
#include "linux/netlink_message.hpp"

namespace ipoib::host {

std::optional<MacAddress> mac_of(rtnl_link* link) {
  nl_addr* const address = rtnl_link_get_addr(link);
  if (address == nullptr || nl_addr_get_len(address) != MacAddress::kSize) return std::nullopt;
  MacAddress::Bytes bytes;
  std::memcpy(bytes.data(), nl_addr_get_binary_addr(address), bytes.size());
  return MacAddress(bytes);
}

std::optional<Bridge> bridge_of(nl_sock* socket, rtnl_link* port) {
  const int index = rtnl_link_get_master(port);
  if (index <= 0) return std::nullopt;
  rtnl_link* raw = nullptr;
  if (rtnl_link_get_kernel(socket, index, nullptr, &raw) < 0) return std::nullopt;
  const std::unique_ptr<rtnl_link, decltype(&rtnl_link_put)> link(raw, &rtnl_link_put);
  const char* const type = rtnl_link_get_type(link.get());
  const char* const name = rtnl_link_get_name(link.get());
  if (type == nullptr || name == nullptr || std::string_view(type) != "bridge") return std::nullopt;
  return Bridge{{index, name}, mac_of(link.get())};
}

Result<std::vector<MacAddress>> read_macs(nl_sock* socket) {
  constexpr std::uint16_t kEthernet = 1;  // ARPHRD_ETHER
  ifinfomsg header{};
  std::vector<MacAddress> found;
  auto read = netlink_dump(
      socket, {.type = RTM_GETLINK, .header = bytes_of(header), .out_interface = 0},
      [&] { found.clear(); },
      [&](nlmsghdr* message) {
        const auto* const about = header_of<ifinfomsg>(message);
        if (about == nullptr || about->ifi_type != kEthernet || found.size() >= kMaxMacs) return;
        const auto attributes = attributes_of<IFLA_MAX>(message, sizeof *about);
        const nlattr* const address = attributes[IFLA_ADDRESS];
        if (address == nullptr || nla_len(address) != MacAddress::kSize) return;
        MacAddress::Bytes bytes;
        std::memcpy(bytes.data(), nla_data(address), bytes.size());
        found.emplace_back(bytes);
      });
  if (!read) return read.error();
  std::ranges::sort(found);
  return found;
}

}  // namespace ipoib::host
