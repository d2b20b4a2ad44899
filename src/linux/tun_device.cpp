#include "linux/tun_device.hpp"

#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "linux/link_settings.hpp"
#include "linux/packet_writer.hpp"
#include "linux/tun_holder.hpp"
#include "linux/virtio_header.hpp"
#include "wire/ethernet.hpp"

namespace ipoib::linux {

namespace {

constexpr const char* kCloneDevice = "/dev/net/tun";

constexpr short kTunFlags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
constexpr short kTapFlags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;

short flags_of(const TunOptions& options) { return options.mac ? kTapFlags : kTunFlags; }

// Offloads that the kernel may use. Those for UDP are from Linux 6.2, later than Debian 12's
// headers.
constexpr unsigned kUdpSegments = 0x20 | 0x40;  ///< TUN_F_USO4, TUN_F_USO6
constexpr unsigned kTcpSegments = TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;

Error failure(const std::string& what, int error, const std::string& remedy = {}) {
  return Error{error, what + ": " + std::strerror(error) + (remedy.empty() ? "" : "; " + remedy)};
}

/// The packet with the `count` bytes before it.
ConstBytes extended(ConstBytes packet, std::size_t count) {
  return {packet.data() - count, packet.size() + count};
}

ifreq request_for(const std::string& name) {
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  return request;
}

Error clone_device_error(int error) {
  switch (error) {
    case ENOENT:
    case ENODEV:
    case ENXIO:
      return failure(
          kCloneDevice, error,
          "load the driver (modprobe tun) or create the node (mknod /dev/net/tun c 10 200)");
    case EACCES:
    case EPERM:
      return failure(
          kCloneDevice, error,
          "run as root, with CAP_NET_ADMIN, or in namespaces of this user (unshare -Urn)");
    case EISDIR:
    case ENOTDIR:
    case ENOTTY:
      return failure(
          kCloneDevice, error,
          "it is not the TUN driver: remove it, and create it anew (mknod /dev/net/tun c "
          "10 200)");
    default:
      return failure(kCloneDevice, error);
  }
}

/// "process 12 (ipoibd) has it open", or how to find out.
std::string holder_of(const std::string& name) {
  const auto holder = find_tun_holder(name);
  if (!holder) return "another process has it open, which ip -details tuntap shows";
  return "process " + std::to_string(holder->pid) + " (" + holder->command + ") has it open";
}

/// The error of an interface; `if_busy` says what to do if another process has it open.
Error interface_error(const std::string& name, int error, const std::string& if_busy) {
  const auto what = "interface " + name;
  switch (error) {
    case EPERM:
      return failure(
          what, error,
          "a TUN needs CAP_NET_ADMIN: run as root, or in namespaces of this user (unshare -Urn)");
    case EBUSY:
      return failure(what, error, holder_of(name) + "; " + if_busy);
    case ENOTTY:
      return clone_device_error(error);
    case EINVAL:
      return failure(what, error,
                     "the name is invalid, or the interface is of another kind than wanted (TUN, "
                     "TAP with --ethernet): choose another name, or remove what another ipoibd has "
                     "left with --cleanup");
    default:
      return failure(what, error);
  }
}

/// The error of an interface that may have addresses and routes of others, so it is neither used
/// nor removed.
Error foreign_interface(const std::string& name) {
  const std::string what =
      "interface " + name + ": exists, and was not created by ipoibd for this port and partition; ";
  if (find_tun_holder(name)) {
    return Error{EEXIST, what + holder_of(name) + "; choose another name (--name)"};
  }
  return Error{EEXIST, what +
                           "choose another name (--name) or, unless a process has it open (ip "
                           "-details tuntap), remove it (ip link delete " +
                           name + ")"};
}

}  // namespace

Result<std::unique_ptr<TunDevice>> TunDevice::open(const TunOptions& options) {
  if (options.name.empty() || options.name.size() >= IFNAMSIZ) {
    return Error{EINVAL, "the interface cannot have the name \"" + options.name +
                             "\": 1 to 15 characters are needed"};
  }
  FileDescriptor fd(::open(kCloneDevice, O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return clone_device_error(errno);
  FileDescriptor control(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!control) return failure("cannot open a socket", errno);

  const auto marked = options.mark.empty() ? std::nullopt : name_of_alternative(options.mark);
  const auto name = marked.value_or(options.name);
  auto request = request_for(name);
  request.ifr_flags = static_cast<short>(flags_of(options) | (marked ? 0 : IFF_TUN_EXCL));
  if (ioctl(fd.get(), TUNSETIFF, &request) != 0) {
    return errno == EBUSY && !marked
               ? foreign_interface(name)
               : interface_error(
                     name, errno,
                     "if it is an ipoibd, take over from it (--takeover), or end it first");
  }

  std::unique_ptr<TunDevice> device(
      new TunDevice(std::move(fd), std::move(control), request.ifr_name));
  device->adopted_ = marked.has_value();
  if (auto done = device->configure(options); !done) return done.error();
  if (options.mark.empty() || marked) return device;
  if (auto done = add_alternative_name(device->interface_index(), options.mark); !done) {
    device->warnings_.push_back(done.error().message +
                                "; the next ipoibd will refuse the interface as one of others");
  }
  return device;
}

Result<void> TunDevice::discard(const std::string& mark) {
  const auto name = mark.empty() ? std::nullopt : name_of_alternative(mark);
  if (!name) return {};
  const FileDescriptor fd(::open(kCloneDevice, O_RDWR | O_CLOEXEC));
  if (!fd) return clone_device_error(errno);
  const auto attach = [&](short flags) {
    auto request = request_for(*name);
    request.ifr_flags = flags;
    return ioctl(fd.get(), TUNSETIFF, &request) == 0;
  };
  const bool attached = attach(kTunFlags) || (errno == EINVAL && attach(kTapFlags));
  if (!attached) {
    return interface_error(*name, errno, "end it first");
  }
  if (ioctl(fd.get(), TUNSETPERSIST, 0UL) != 0) {
    return failure("cannot delete the interface " + *name, errno, "ip link delete " + *name);
  }
  return {};
}

Result<std::unique_ptr<TunDevice>> TunDevice::take(FileDescriptor device, std::uint32_t mtu,
                                                   const TunOptions& options) {
  ifreq request{};
  if (ioctl(device.get(), TUNGETIFF, &request) != 0)
    return failure("the other daemon hands over something else than a TUN", errno);
  const short wanted = flags_of(options);
  constexpr short kSignificant = kTunFlags | kTapFlags | IFF_MULTI_QUEUE;
  if ((request.ifr_flags & kSignificant) != wanted) {
    return Error{EINVAL, std::string("interface ") + request.ifr_name +
                             ": the other daemon hands over another kind than a " +
                             (options.mac ? "TAP" : "TUN") + ": give it the same --ethernet"};
  }
  FileDescriptor control(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!control) return failure("cannot open a socket", errno);
  const int flags = fcntl(device.get(), F_GETFL);
  (void)fcntl(device.get(), F_SETFL, flags | O_NONBLOCK);
  std::unique_ptr<TunDevice> taken(
      new TunDevice(std::move(device), std::move(control), request.ifr_name));
  taken->adopted_ = taken->shared_ = true;
  if (auto done = taken->configure(options); !done) return done.error();
  if (mtu != 0) taken->mtu_.was_set(mtu);
  return taken;
}

std::optional<NetworkNamespace> TunDevice::namespace_of(int device) {
  FileDescriptor found(ioctl(device, TUNGETDEVNETNS));
  if (!found) return std::nullopt;
  (void)fcntl(found.get(), F_SETFD, FD_CLOEXEC);
  return NetworkNamespace::of(std::move(found), "of an interface");
}

std::string TunDevice::name_of(int device) {
  ifreq request{};
  return ioctl(device, TUNGETIFF, &request) == 0 ? request.ifr_name : std::string();
}

std::string TunDevice::current_name() const {
  const auto found = name_of(fd_.get());
  return found.empty() ? name_ : found;
}

Result<void> TunDevice::configure(const TunOptions& options) {
  auto request = request_for(name_);
  const auto apply = [&](unsigned long command) {
    return ioctl(control_.get(), command, &request) == 0;
  };
  if (!apply(SIOCGIFINDEX)) return failure("cannot read the settings of " + name_, errno);
  index_ = request.ifr_ifindex;

  if (auto done = configure_link_layer(options); !done) return done;
  if (!shared_) {
    if (auto done = set_carrier(false); !done) return done;
  }
  if (auto done = negotiate_offloads(options.large_packets); !done) return done;

  if (auto done = set_queue_length(index_, options.queue_length); !done) {
    warnings_.push_back(done.error().message);
  }
  if (!adopted_) {
    // This comes first, since an address that is added under NOARP does not join its solicited-node
    // group.
    if (auto done = change_flags(0, IFF_NOARP); !done) return done;
    if (auto done = detect_duplicate_addresses(name_); !done) return done;
  }
  if (auto done = options.stable_secret ? set_stable_secret(name_, *options.stable_secret)
                                        : disable_generated_link_local(index_);
      !done) {
    return done;
  }

  if (!adopted_) {
    if (auto done = change_flags(IFF_UP, 0); !done) return done;
  }
  trunk_ = options.trunk;
  if (trunk_ != nullptr) {
    reader_.pass_vlans_to(*trunk_);
    trunk_->attach(fd_.get(), accepted_);
  }
  return {};
}

/// Sets the type. Only an interface that is down can change it, and programs that follow the
/// kernel's announcements, such as ifupdown, may have set a new one up already.
bool TunDevice::set_link_type() {
  constexpr int kTries = 5;
  for (int tries = 0; tries < kTries; ++tries) {
    if (ioctl(fd_.get(), TUNSETLINK, static_cast<unsigned long>(ARPHRD_INFINIBAND)) == 0) {
      return true;
    }
    if (errno != EBUSY || adopted_ || !change_flags(0, IFF_UP)) break;
  }
  return false;
}

/// Sets the type of a TUN, or the address of a new TAP.
Result<void> TunDevice::configure_link_layer(const TunOptions& options) {
  auto request = request_for(name_);
  if (ioctl(control_.get(), SIOCGIFHWADDR, &request) != 0)
    return failure("cannot read the settings of " + name_, errno);
  if (!options.mac) {
    if (request.ifr_hwaddr.sa_family != ARPHRD_INFINIBAND && !set_link_type()) {
      return failure("cannot set the link type of " + name_, errno,
                     "ip link set " + name_ + " down, then try again");
    }
    return {};
  }
  link_header_ = wire::EthernetHeader::kSize;
  reader_.expect_ethernet();
  if (adopted_) return {};
  std::memcpy(request.ifr_hwaddr.sa_data, options.mac->bytes().data(), MacAddress::kSize);
  if (ioctl(control_.get(), SIOCSIFHWADDR, &request) != 0) {
    return failure("cannot set the address " + options.mac->to_string() + " of " + name_, errno);
  }
  return {};
}

Result<void> TunDevice::change_flags(short set, short clear) {
  auto request = request_for(name_);
  if (ioctl(control_.get(), SIOCGIFFLAGS, &request) != 0)
    return failure("cannot read the settings of " + name_, errno);
  request.ifr_flags = static_cast<short>((request.ifr_flags | set) & ~clear);
  if (ioctl(control_.get(), SIOCSIFFLAGS, &request) != 0) {
    return failure("cannot change the flags of " + name_, errno);
  }
  return {};
}

/// Sets header size and offloads, also of an adopted interface, which has those of its last
/// process.
Result<void> TunDevice::negotiate_offloads(bool large_packets) {
  int size = sizeof(VirtioHeader);
  if (ioctl(fd_.get(), TUNSETVNETHDRSZ, &size) != 0)
    return failure("cannot set the header size of " + name_, errno);
  const auto offer = [&](unsigned offloads) {
    return ioctl(fd_.get(), TUNSETOFFLOAD, static_cast<unsigned long>(offloads)) == 0;
  };
  // TUNSETOFFLOAD also decides which packets the kernel accepts from us.
  accepted_.udp = offer(TUN_F_CSUM | kTcpSegments | kUdpSegments);
  accepted_.tcp = accepted_.udp || offer(TUN_F_CSUM | kTcpSegments);
  if (large_packets && accepted_.tcp && set_max_segments(index_, kMaxSegments)) return {};
  // Without the limit on segments a packet might not fit into a send queue.
  if (!offer(TUN_F_CSUM) && !offer(0)) return failure("cannot set the offloads of " + name_, errno);
  return {};
}

void TunDevice::detach_from_trunk() {
  if (trunk_ != nullptr) trunk_->detach(fd_.get());
}

bool TunDevice::write(ConstBytes packet) {
  VirtioHeader header;
  return write_all(
      std::array{iovec{&header, sizeof header}, piece(extended(packet, link_header_))});
}

bool TunDevice::write_large(std::span<const ConstBytes> pieces, const Segmentation& how) {
  assert(!pieces.empty() && pieces.size() <= kMaxSegments);
  VirtioHeader header = moved_by(link_header_, header_of(pieces.front(), how));
  std::array<iovec, 1 + kMaxSegments> all;
  all[0] = {&header, sizeof header};
  std::ranges::transform(pieces, all.begin() + 1, piece);
  all[1] = piece(extended(pieces.front(), link_header_));
  return write_all(std::span(all).first(1 + pieces.size()));
}

bool TunDevice::write_all(std::span<const iovec> pieces) {
  if (write_packet(fd_.get(), pieces)) return true;
  gone_ = gone_ || errno == EBADFD;
  return false;
}

bool TunDevice::is_up() const {
  ifreq request{};  // with the current name: the interface may have been renamed
  return ioctl(fd_.get(), TUNGETIFF, &request) == 0 &&
         ioctl(control_.get(), SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_UP) != 0;
}

/// Uses the interface's current name: it may have been renamed.
Result<void> TunDevice::set_mtu(std::uint32_t bytes) {
  ifreq request{};
  if (ioctl(fd_.get(), TUNGETIFF, &request) != 0 ||
      ioctl(control_.get(), SIOCGIFMTU, &request) != 0) {
    return unless_gone(failure("cannot read the MTU of " + name_, errno));
  }
  const std::uint32_t wanted = mtu_.wanted(bytes, static_cast<std::uint32_t>(request.ifr_mtu));
  request.ifr_mtu = static_cast<int>(wanted);
  if (ioctl(control_.get(), SIOCSIFMTU, &request) != 0) {
    return unless_gone(
        failure("cannot set the MTU " + std::to_string(bytes) + " of " + name_, errno));
  }
  mtu_.was_set(wanted);
  return {};
}

/// Sets the speed by the old request, which the kernel translates (from Linux 5.1 for a TUN): the
/// new one needs two more calls, and says nothing else.
void TunDevice::set_speed(std::uint32_t mbps) {
  ifreq request{};
  ethtool_cmd settings{};
  settings.cmd = ETHTOOL_GSET;
  if (ioctl(fd_.get(), TUNGETIFF, &request) != 0) return;
  request.ifr_data = reinterpret_cast<char*>(&settings);
  if (ioctl(control_.get(), SIOCETHTOOL, &request) != 0) return;
  settings.cmd = ETHTOOL_SSET;
  ethtool_cmd_speed_set(&settings, mbps);
  (void)ioctl(control_.get(), SIOCETHTOOL, &request);
}

Result<void> TunDevice::set_carrier(bool on) {
  int value = on ? 1 : 0;
  if (ioctl(fd_.get(), TUNSETCARRIER, &value) == 0) return {};
  return unless_gone(failure("cannot set the carrier of " + name_, errno));
}

/// Succeeds if the interface was deleted: it has no settings that could fail.
Result<void> TunDevice::unless_gone(Error error) {
  ifreq request{};
  gone_ = gone_ || (ioctl(fd_.get(), TUNGETIFF, &request) != 0 && errno == EBADFD);
  if (gone_) return {};
  return error;
}

void TunDevice::keep() { (void)ioctl(fd_.get(), TUNSETPERSIST, 1UL); }

void TunDevice::remove() { (void)ioctl(fd_.get(), TUNSETPERSIST, 0UL); }

void TunDevice::close() {
  detach_from_trunk();
  remove();
  fd_.reset();
}

}  // namespace ipoib::linux
