#include "softib/ucma/ucma_host.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include "ipoib/monotonic_clock.hpp"
#include "ipoib/random_bits.hpp"
#include "softib/core/ip_gid.hpp"
#include "softib/ucma/commands.hpp"

namespace softib::ucma {

using ipoib::Error;
using ipoib::Result;

namespace {

std::atomic<UcmaHost*> current = nullptr;

std::vector<rdma_cm::Manager::Hca> hcas_of(const std::vector<endpoint::Endpoint*>& endpoints) {
  // The code of the time that the HCA takes for an acknowledgement: 134 ms, which a busy machine
  // may need.
  constexpr std::uint8_t kAckDelay = 15;
  std::vector<rdma_cm::Manager::Hca> hcas;
  hcas.reserve(endpoints.size());
  for (const auto* const each : endpoints) {
    hcas.push_back(
        {{each->first_port().node_guid, each->slot(), each->epoch(), kAckDelay}, each->node()});
  }
  return hcas;
}

}  // namespace

/// The inode of a descriptor, by statx(2), since libsoftib.so defines fstat().
std::uint64_t inode_of(int fd) {
  struct statx status {};
  const int done = ::statx(fd, "", AT_EMPTY_PATH, STATX_INO, &status);
  return done == 0 ? status.stx_ino : 0;
}

/// Returns the host of this process. Takes no lock outside the new host: in a child of fork(), a
/// thread of the parent could have held it.
UcmaHost* UcmaHost::get(int& error) {
  std::vector<endpoint::Endpoint*> endpoints;
  for (std::size_t hca = 0; hca < endpoint::process_hcas(); ++hca) {
    const auto endpoint = endpoint::process_endpoint(hca);
    if (!endpoint) {
      error = endpoint.error().code;
      return nullptr;
    }
    endpoints.push_back(*endpoint);
  }
  UcmaHost* host = current.load();
  if (host == nullptr || host->endpoints_ != endpoints) {
    const auto folder = fabric::SubnetFolder::from_environment();
    const auto fabric = folder ? fabric::Fabric::open(folder->fabric()) : folder.error();
    if (!fabric) {
      error = fabric.error().code;
      return nullptr;
    }
    auto created = std::make_unique<UcmaHost>(endpoints, *folder, *fabric, host);
    // Never destroyed.
    if (current.compare_exchange_strong(host, created.get())) host = created.release();
  }
  host->attach_receivers();
  return host;
}

UcmaHost* UcmaHost::of_channel(int fd) {
  for (auto* host = current.load(); host != nullptr; host = host->previous_) {
    if (host->generation_ != transport::fork_generation()) continue;
    const std::lock_guard lock(host->mutex_);
    const auto found = host->channels_.find(fd);
    if (found != host->channels_.end() && found->second.inode == inode_of(fd)) return host;
  }
  return nullptr;
}

UcmaHost::UcmaHost(std::vector<endpoint::Endpoint*> endpoints, const fabric::SubnetFolder& folder,
                   fabric::Fabric fabric, UcmaHost* previous)
    : endpoints_(std::move(endpoints)),
      fabric_(std::move(fabric)),
      previous_(previous),
      ipoib_([this](const auto& address, const auto& found) { on_neighbour(address, found); }),
      manager_(hcas_of(endpoints_), *this, ipoib::random_bits()),
      status_(folder, endpoints_) {
  for (std::size_t hca = 0; hca < endpoints_.size(); ++hca) {
    const HcaPorts of_hca = endpoints_[hca]->ports();
    for (const auto& port : of_hca.cabled()) {
      locks_.try_emplace({hca, port.number}, folder, endpoints_[hca]->node_of(port.number));
    }
    receivers_.push_back(std::make_unique<Receiver>(*this, hca));
  }
}

void UcmaHost::attach_receivers() {
  std::call_once(receivers_set_, [&] {
    for (std::size_t hca = 0; hca < endpoints_.size(); ++hca) {
      using namespace ipoib::wire;
      endpoints_[hca]->add_mad_receiver(*receivers_[hca],
                                        {mgmt_class::kCommMgt, mgmt_class::kSubnAdm});
      endpoints_[hca]->set_process_watcher(receivers_[hca].get());
    }
  });
}

// --- Channels ------------------------------------------------------------------------------------

int UcmaHost::open_channel(int flags) {
  const int type = SOCK_STREAM | ((flags & O_NONBLOCK) != 0 ? SOCK_NONBLOCK : 0);
  std::array<int, 2> ends{};
  Channel channel;
  {
    const transport::ForkLock held;
    if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()) != 0) return -errno;
    channel.other_end = transport::GuardedFd(ipoib::FileDescriptor(ends[1]), held);
  }
  ipoib::FileDescriptor own(ends[0]);
  if ((flags & O_CLOEXEC) == 0) (void)::fcntl(own.get(), F_SETFD, 0);
  channel.inode = inode_of(own.get());
  if (!endpoints_.front()->watch_hangup(channel.other_end.get())) return -ENOMEM;
  std::unique_lock lock(mutex_);
  const auto id = manager_.open_channel();
  if (!id) return -id.error().code;
  channel.id = *id;
  // If another channel had this number, its end is about to be noticed.
  if (channels_.contains(own.get())) close_channel(own.get());
  channels_.emplace(own.get(), std::move(channel));
  descriptors_[*id] = own.get();
  flush(lock);
  return own.release();
}

void UcmaHost::close_channel(int fd) {
  const auto found = channels_.find(fd);
  manager_.close_channel(found->second.id, ipoib::monotonic_now());
  descriptors_.erase(found->second.id);
  channels_.erase(found);
}

Result<void> UcmaHost::execute(int fd, ipoib::ConstBytes command) {
  std::unique_lock lock(mutex_);
  const auto found = channels_.find(fd);
  if (found == channels_.end()) return Error{EBADF, "no event channel"};
  const CommandContext context{manager_, *this, found->second.id, ipoib::monotonic_now(),
                               [&](int other) -> std::optional<rdma_cm::ChannelId> {
                                 const auto channel = channels_.find(other);
                                 if (channel == channels_.end()) return std::nullopt;
                                 return channel->second.id;
                               }};
  auto done = ucma::execute(context, command);
  flush(lock);
  return done;
}

/// Keeps one byte in the socket while there are events. The program may have closed its end by now.
void UcmaHost::signal(rdma_cm::ChannelId id) {
  const auto found = descriptors_.find(id);
  if (found == descriptors_.end()) return;
  const int fd = found->second;
  Channel& channel = channels_.at(fd);
  const bool has_event = manager_.has_event(id);
  if (has_event == channel.is_signalled) return;
  std::uint8_t byte = 0;
  if (has_event) {
    (void)::send(channel.other_end.get(), &byte, sizeof byte, MSG_DONTWAIT | MSG_NOSIGNAL);
  } else if (inode_of(fd) == channel.inode) {
    (void)::recv(fd, &byte, sizeof byte, MSG_DONTWAIT);
  }
  channel.is_signalled = has_event;
}

/// Called with the lock after each call into the manager; releases it while it sends.
void UcmaHost::flush(std::unique_lock<std::mutex>& lock) {
  const auto next = std::min(manager_.next_deadline(), next_recheck());
  if (next != deadline_) endpoints_.front()->set_mad_deadline(*receivers_.front(), next);
  deadline_ = next;
  status_.update(manager_);
  for (const auto id : manager_.take_changed_channels()) signal(id);
  std::vector<std::vector<MadPacket>> outgoing;
  outgoing.reserve(endpoints_.size());
  for (std::size_t hca = 0; hca < endpoints_.size(); ++hca) {
    outgoing.push_back(manager_.take_outgoing(hca));
  }
  lock.unlock();
  std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
  for (std::size_t hca = 0; hca < endpoints_.size(); ++hca) {
    for (const auto& packet : outgoing[hca]) {
      endpoints_[hca]->send_mad(packet.port, packet.emit(bytes));
    }
  }
}

// --- Stimuli -------------------------------------------------------------------------------------

bool UcmaHost::Receiver::receive_mad(const MadPacket& packet) {
  if (packet.destination != ipoib::wire::kGsiQpn) return false;
  std::unique_lock lock(host_.mutex_);
  if (!host_.manager_.is_recipient(hca_, packet)) return false;
  host_.manager_.receive(hca_, packet, ipoib::monotonic_now());
  host_.flush(lock);
  return true;
}

void UcmaHost::Receiver::mad_deadline(ipoib::TimePoint now) {
  std::unique_lock lock(host_.mutex_);
  host_.deadline_ = ipoib::kNever;  // the endpoint calls once for each deadline
  host_.manager_.on_time(now);
  for (const auto& [peer, recheck] : std::map(host_.rechecks_)) {
    if (recheck.when <= now) host_.check(peer, recheck.next, now);
  }
  host_.flush(lock);
}

void UcmaHost::Receiver::connection_ended(const endpoint::RemoteProcess& process) {
  std::unique_lock lock(host_.mutex_);
  host_.check({hca_, process}, kFirstRecheck, ipoib::monotonic_now());
  host_.flush(lock);
}

ipoib::TimePoint UcmaHost::next_recheck() const {
  ipoib::TimePoint first = ipoib::kNever;
  for (const auto& [peer, recheck] : rechecks_) first = std::min(first, recheck.when);
  return first;
}

/// Checks a process to which the connection has ended. If it still runs, its end will not be
/// noticed otherwise.
void UcmaHost::check(const Peer& peer, ipoib::Duration next, ipoib::TimePoint now) {
  const auto [hca, process] = peer;
  rechecks_.erase(peer);
  const auto ports_of_peer = fabric_.hca_ports(process.node);
  if (!ports_of_peer) return;
  const bool is_running = endpoints_[hca]->is_running(process);
  bool is_peer = false;
  const auto lmc = ports(hca).preferred().lmc;
  for (const auto& port : ports_of_peer->cabled()) {
    // A process on an Ethernet port may have been reached by any address of it.
    for (std::size_t i = 0; i < port.gid_table_size(); ++i) {
      const auto at = cm::Peer::of(port.lid, port.gid(i), lmc);
      if (!is_running) manager_.process_gone(hca, at, process.slot, process.epoch, now);
      is_peer |= manager_.communication(hca).has_peer(at, process.slot, process.epoch);
    }
  }
  if (!is_running || !is_peer) return;
  rechecks_[peer] = {now + next, std::min(2 * next, kLongestRecheck)};
}

void UcmaHost::Receiver::hung_up(int fd) {
  std::unique_lock lock(host_.mutex_);
  const auto found = std::ranges::find_if(
      host_.channels_, [&](const auto& one) { return one.second.other_end.get() == fd; });
  if (found == host_.channels_.end()) return;
  pollfd end{fd, 0, 0};
  if (::poll(&end, 1, 0) != 1) return;  // another channel has the number since
  host_.close_channel(found->first);
  host_.flush(lock);
}

void UcmaHost::Receiver::device_lost() {
  std::unique_lock lock(host_.mutex_);
  host_.manager_.hca_lost(hca_, ipoib::monotonic_now());
  host_.flush(lock);
}

// --- The node ------------------------------------------------------------------------------------

HcaPorts UcmaHost::ports(std::size_t hca) const { return endpoints_.at(hca)->ports(); }

IpAddress UcmaHost::source(const rdma_cm::LocalPort& port, const IpAddress& destination) const {
  const NodeIndex node = endpoints_.at(port.hca)->node_of(port.number);
  const auto record = fabric_.node(node);
  if (record && record->port.is_ethernet()) {
    // The first address of the family has the lowest scope but that of the link.
    const auto family = ipoib::family(destination);
    for (const auto& each : record->addresses) {
      if (ipoib::family(each) == family) return each;
    }
  }
  return source_address(node, record ? record->addresses : std::vector<IpAddress>(), destination);
}

std::optional<rdma_cm::Node::Local> UcmaHost::find_local(const IpAddress& address) {
  const auto node = fabric_.find(address);
  const auto record = node ? fabric_.node(*node) : std::nullopt;
  if (record) {
    const bool is_ethernet = record->port.is_ethernet();
    return local_of({is_ethernet ? ip_gid(address) : record->port.gid(), PKey()}, address);
  }
  const auto interface = IpoibAddresses::local(address);
  return interface ? local_of(*interface, address) : std::nullopt;
}

/// The port with this address; nullopt if the process does not have it.
std::optional<rdma_cm::Node::Local> UcmaHost::local_of(const IpoibAddresses::Local& interface,
                                                       const IpAddress& address) const {
  for (std::size_t hca = 0; hca < endpoints_.size(); ++hca) {
    const HcaPorts of_hca = ports(hca);
    for (const auto& port : of_hca.cabled()) {
      if (!port.gid_index(interface.gid)) continue;
      return Local{{hca, port.number}, interface.pkey, address};
    }
  }
  return std::nullopt;
}

/// Finds an address, first among those of the subnet.
std::optional<rdma_cm::Node::Remote> UcmaHost::find(const IpAddress& address,
                                                    ipoib::TimePoint until) {
  // Any host is reached through an Ethernet port: the kernel routes, and resolves neighbours.
  if (endpoints_.front()->first_port().is_ethernet()) return Remote{ip_gid(address)};
  if (const auto node = fabric_.find(address)) {
    const auto record = fabric_.node(*node);
    if (!record || record->port.failed) return std::nullopt;
    return Remote{record->port.gid()};
  }
  if (const auto found = found_.find(address); found != found_.end()) return found->second;
  if (until > ipoib::monotonic_now()) ipoib_.resolve(address, until);
  return std::nullopt;
}

void UcmaHost::on_neighbour(const IpAddress& address, const IpoibAddresses::Neighbour& found) {
  std::unique_lock lock(mutex_);
  const auto from = local_of(found.from, found.source);
  if (!from) return;
  found_[address] = {found.gid, from};
  manager_.retry_addresses(ipoib::monotonic_now());
  found_.clear();
  flush(lock);
}

/// The process has the port numbers of the first port's node.
Result<void> UcmaHost::lock_port(const rdma_cm::PortRequest& request, std::uint16_t port) {
  return locks_.begin()->second.lock_port(request, port);
}

void UcmaHost::unlock_port(rdma_cm::PortSpace space, std::uint16_t port) {
  locks_.begin()->second.unlock_port(space, port);
}

/// Whether the calling thread has CAP_NET_BIND_SERVICE (capabilities(7)).
bool UcmaHost::may_use_privileged_ports() const {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  if (::syscall(SYS_capget, &header, sets.data()) != 0) return false;
  return (sets[0].effective & (1U << CAP_NET_BIND_SERVICE)) != 0;
}

bool UcmaHost::announce(const rdma_cm::LocalPort& port, ipoib::wire::ServiceId service) {
  return locks_.at(port).announce(service);
}

void UcmaHost::withdraw(const rdma_cm::LocalPort& port, ipoib::wire::ServiceId service) {
  locks_.at(port).withdraw(service);
}

bool UcmaHost::hold_group(const rdma_cm::LocalPort& port, const Gid& mgid,
                          std::uint8_t join_state) {
  return locks_.at(port).hold_group(mgid, join_state);
}

bool UcmaHost::release_group(const rdma_cm::LocalPort& port, const Gid& mgid,
                             std::uint8_t join_state) {
  return locks_.at(port).release_group(mgid, join_state);
}

}  // namespace softib::ucma
