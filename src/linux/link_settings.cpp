#include "linux/link_settings.hpp"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/errno.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <netlink/route/link/inet6.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "ipoib/file_descriptor.hpp"
#include "linux/netlink_dump.hpp"
#include "linux/netlink_error.hpp"
#include "linux/netlink_message.hpp"
#include "linux/netlink_sockets.hpp"

namespace ipoib::linux {
namespace {

constexpr const char* kNoGenMode = "cannot keep the kernel from adding a link-local address";

template <class Object>
using Owner = std::unique_ptr<Object, void (*)(Object*)>;

/// Path of a setting of an interface or of new ones ("default") in the thread's network namespace.
std::string path_of(const std::string& interface, const std::string& setting) {
  return "/proc/sys/net/ipv6/conf/" + interface + "/" + setting;
}

/// Writes a setting; succeeds if it does not exist (without IPv6).
Result<void> write_setting(const std::string& path, const std::string& value) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file && errno == ENOENT) return {};
  if (!file || ::write(file.get(), value.data(), value.size()) < 0) {
    return Error{errno, path + ": " + std::strerror(errno)};
  }
  return {};
}

/// Sets an attribute over netlink, which asks for privileges in the interface's namespace only;
/// most ioctls ask for those of the machine.
Result<void> set_link_attribute(int interface_index, int attribute, std::uint32_t value,
                                const std::string& name) {
  const auto socket = NetlinkSockets::open_one();
  if (!socket) return socket.error();
  nl_msg* const change = nlmsg_alloc_simple(RTM_SETLINK, 0);
  if (change == nullptr) return netlink_error(name, -NLE_NOMEM);
  ifinfomsg header{};
  header.ifi_index = interface_index;
  nlmsg_append(change, &header, sizeof header, NLMSG_ALIGNTO);
  nla_put_u32(change, attribute, value);
  // Frees the message in any case.
  const int error = nl_send_sync(socket->get(), change);
  return error < 0 ? netlink_error("cannot set " + name, error) : Result<void>();
}

}  // namespace

bool is_up(const std::string& name) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  return ::ioctl(socket.get(), SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_UP) != 0;
}

Result<void> detect_duplicate_addresses(const std::string& name) {
  constexpr const char* kSetting = "accept_dad";
  std::string value;
  if (!(std::ifstream(path_of("default", kSetting)) >> value)) return {};
  return write_setting(path_of(name, kSetting), value);
}

Result<void> set_stable_secret(const std::string& name, const Ipv6Address& secret) {
  return write_setting(path_of(name, "stable_secret"), secret.to_string());
}

Result<void> disable_generated_link_local(int interface_index) {
  const auto socket = NetlinkSockets::open_one();
  if (!socket) return socket.error();
  return disable_generated_link_local(socket->get(), interface_index);
}

Result<void> disable_generated_link_local(nl_sock* socket, int interface_index) {
  const Owner<rtnl_link> original(rtnl_link_alloc(), &rtnl_link_put);
  const Owner<rtnl_link> change(rtnl_link_alloc(), &rtnl_link_put);
  if (!original || !change) return netlink_error(kNoGenMode, -NLE_NOMEM);
  rtnl_link_set_ifindex(original.get(), interface_index);
  rtnl_link_inet6_set_addr_gen_mode(change.get(), IN6_ADDR_GEN_MODE_NONE);
  const int error = rtnl_link_change(socket, original.get(), change.get(), 0);
  if (error == 0 || error == -NLE_AF_NOSUPPORT || error == -NLE_OPNOTSUPP) return {};
  return netlink_error(kNoGenMode, error);
}

Result<void> set_max_segments(int interface_index, std::uint32_t segments) {
  return set_link_attribute(interface_index, IFLA_GSO_MAX_SEGS, segments, "gso_max_segs");
}

Result<void> set_queue_length(int interface_index, std::uint32_t packets) {
  return set_link_attribute(interface_index, IFLA_TXQLEN, packets, "txqueuelen");
}

std::optional<std::string> name_of_alternative(const std::string& alternative) {
  const auto socket = NetlinkSockets::open_one();
  nl_msg* const request = nlmsg_alloc_simple(RTM_GETLINK, 0);
  const Owner<nl_msg> owner(request, &nlmsg_free);
  if (!socket || request == nullptr) return std::nullopt;
  ifinfomsg header{};
  nlmsg_append(request, &header, sizeof header, NLMSG_ALIGNTO);
  nla_put_string(request, IFLA_ALT_IFNAME, alternative.c_str());
  std::string name;
  const auto take_name = [](nl_msg* message, void* out) -> int {
    const nlattr* const found = nlmsg_find_attr(nlmsg_hdr(message), sizeof(ifinfomsg), IFLA_IFNAME);
    if (found != nullptr) *static_cast<std::string*>(out) = text_of(found);
    return NL_OK;
  };
  nl_socket_modify_cb(socket->get(), NL_CB_VALID, NL_CB_CUSTOM, take_name, &name);
  nl_socket_disable_auto_ack(socket->get());  // the response is the interface or an error
  if (nl_send_auto(socket->get(), request) < 0 || nl_recvmsgs_default(socket->get()) < 0 ||
      name.empty()) {
    return std::nullopt;
  }
  return name;
}

Result<std::vector<AlternativeName>> alternative_names() {
  const auto socket = NetlinkSockets::open_one();
  if (!socket) return socket.error();
  std::vector<AlternativeName> names;
  const ifinfomsg header{};
  const auto take_names = [&names](nlmsghdr* message) {
    const nlattr* const name = nlmsg_find_attr(message, sizeof(ifinfomsg), IFLA_IFNAME);
    const nlattr* const list = nlmsg_find_attr(message, sizeof(ifinfomsg), IFLA_PROP_LIST);
    if (name == nullptr || list == nullptr) return;
    const nlattr* at = nullptr;
    int left = 0;
    nla_for_each_nested(at, list, left) {
      if (nla_type(at) != IFLA_ALT_IFNAME) continue;
      names.push_back({std::string(text_of(name)), std::string(text_of(at))});
    }
  };
  const auto listed = netlink_dump(
      socket->get(), {.type = RTM_GETLINK, .header = bytes_of(header)}, [&names] { names.clear(); },
      take_names);
  if (!listed) return listed.error();
  return names;
}

Result<void> add_alternative_name(int interface_index, const std::string& alternative) {
  const std::string what = "cannot add the alternative name " + alternative;
  const auto socket = NetlinkSockets::open_one();
  if (!socket) return socket.error();
  nl_msg* const change =
      nlmsg_alloc_simple(RTM_NEWLINKPROP, NLM_F_CREATE | NLM_F_EXCL | NLM_F_APPEND);
  if (change == nullptr) return netlink_error(what, -NLE_NOMEM);
  ifinfomsg header{};
  header.ifi_index = interface_index;
  nlmsg_append(change, &header, sizeof header, NLMSG_ALIGNTO);
  if (nlattr* const list = nla_nest_start(change, IFLA_PROP_LIST | NLA_F_NESTED)) {
    nla_put_string(change, IFLA_ALT_IFNAME, alternative.c_str());
    nla_nest_end(change, list);
  }
  // Frees the message in any case.
  const int error = nl_send_sync(socket->get(), change);
  return error < 0 ? netlink_error(what, error) : Result<void>();
}

}  // namespace ipoib::linux
