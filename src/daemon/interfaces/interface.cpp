#include "daemon/interfaces/interface.hpp"

#include <pthread.h>
#include <unistd.h>

#include "daemon/interfaces/interface_mark.hpp"
#include "daemon/interfaces/softib_launcher.hpp"
#include "daemon/options/interface_plan.hpp"
#include "daemon/process/sandbox.hpp"
#include "ipoib/log.hpp"
#include "ipoib/random_bits.hpp"
#include "linux/netlink_view.hpp"
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
  const bool is_idle = role == PortRole::backup && mode == PumpMode::active;
  return {.link = std::move(link),
          .max_ip_mtu = options.max_ip_mtu,
          .seed = random_bits(),
          .hash_key = {random_bits(), random_bits()},
          .first_request = first_link_request(id.number, role),
          .mode = is_idle ? PumpMode::standby : mode,
          .ethernet = options.is_ethernet(id.pkey),
          .stations = options.ethernet_stations,
          .strict_source = options.ethernet_strict_source};
}

/// The host is the same DHCP client on both ports.
Pump::Settings with_identity_of(Guid primary, Pump::Settings backup) {
  backup.link.dhcp_identity = primary;
  return backup;
}

InterfaceIdentity identity_on(const verbs::Device& device, const std::string& interface) {
  return {interface, device.name(), device.port(), static_cast<std::uint32_t>(::getpid())};
}

/// Bytes of headroom that packets of the host need in addition to the link's.
std::size_t more_headroom(const Options& options, PKey pkey) {
  return options.is_ethernet(pkey) ? ethernet::View::kHeadroom - link::kHeadroom : 0;
}

/// Of all ports whose devices count them.
std::optional<std::uint64_t> missing_receives(const verbs::Device& primary,
                                              const verbs::Device* backup) {
  const auto of_primary = primary.missing_receives();
  const auto of_backup = backup != nullptr ? backup->missing_receives() : std::nullopt;
  if (!of_primary && !of_backup) return std::nullopt;
  return of_primary.value_or(0) + of_backup.value_or(0);
}

void receive_large_packets(const host::HostDevice& tun, PortQueues& queues) {
  using Kind = Segmentation::Kind;
  if (tun.accepts(Kind::tcp) && tun.accepts(Kind::udp)) queues.enable_large_receives();
}

Guid guid_of(const verbs::Device& device) { return device.query().value().gid.guid(); }

}  // namespace

Interface::Interface(const InterfaceId& id, const Interface::Dependencies& dependencies,
                     InterfaceOwner& owner, SaRequestPort& sa)
    : id_(id),
      dependencies_(dependencies),
      logs_(dependencies.logs, id.name, id.pkey),
      cpu_(dependencies.cpus),
      trace_(dependencies.rings, id.name),
      queues_(dependencies.device, dependencies.backup, dependencies.options,
              more_headroom(dependencies.options, id.pkey), *logs_.verbs),
      ipv6_(ipv6_identity(dependencies.options.stable_privacy, guid_of(dependencies.device),
                          id.pkey)),
      vlan_(dependencies.options.vlan_of(id.pkey)),
      mark_(vlan_ ? std::string()
                  : to_string(InterfaceMark{id.name, guid_of(dependencies.device)})),
      handed_(take(dependencies.handed, id.pkey)),
      mode_(handed_ ? PumpMode::held : PumpMode::active),
      tun_(open_host()),
      mirror_((receive_large_packets(*tun_, queues_), open_mirror())),
      to_interface_(kMailboxCapacity),
      to_control_(kMailboxCapacity),
      control_(control_dependencies(dependencies, owner, sa)),
      server_(handed_ ? nullptr : serve(tun_->name(), control::Server::IfTaken::fail)),
      pump_(pump_settings(dependencies.options, id, PortRole::primary, mode_),
            pump_dependencies(queues_.primary())),
      sleeper_({.host = tun_->descriptor(),
                .completions = queues_.descriptors(),
                .messages = to_interface_.descriptor()}),
      loop_({.identity = identity_on(dependencies.device, tun_->name()),
             .pkey = id.pkey,
             .poll = dependencies.options.poll},
            loop_dependencies()),
      thread_([this] { run(); }, to_interface_) {
  if (handed_) (void)to_interface_.post(RestoreCache{std::move(handed_->cache)});
  handed_.reset();
  log_start();
}

Pump::Dependencies Interface::pump_dependencies(PortQueue& queue) {
  return {.tun = *tun_,
          .queue_pair = *queue.queue_pair,
          .host_frames = {queue.pools.host, queue.pools.large},
          .messages = queue.pools.messages,
          .trace = trace_.ring,
          .log = *logs_.daemon,
          .link_log = *logs_.link};
}

InterfaceLoop::Dependencies Interface::loop_dependencies() {
  InterfaceLoop::Dependencies out{.pump = pump_,
                                  .tun = *tun_,
                                  .queue_pair = *queues_.primary().queue_pair,
                                  .sleeper = sleeper_,
                                  .inbox = to_interface_,
                                  .outbox = to_control_,
                                  .trace = trace_.ring,
                                  .log = *logs_.daemon};
  if (queues_.backup() == nullptr) return out;
  const auto& device = *dependencies_.backup;
  backup_pump_.emplace(
      with_identity_of(guid_of(dependencies_.device),
                       pump_settings(dependencies_.options, id_, PortRole::backup, mode_)),
      pump_dependencies(*queues_.backup()));
  out.backup.emplace(InterfaceLoop::Backup{.port = {device.name(), device.port()},
                                           .pump = *backup_pump_,
                                           .queue_pair = *queues_.backup()->queue_pair,
                                           .selection = dependencies_.options.selection});
  return out;
}

std::unique_ptr<host::HostDevice> Interface::open_host() {
  if (vlan_) return std::make_unique<host::VlanPort>(*dependencies_.trunk, *vlan_, id_.name);
  const auto& all = dependencies_.options;
  const bool is_tap = all.ethernet.includes(id_.pkey);
  const bool is_trunk = !all.vlans.empty() && id_.pkey == base_partition(all.pkeys);
  const auto mac = ethernet::mac_of_interface(guid_of(dependencies_.device), id_.pkey);
  const host::TunOptions options{.name = id_.name,
                                 .mark = mark_,
                                 .large_packets = queues_.can_send_large_packets(),
                                 .mac = is_tap ? std::optional(mac) : std::nullopt,
                                 .stable_secret = ipv6_.stable_secret,
                                 .trunk = is_trunk ? dependencies_.trunk : nullptr};
  using host::TunDevice;
  return at_home([&] {
    return handed_ ? TunDevice::take(std::move(handed_->tun), handed_->mtu, options).value()
                   : TunDevice::open(options).value();
  });
}

std::unique_ptr<host::HostMirror> Interface::open_mirror() const {
  if (vlan_) {
    const auto mac = ethernet::mac_of_interface(guid_of(dependencies_.device), id_.pkey);
    return std::make_unique<host::VlanHost>(id_.name, mac);
  }
  return at_home([this] {
    return host::NetlinkView::open(tun_->interface_index(), ipv6_.link_local).value();
  });
}

InterfaceControl::Dependencies Interface::control_dependencies(
    const Interface::Dependencies& dependencies, InterfaceOwner& owner, SaRequestPort& sa) {
  const auto neighbours = dependencies.neighbours.of(id_.pkey, tun_->name());
  if (handed_) neighbours->add(handed_->statics);
  return {
      .context = dependencies.context,
      .number = id_.number,
      .pkey = id_.pkey,
      .host = *mirror_,
      .to_interface = to_interface_,
      .inbox = to_control_,
      .owner = owner,
      .sa = sa,
      .neighbours = neighbours,
      .trace = dependencies.control_trace,
      .log = *logs_.daemon,
      .interface = tun_->name(),
      .link_local = {guid_of(dependencies.device), id_.pkey, dependencies.options.stable_privacy},
      .renamed = [this](const std::string& name) { on_renamed(name); },
      .has_moved = [this] { return tun_->network_namespace().has_value(); },
      .missing_receives =
          [&dependencies = dependencies_] {
            return missing_receives(dependencies.device, dependencies.backup);
          },
      .publish = [this](const control::Event& event) { server_->publish(event); }};
}

void Interface::log_start() {
  const auto& device = dependencies_.device;
  const auto* const backup = dependencies_.backup;
  logs_.daemon->info("on {} port {}{}, partition {:#06x}{}{}", device.name(), device.port(),
                     backup != nullptr
                         ? ", with the backup " + PortName{backup->name(), backup->port()}.text()
                         : "",
                     id_.pkey.value(), vlan_ ? ", VLAN " + std::to_string(vlan_->value()) : "",
                     tun_->adopted() ? ", adopted" : "");
  for (const auto& warning : tun_->warnings()) logs_.daemon->warn("{}", warning);
}

void Interface::run() {
  if (const auto pinned = cpu_.pin_thread(); !pinned)
    logs_.daemon->warn("{}", pinned.error().message);
  // As long as 15 characters, like an interface's name.
  (void)::pthread_setname_np(::pthread_self(), id_.name.c_str());
  enter_interface_sandbox(dependencies_.options.sandbox,
                          is_on_softib() ? CallUsers::subnet : CallUsers::kernel);
  loop_.run();
}

SharedNamespace Interface::current_namespace() const {
  auto found = tun_->network_namespace();
  return found ? std::make_shared<const host::NetworkNamespace>(std::move(*found)) : nullptr;
}

bool Interface::is_at_home() const {
  if (vlan_) return true;
  const auto now_in = tun_->network_namespace();
  return now_in && now_in->is_same_as(dependencies_.home);
}

KeptInterface Interface::kept() const {
  const auto now_in = current_namespace();
  return {tun_->current_name(), mark_, now_in ? now_in : id_.home};
}

/// Clients find the sockets by the interface's network namespace and name.
std::unique_ptr<control::Server> Interface::serve(const std::string& name,
                                                  control::Server::IfTaken if_taken) {
  using control::Server;
  return at_home([&] {
    return std::make_unique<Server>(dependencies_.context,
                                    Server::Dependencies{.handler = control_,
                                                         .levels = dependencies_.logs.levels,
                                                         .trace = dependencies_.rings,
                                                         .log = *logs_.control,
                                                         .on_handover = dependencies_.on_handover},
                                    Server::Options{.interface = name,
                                                    .access = dependencies_.options.control_access,
                                                    .if_taken = if_taken});
  });
}

std::vector<control::StaticNeighbour> Interface::statics() const {
  return dependencies_.neighbours.of(id_.pkey, tun_->name())->by_operator();
}

void Interface::save(link::NeighbourCursor from, std::function<void(link::SavedPage)> done) {
  (void)to_interface_.post(SaveCache{from, std::move(done)});
}

void Interface::set_mode(PumpMode mode) {
  mode_ = mode;
  if (mode == PumpMode::active) {
    tun_->keep();  // the other daemon may have ended in an orderly way
    serve_again();
  } else if (server_) {
    server_->publish(control::TakeoverEvent{});
    server_.reset();
  }
  control_.set_mode(mode);
}

/// Another daemon may serve the network interface.
void Interface::remove_at_end() {
  if (mode_ == PumpMode::active) tun_->remove();
}

void Interface::on_renamed(const std::string& name) {
  const auto before = logs_.prefix->get().interface;
  logs_.prefix->set(name);
  logs_.daemon->info("renamed; was called {}", before);
  if (mode_ == PumpMode::active) serve_again();
}

void Interface::serve_again() {
  try {
    // Another interface of this daemon, or the other daemon, may still have the name.
    server_ = serve(tun_->current_name(), control::Server::IfTaken::retry);
  } catch (const std::exception& error) {
    logs_.daemon->error("ibarp(8) does not find the interface: {}", error.what());
  }
}

}  // namespace ipoib::daemon
