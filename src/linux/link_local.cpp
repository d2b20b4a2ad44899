#include "linux/link_local.hpp"

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <netlink/addr.h>
#include <netlink/errno.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <sys/socket.h>

#include <memory>
#include <utility>

#include "linux/host_reader.hpp"
#include "linux/link_settings.hpp"
#include "linux/netlink_dump.hpp"
#include "linux/netlink_error.hpp"
#include "linux/netlink_message.hpp"

namespace ipoib::linux {

namespace {

template <class Object>
using Owner = std::unique_ptr<Object, void (*)(Object*)>;

constexpr int kPrefixLength = 64;

/// The address as libnl has it; null if memory is exhausted.
Owner<rtnl_addr> kernel_address(int interface_index, const Ipv6Address& address) {
  const Owner<nl_addr> local(
      nl_addr_build(AF_INET6, address.bytes().data(), address.bytes().size()), &nl_addr_put);
  Owner<rtnl_addr> made(rtnl_addr_alloc(), &rtnl_addr_put);
  if (!local || !made || rtnl_addr_set_local(made.get(), local.get()) < 0) {
    return {nullptr, &rtnl_addr_put};
  }
  rtnl_addr_set_ifindex(made.get(), interface_index);
  rtnl_addr_set_prefixlen(made.get(), kPrefixLength);
  return made;
}

/// Adds an address; returns false if the interface has no IPv6.
Result<bool> add(nl_sock* socket, int interface_index, const Ipv6Address& address) {
  const auto made = kernel_address(interface_index, address);
  if (!made) return netlink_error("cannot create a link-local address", -NLE_NOMEM);
  switch (const int error = rtnl_addr_add(socket, made.get(), NLM_F_CREATE | NLM_F_EXCL)) {
    case 0:
    case -NLE_EXIST:
      return true;
    case -NLE_AF_NOSUPPORT:
    case -NLE_OPNOTSUPP:
    case -NLE_NOACCESS:  // IPv6 is disabled on the interface
    case -NLE_PERM:
      return false;
    default:
      return netlink_error("cannot add the address " + address.to_string(), error);
  }
}

/// Whether a message of a dump or a notification says that the interface has this address, with
/// the flag for duplicates.
bool reports_duplicate(nlmsghdr* message, int interface_index, const Ipv6Address& address) {
  const auto* const header = header_of<ifaddrmsg>(message);
  if (header == nullptr || static_cast<int>(header->ifa_index) != interface_index ||
      header->ifa_family != AF_INET6) {
    return false;
  }
  const auto attributes = attributes_of<IFA_MAX>(message, sizeof *header);
  const auto flags = number_of(attributes[IFA_FLAGS]).value_or(header->ifa_flags);
  return (flags & IFA_F_DADFAILED) != 0 &&
         address_of(attributes[IFA_ADDRESS], AF_INET6) == IpAddress(address);
}

/// Whether the notification shows an MTU at which the kernel removes IPv6.
bool announces_small_mtu(nlmsghdr* message, int interface_index) {
  if (message->nlmsg_type != RTM_NEWLINK) return false;
  const auto* const header = header_of<ifinfomsg>(message);
  if (header == nullptr || header->ifi_index != interface_index) return false;
  const auto attributes = attributes_of<IFLA_MAX>(message, sizeof *header);
  return number_of(attributes[IFLA_MTU]).value_or(LinkLocal::kMinMtu) < LinkLocal::kMinMtu;
}

}  // namespace

void LinkLocal::on_event(nlmsghdr* message) {
  settings_lost_ |= announces_small_mtu(message, interface_index_);
  if (settings_lost_ || announces_ipv6_removal(message, interface_index_)) is_set_ = false;
}

Result<void> LinkLocal::ensure(nl_sock* socket, std::uint32_t mtu) {
  if (mtu < kMinMtu) {
    is_set_ = false;
    settings_lost_ = true;
    return {};
  }
  if (!address_ || is_set_) return {};
  if (settings_lost_) {
    if (auto done = disable_generated_link_local(socket, interface_index_); !done) return done;
    settings_lost_ = false;
  }
  if (const auto former = std::exchange(former_, std::nullopt)) {
    const auto gone = kernel_address(interface_index_, *former);
    if (gone) (void)rtnl_addr_delete(socket, gone.get(), 0);  // it may be gone already
  }
  const auto added = add(socket, interface_index_, *address_);
  if (!added) return added.error();
  is_set_ = *added;
  return {};
}

void LinkLocal::replace(const Ipv6Address& address) {
  if (!address_ || *address_ == address) return;
  // If ensure() has not removed the former one yet, the current one was never added.
  if (!former_) former_ = address_;
  address_ = address;
  is_set_ = false;
}

Result<bool> LinkLocal::is_duplicate(nl_sock* socket) const {
  if (!address_ || !is_set_) return false;
  ifaddrmsg header{};
  header.ifa_family = AF_INET6;
  header.ifa_index = static_cast<std::uint32_t>(interface_index_);
  bool found = false;
  const auto read = netlink_dump(
      socket,
      {.type = RTM_GETADDR,
       .header = {reinterpret_cast<const std::uint8_t*>(&header), sizeof header},
       .out_interface = 0},
      [&] { found = false; },
      [&](nlmsghdr* message) { found |= reports_duplicate(message, interface_index_, *address_); });
  if (!read) return read.error();
  return found;
}

}  // namespace ipoib::linux
