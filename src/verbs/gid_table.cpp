#include "verbs/gid_table.hpp"

#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/roce_gid.hpp"
#include "verbs/sysfs.hpp"

namespace ipoib::verbs {

namespace {

/// The number of entries of all ports of a device that are read. The kernel limits a query to 64
/// KiB.
constexpr std::size_t kMaxEntries = 2047;

bool is_link_local(const Gid& gid) { return gid.prefix() == Gid::kLinkLocalPrefix; }

bool has_address(std::uint32_t network_device, const Gid& gid) {
  const FileDescriptor socket(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return false;
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  std::ranges::copy(gid.bytes(), address.sin6_addr.s6_addr);
  address.sin6_scope_id = network_device;
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

/// The index of an entry's network device in this namespace. The kernel reports the index that it
/// has in its own one, which another device may have here, so the names are compared. Without a
/// name, the device is taken to be here.
std::uint32_t index_here(const ibv_context* context, const ibv_gid_entry& entry) {
  const std::string name =
      read_sysfs(context, "ports/" + std::to_string(entry.port_num) + "/gid_attrs/ndevs/" +
                              std::to_string(entry.gid_index));
  const bool is_here = name.empty() || if_nametoindex(name.c_str()) == entry.ndev_ifindex;
  return is_here ? entry.ndev_ifindex : GidEntry::kElsewhere;
}

}  // namespace

bool is_usable(const GidEntry& entry) { return entry.is_roce_v2 && is_unicast_ipv6(entry.gid); }

std::optional<GidEntry> choose_gid(std::span<const GidEntry> table,
                                   std::optional<std::uint8_t> wanted) {
  std::optional<GidEntry> best;
  const auto rank = [](const GidEntry& entry) {
    return std::tuple(!entry.is_an_address, !is_link_local(entry.gid), entry.index);
  };
  for (const auto& entry : table) {
    if (!is_usable(entry) || (wanted && entry.index != *wanted)) continue;
    if (!best || rank(entry) < rank(*best)) best = entry;
  }
  return best;
}

std::vector<GidEntry> read_gid_table(ibv_context* context, std::uint8_t port) {
  std::vector<ibv_gid_entry> found(kMaxEntries);
  const auto count = ibv_query_gid_table(context, found.data(), found.size(), 0);
  std::vector<GidEntry> out;
  for (std::size_t i = 0; i < static_cast<std::size_t>(std::max<ssize_t>(count, 0)); ++i) {
    const auto& one = found[i];
    constexpr auto kLastIndex = std::numeric_limits<std::uint8_t>::max();  // of an address handle
    if (one.port_num != port || one.gid_index > kLastIndex) continue;
    Gid::Bytes bytes;
    std::copy_n(one.gid.raw, bytes.size(), bytes.begin());
    GidEntry entry{.index = static_cast<std::uint8_t>(one.gid_index),
                   .gid = Gid(bytes),
                   .is_roce_v2 = one.gid_type == IBV_GID_TYPE_ROCE_V2};
    if (is_usable(entry)) {
      entry.network_device = index_here(context, one);
      entry.is_an_address = has_address(entry.network_device, entry.gid);
    }
    out.push_back(entry);
  }
  std::ranges::sort(out, {}, &GidEntry::index);
  return out;
}

}  // namespace ipoib::verbs
