#include "daemon/interfaces/interface.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "daemon/interfaces/interface_mark.hpp"
#include "daemon/interfaces/softib_launcher.hpp"
#include "daemon/options/interface_plan.hpp"
#include "daemon/process/sandbox.hpp"
#include "daemon/pump/admin.hpp"
#include "ipoib/log.hpp"
#include "ipoib/random_bits.hpp"
#include "linux/netlink_view.hpp"
#include "linux/route_feed.hpp"
#include "linux/tun_device.hpp"
#include "linux/vlan_host.hpp"
#include "linux/vlan_port.hpp"

namespace ipoib::daemon {

namespace {

std::optional<HandedInterface> take(HandedInterfaces& all, PKey partition) {
  auto node = all.extract(partition);
  return node ? std::optional(std::move(node.mapped())) : std::nullopt;
}

Pump::Settings pump_settings(const Options& options, const InterfaceId& id, PortRole role,
                             PumpMode mode) {
  auto link = options.link;
  link.pkey = id.pkey;
  return {.link = std::move(link),
          .max_ip_mtu = options.max_ip_mtu,
          .seed = random_bits(),
          .hash_key = {random_bits(), random_bits()},
          .first_request = first_link_request(id.number, role),
          .mode = mode,
          .ethernet = options.is_ethernet(id.pkey),
          .stations = options.ethernet_stations,
          .strict_source = options.ethernet_strict_source};
}

InterfaceIdentity identity_on(const verbs::Device& device, const std::string& interface) {
  return {interface, device.name(), device.port(), static_cast<std::uint32_t>(::getpid())};
}

/// Bytes of headroom that packets of the host need in addition to the link's.
std::size_t more_headroom(const Options& options, PKey pkey) {
  return options.is_ethernet(pkey) ? ethernet::View::kHeadroom - link::kHeadroom : 0;
}

verbs::PortCounters counters_of(const PortDevices& devices) {
  auto sum = devices[PortRole::primary]->counters();
  if (const auto& backup = devices[PortRole::backup]) sum += backup->counters();
  return sum;
}

void receive_large_packets(const TunPort& tun, PortQueue& queue) {
  using Kind = Segmentation::Kind;
  if (tun.accepts(Kind::tcp) && tun.accepts(Kind::udp)) queue.queue_pair->enable_large_receives();
}

Guid guid_of(const verbs::Device& device) { return device.query().value().gid.guid(); }

}  // namespace

Interface::Interface(const InterfaceId& id, const Interface::Dependencies& dependencies,
                     InterfaceOwner& owner, SaRequestPort& sa)
    : id_(id),
      dependencies_(dependencies),
      owner_(owner),
      logs_(dependencies.logs, id.name, id.pkey),
      cpu_(dependencies.cpus),
      trace_(dependencies.rings, id.name),
      sides_(dependencies.devices, dependencies.options,
             more_headroom(dependencies.options, id.pkey), *logs_.verbs),
      guid_(guid_of(*dependencies.devices[PortRole::primary])),
      ipv6_(ipv6_identity(dependencies.options.stable_privacy, guid_, id.pkey)),
      vlan_(dependencies.options.vlan_of(id.pkey)),
      mark_(vlan_ ? std::string() : to_string(InterfaceMark{id.name, guid_})),
      handed_(take(dependencies.handed, id.pkey)),
      mode_(handed_ ? PumpMode::held : PumpMode::active),
      device_(vlan_ ? nullptr : open_device()),
      vlan_port_(vlan_ ? open_vlan() : nullptr),
      tun_(vlan_ ? *vlan_port_ : *device_),
      mirror_(open_mirror()),
      to_interface_(kMailboxCapacity),
      to_control_(kMailboxCapacity),
      control_(control_dependencies(dependencies, sa)),
      server_(handed_ ? nullptr : serve(tun_.name(), control::Server::IfTaken::fail)),
      follower_(dependencies.options.is_ethernet(id.pkey) ? nullptr : at_home([this] {
        return linux::RouteFeed::open({device_->interface_index(), tun_.name()}).value();
      })),
      sleeper_({.host = vlan_ ? dependencies.trunk->queue_of(*vlan_) : device_->descriptor(),
                .completions = sides_.descriptors(),
                .messages = to_interface_.descriptor(),
                .routes = follower_.descriptor()}),
      loop_({.identity = identity_on(*dependencies.devices[PortRole::primary], tun_.name()),
             .pkey = id.pkey,
             .poll = dependencies.options.poll},
            loop_dependencies()),
      thread_([this] { run(); }, to_interface_) {
  if (handed_) (void)to_interface_.post(RestoreCache{std::move(handed_->cache)});
  handed_.reset();
  if (device_) device_->keep();  // last: what a start that fails has created disappears
  log_start();
}

/// The host is the same DHCP client on both ports.
Pump& Interface::make_pump(PortRole role, PumpMode mode) {
  PortSide& side = sides_[role];
  auto settings = pump_settings(dependencies_.options, id_, role, mode);
  if (role == PortRole::backup) settings.link.dhcp_identity = guid_;
  receive_large_packets(tun_, side.queue);
  return side.pump.emplace(
      settings, Pump::Dependencies{.tun = tun_,
                                   .queue_pair = *side.queue.queue_pair,
                                   .host_frames = {side.queue.pools.host, side.queue.pools.large},
                                   .messages = side.queue.pools.messages,
                                   .routes = follower_,
                                   .trace = trace_.ring,
                                   .log = *logs_.daemon,
                                   .link_log = *logs_.link,
                                   .arp_policy = mirror_->arp_policy()});
}

InterfaceLoop::Dependencies Interface::loop_dependencies() {
  InterfaceLoop::Dependencies out{.pump = make_pump(PortRole::primary, mode_),
                                  .tun = tun_,
                                  .queue_pair = *sides_[PortRole::primary].queue.queue_pair,
                                  .routes = follower_,
                                  .sleeper = sleeper_,
                                  .inbox = to_interface_,
                                  .outbox = to_control_,
                                  .trace = trace_.ring,
                                  .log = *logs_.daemon};
  if (!sides_.has(PortRole::backup)) return out;
  const auto& device = *dependencies_.devices[PortRole::backup];
  const PumpMode mode = mode_ == PumpMode::active ? PumpMode::standby : mode_;
  out.backup.emplace(BackupPort{.port = {device.name(), device.port()},
                                .pump = make_pump(PortRole::backup, mode),
                                .queue_pair = *sides_[PortRole::backup].queue.queue_pair,
                                .selection = dependencies_.options.selection});
  return out;
}

/// The thread goes on with the old part until it has the new one. It sleeps on the completions of
/// both: a descriptor that is closed leaves the set.
void Interface::replace_port(PortRole role) {
  const auto& options = dependencies_.options;
  auto& side =
      sides_.add(role, std::make_unique<PortSide>(dependencies_.devices[role], options,
                                                  more_headroom(options, id_.pkey), *logs_.verbs));
  Pump& pump = make_pump(role, PumpMode::standby);
  sleeper_.add_completions(side.queue.queue_pair->descriptor());
  control_.replace_port({role, &pump, side.queue.queue_pair.get()});
}

std::unique_ptr<linux::PollableTun> Interface::open_vlan() const {
  return std::make_unique<linux::VlanPort>(*dependencies_.trunk, *vlan_, id_.name);
}

std::unique_ptr<linux::TunDevice> Interface::open_device() {
  const auto& all = dependencies_.options;
  const bool is_tap = all.ethernet.includes(id_.pkey);
  const bool is_trunk = !all.vlans.empty() && id_.pkey == base_partition(all.pkeys);
  const auto mac = ethernet::mac_of_interface(guid_, id_.pkey);
  const linux::TunOptions options{.name = id_.name,
                                  .mark = mark_,
                                  .large_packets = sides_.can_send_large_packets(),
                                  .mac = is_tap ? std::optional(mac) : std::nullopt,
                                  .stable_secret = ipv6_.stable_secret,
                                  .trunk = is_trunk ? dependencies_.trunk : nullptr};
  using linux::TunDevice;
  return at_home([&] {
    return handed_ ? TunDevice::take(std::move(handed_->tun), handed_->mtu, options).value()
                   : TunDevice::open(options).value();
  });
}

std::unique_ptr<linux::HostMirror> Interface::open_mirror() const {
  if (vlan_) {
    const auto mac = ethernet::mac_of_interface(guid_, id_.pkey);
    return std::make_unique<linux::VlanHost>(id_.name, mac);
  }
  return at_home([this] {
    return linux::NetlinkView::open(device_->interface_index(), ipv6_.link_local).value();
  });
}

InterfaceControl::Dependencies Interface::control_dependencies(
    const Interface::Dependencies& dependencies, SaRequestPort& sa) {
  const auto neighbours = dependencies.neighbours.of(id_.pkey, tun_.name());
  if (handed_) neighbours->add(handed_->statics);
  return {.context = dependencies.context,
          .number = id_.number,
          .pkey = id_.pkey,
          .host = *mirror_,
          .to_interface = to_interface_,
          .inbox = to_control_,
          .owner = owner_,
          .sa = sa,
          .neighbours = neighbours,
          .trace = dependencies.control_trace,
          .log = *logs_.daemon,
          .interface = tun_.name(),
          .link_local = {guid_, id_.pkey, dependencies.options.stable_privacy},
          .renamed = [this](const std::string& name) { on_renamed(name); },
          .has_moved = [this] { return current_namespace() != nullptr; },
          .common_counters =
              [this] {
                auto all = port_counters(counters_of(dependencies_.devices));
                if (dependencies_.acm != nullptr) {
                  std::ranges::copy(acm::as_values(*dependencies_.acm), std::back_inserter(all));
                }
                return all;
              },
          .port_released = [this](PortRole role) { sides_.release(role); },
          .publish = [this](const control::Event& event) { server_->publish(event); }};
}

void Interface::log_start() {
  const auto& device = *dependencies_.devices[PortRole::primary];
  const auto* const backup = dependencies_.devices[PortRole::backup].get();
  logs_.daemon->info("on {} port {}{}, partition {:#06x}{}{}", device.name(), device.port(),
                     backup != nullptr
                         ? ", with the backup " + PortName{backup->name(), backup->port()}.text()
                         : "",
                     id_.pkey.value(), vlan_ ? ", VLAN " + std::to_string(vlan_->value()) : "",
                     adopted() ? ", adopted" : "");
  if (!device_) return;
  for (const auto& warning : device_->warnings()) logs_.daemon->warn("{}", warning);
}

void Interface::run() {
  if (const auto pinned = cpu_.pin_thread(); !pinned)
    logs_.daemon->warn("{}", pinned.error().message);
  // A thread's name may have 15 characters, like an interface's name.
  (void)::pthread_setname_np(::pthread_self(), id_.name.c_str());
  enter_interface_sandbox(dependencies_.options.sandbox,
                          is_on_softib() ? CallUsers::subnet : CallUsers::kernel);
  loop_.run();
}

std::string Interface::current_name() const {
  return device_ ? device_->current_name() : mirror_->interface_name();
}

SharedNamespace Interface::current_namespace() const {
  auto found = linux::TunDevice::namespace_of(tun_descriptor());
  return found ? std::make_shared<const linux::NetworkNamespace>(std::move(*found)) : nullptr;
}

bool Interface::is_at_home() const {
  if (vlan_) return true;
  const auto now_in = current_namespace();
  return now_in && now_in->is_same_as(dependencies_.home);
}

KeptInterface Interface::kept() const {
  const auto now_in = current_namespace();
  return {current_name(), mark_, now_in ? now_in : id_.home};
}

/// Clients find the sockets by the interface's network namespace and name.
std::unique_ptr<control::Server> Interface::serve(const std::string& name,
                                                  control::Server::IfTaken if_taken) {
  using control::Server;
  return at_home([&] {
    return std::make_unique<Server>(
        dependencies_.context,
        Server::Dependencies{
            .handler = control_,
            .levels = dependencies_.logs.levels,
            .trace = dependencies_.rings,
            .log = *logs_.control,
            .on_capture =
                [this](const control::CaptureRequest& request, FileDescriptor connection) {
                  control_.start_capture(request, std::move(connection));
                },
            .on_handover =
                [&owner = owner_](FileDescriptor connection) {
                  owner.on_handover(std::move(connection));
                }},
        Server::Options{.interface = name,
                        .access = dependencies_.options.control_access,
                        .if_taken = if_taken});
  });
}

std::vector<control::StaticNeighbour> Interface::statics() const {
  return dependencies_.neighbours.of(id_.pkey, tun_.name())->by_operator();
}

void Interface::save(link::NeighbourCursor from, std::function<void(SavedCache)> done) {
  (void)to_interface_.post(SaveCache{from, std::move(done)});
}

void Interface::set_mode(PumpMode mode) {
  mode_ = mode;
  if (mode == PumpMode::active) {
    if (device_) device_->keep();  // the other daemon may have ended in an orderly way
    serve_again();
  } else if (server_) {
    server_->publish(control::TakeoverEvent{});
    server_.reset();
  }
  control_.set_mode(mode);
}

void Interface::set_ending(const Ending& ending) {
  const bool is_served_here = mode_ == PumpMode::active;  // or by another daemon
  if (device_ && ending.removes && is_served_here) device_->remove();
  if (device_ && ending.removes_now) device_->close();
  if (ending.forgets_neighbours) dependencies_.neighbours.forget(id_.pkey);
}

void Interface::on_renamed(const std::string& name) {
  const auto before = logs_.prefix->get().interface;
  logs_.prefix->set(name);
  logs_.daemon->info("renamed; was called {}", before);
  if (mode_ == PumpMode::active) serve_again();
}

void Interface::rename(const std::string& name) {
  mirror_->set_interface_name(name);
  control_.on_host_name();
}

void Interface::serve_again() {
  try {
    // Another interface of this daemon, or the other daemon, may still have the name.
    server_ = serve(current_name(), control::Server::IfTaken::retry);
  } catch (const std::exception& error) {
    logs_.daemon->error("ibarp(8) does not find the interface: {}", error.what());
  }
}

}  // namespace ipoib::daemon
