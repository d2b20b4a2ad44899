#include "daemon/interface.hpp"

#include <unistd.h>

#include <random>

#include "ipoib/log.hpp"

namespace ipoib::daemon {

namespace {

Pump::Settings pump_settings(const Options& options, PKey pkey, InterfaceNumber number) {
  auto link = options.link;
  link.pkey = pkey;
  return {std::move(link), options.max_ip_mtu, std::random_device()(), first_link_request(number)};
}

InterfaceIdentity identity_on(const verbs::Device& device, const std::string& interface) {
  return {interface, device.name(), device.port(), static_cast<std::uint32_t>(::getpid())};
}

}  // namespace

Interface::Interface(const InterfaceId& id, const Interface::Dependencies& dependencies,
                     InterfaceOwner& owner, SaRequestPort& sa)
    : id_(id),
      logs_(dependencies.logs, id.name),
      trace_(dependencies.rings, id.name),
      pools_(dependencies.max_mtu, dependencies.options.link, dependencies.options.queues),
      queue_pair_(verbs::UdQueuePair::create(dependencies.device, dependencies.max_mtu,
                                             dependencies.options.queues, *logs_.verbs)
                      .value()),
      ipv6_(ipv6_identity(dependencies.options.stable_privacy,
                          dependencies.device.query().value().gid.guid(), id.pkey)),
      tun_((register_pools(), dependencies.home.run([&] {
        return host::TunDevice::open({.name = id.name,
                                      .large_packets = queue_pair_->can_send_large_packets(),
                                      .stable_secret = ipv6_.stable_secret})
            .value();
      }))),
      netlink_((receive_large_packets(), dependencies.home.run([this] {
        return host::NetlinkView::open(tun_->interface_index(), ipv6_.link_local).value();
      }))),
      to_interface_(kMailboxCapacity),
      to_control_(kMailboxCapacity),
      control_(control_dependencies(dependencies, owner, sa)),
      server_(dependencies.home.run([&] { return serve(dependencies); })),
      pump_(pump_settings(dependencies.options, id.pkey, id.number),
            {.tun = *tun_,
             .queue_pair = *queue_pair_,
             .host_frames = {pools_.host, pools_.large},
             .messages = pools_.messages,
             .trace = trace_.ring,
             .log = *logs_.daemon,
             .link_log = *logs_.link}),
      sleeper_({.host = tun_->descriptor(),
                .completions = queue_pair_->descriptor(),
                .messages = to_interface_.descriptor()}),
      loop_({.identity = identity_on(dependencies.device, tun_->name()),
             .pkey = id.pkey,
             .poll = dependencies.options.poll},
            {pump_, *tun_, *queue_pair_, sleeper_, to_interface_, to_control_, trace_.ring,
             *logs_.daemon}),
      thread_([this] { loop_.run(); }, to_interface_) {
  log_start(dependencies.device);
}

InterfaceControl::Dependencies Interface::control_dependencies(
    const Interface::Dependencies& dependencies, InterfaceOwner& owner, SaRequestPort& sa) {
  return {
      .context = dependencies.context,
      .number = id_.number,
      .pkey = id_.pkey,
      .host = *netlink_,
      .to_interface = to_interface_,
      .inbox = to_control_,
      .owner = owner,
      .sa = sa,
      .trace = dependencies.control_trace,
      .log = *logs_.daemon,
      .missing_receives = [&device = dependencies.device] { return device.missing_receives(); }};
}

void Interface::log_start(const verbs::Device& device) {
  logs_.daemon->info("on {} port {}, partition {:#06x}{}", device.name(), device.port(),
                     id_.pkey.value(), tun_->adopted() ? ", adopted" : "");
  for (const auto& warning : tun_->warnings()) logs_.daemon->warn("{}", warning);
}

void Interface::register_pools() {
  queue_pair_->register_pool(pools_.host).value();
  queue_pair_->register_pool(pools_.large).value();
  queue_pair_->register_pool(pools_.messages).value();
}

void Interface::receive_large_packets() {
  using Kind = Segmentation::Kind;
  if (tun_->accepts(Kind::tcp) && tun_->accepts(Kind::udp)) queue_pair_->enable_large_receives();
}

std::unique_ptr<control::Server> Interface::serve(const Interface::Dependencies& dependencies) {
  using control::Server;
  return std::make_unique<Server>(dependencies.context,
                                  Server::Dependencies{.handler = control_,
                                                       .levels = dependencies.logs.levels,
                                                       .trace = dependencies.rings,
                                                       .log = *logs_.control},
                                  Server::Options{tun_->name()});
}

}  // namespace ipoib::daemon
