#include "linux/ethernet_links.hpp"

#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <netlink/addr.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "linux/host_reader.hpp"
#include "linux/netlink_dump.hpp"
#include "linux/netlink_message.hpp"

namespace ipoib::linux {
namespace {

constexpr std::uint16_t kEthernet = 1;  // ARPHRD_ETHER

/// MACs by interface index.
using MacsByIndex = std::unordered_map<int, MacAddress>;

std::optional<MacAddress> mac_in(const nlattr* address) {
  if (address == nullptr || nla_len(address) != MacAddress::kSize) return std::nullopt;
  MacAddress::Bytes bytes;
  std::memcpy(bytes.data(), nla_data(address), bytes.size());
  return MacAddress(bytes);
}

Result<void> read_link_addresses(nl_sock* socket, std::uint8_t family, const MacsByIndex& macs,
                                 std::vector<LinkAddress>& out) {
  ifaddrmsg header{};
  header.ifa_family = family;
  const std::size_t before = out.size();
  return netlink_dump(
      socket, {.type = RTM_GETADDR, .header = bytes_of(header), .out_interface = 0},
      [&] { out.resize(before); },
      [&](nlmsghdr* message) {
        const auto found = usable_address_of(message);
        if (!found || out.size() >= kMaxLinkAddresses) return;
        const auto link = macs.find(found->interface_index);
        if (link != macs.end()) out.push_back({link->second, found->prefix.address});
      });
}

}  // namespace

std::optional<MacAddress> mac_of(rtnl_link* link) {
  nl_addr* const address = rtnl_link_get_addr(link);
  if (address == nullptr || nl_addr_get_len(address) != MacAddress::kSize) return std::nullopt;
  MacAddress::Bytes bytes;
  std::memcpy(bytes.data(), nl_addr_get_binary_addr(address), bytes.size());
  return MacAddress(bytes);
}

std::optional<Master> master_of(nl_sock* socket, rtnl_link* port) {
  using Link = std::unique_ptr<rtnl_link, decltype(&rtnl_link_put)>;
  std::optional<Master> found;
  Link holder(nullptr, &rtnl_link_put);
  for (int i = 0; i < kMaxMasters; ++i) {
    const int index = rtnl_link_get_master(holder ? holder.get() : port);
    rtnl_link* raw = nullptr;
    if (index <= 0 || rtnl_link_get_kernel(socket, index, nullptr, &raw) < 0) return found;
    holder.reset(raw);
    const char* const type = rtnl_link_get_type(raw);
    const char* const name = rtnl_link_get_name(raw);
    if (type == nullptr || name == nullptr) return found;
    if (std::string_view(type) != "bridge" && std::string_view(type) != "bond") return found;
    found = Master{{index, name}, mac_of(raw)};
  }
  return found;
}

bool is_backup_port(const nlattr* link_info) {
  if (link_info == nullptr) return false;
  std::array<nlattr*, IFLA_INFO_MAX + 1> info{};
  std::array<nlattr*, IFLA_BOND_SLAVE_MAX + 1> port{};
  // nla_parse_nested() is not const-correct.
  auto* const nested = const_cast<nlattr*>(link_info);
  if (nla_parse_nested(info.data(), IFLA_INFO_MAX, nested, nullptr) < 0) return false;
  if (text_of(info[IFLA_INFO_SLAVE_KIND]) != "bond") return false;
  if (info[IFLA_INFO_SLAVE_DATA] == nullptr ||
      nla_parse_nested(port.data(), IFLA_BOND_SLAVE_MAX, info[IFLA_INFO_SLAVE_DATA], nullptr) < 0) {
    return false;
  }
  constexpr std::uint8_t kBackup = 1;  // BOND_STATE_BACKUP of <linux/if_bonding.h>
  const nlattr* const state = port[IFLA_BOND_SLAVE_STATE];
  return state != nullptr && nla_len(state) >= 1 && nla_get_u8(state) == kBackup;
}

bool is_tap_of_a_guest(const nlattr* link_info) {
  if (link_info == nullptr) return false;
  std::array<nlattr*, IFLA_INFO_MAX + 1> info{};
  // nla_parse_nested() is not const-correct.
  auto* const nested = const_cast<nlattr*>(link_info);
  if (nla_parse_nested(info.data(), IFLA_INFO_MAX, nested, nullptr) < 0) return false;
  const std::string_view kind = text_of(info[IFLA_INFO_KIND]);
  return kind == "macvtap" || kind == "ipvtap";
}

bool concerns_ethernet_links(nlmsghdr* message) {
  switch (message->nlmsg_type) {
    case RTM_NEWADDR:
    case RTM_DELADDR:
      return true;
    case RTM_NEWLINK:
    case RTM_DELLINK: {
      // A port of a bridge is announced in the family of bridges, too.
      const auto* const about = header_of<ifinfomsg>(message);
      return about != nullptr && about->ifi_family == AF_UNSPEC && about->ifi_type == kEthernet;
    }
    default:
      return false;
  }
}

Result<EthernetLinks> read_ethernet_links(nl_sock* socket, int port) {
  ifinfomsg header{};
  EthernetLinks found;
  MacsByIndex by_index;
  auto read = netlink_dump(
      socket, {.type = RTM_GETLINK, .header = bytes_of(header), .out_interface = 0},
      [&] {
        found = {};
        by_index.clear();
      },
      [&](nlmsghdr* message) {
        const auto* const about = header_of<ifinfomsg>(message);
        if (about == nullptr || about->ifi_type != kEthernet) return;
        const auto attributes = attributes_of<IFLA_MAX>(message, sizeof *about);
        if (about->ifi_index == port) found.is_backup = is_backup_port(attributes[IFLA_LINKINFO]);
        const auto mac = mac_in(attributes[IFLA_ADDRESS]);
        if (!mac || is_tap_of_a_guest(attributes[IFLA_LINKINFO])) return;
        if (found.macs.size() >= kMaxMacs) return;
        found.macs.push_back(*mac);
        by_index.emplace(about->ifi_index, *mac);
      });
  if (!read) return read.error();
  for (const std::uint8_t family : {std::uint8_t{AF_INET}, std::uint8_t{AF_INET6}}) {
    read = read_link_addresses(socket, family, by_index, found.addresses);
    if (!read) return read.error();
  }
  std::ranges::sort(found.macs);
  std::ranges::sort(found.addresses);
  return found;
}

}  // namespace ipoib::linux
