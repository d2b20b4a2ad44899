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

Interface::Interface(const Identity& identity, const SharedByInterfaces& shared,
                     InterfaceOwner& owner, SaRequestPort& sa)
    : identity_(identity),
      logs_(shared.logs, identity.name),
      trace_(shared.rings, identity.name),
      pools_(shared.max_mtu, shared.options.link, shared.options.queues),
      queue_pair_(verbs::UdQueuePair::create(shared.device, shared.max_mtu, shared.options.queues,
                                             *logs_.verbs)
                      .value()),
      ipv6_(ipv6_identity(shared.options.stable_privacy, shared.device.query().value().gid.guid(),
                          identity.pkey)),
      tun_((register_pools(), shared.home.run([&] {
        return host::TunDevice::open({.name = identity.name,
                                      .large_packets = queue_pair_->can_send_large_packets(),
                                      .stable_secret = ipv6_.stable_secret})
            .value();
      }))),
      netlink_((receive_large_packets(), shared.home.run([this] {
        return host::NetlinkView::open(tun_->interface_index(), ipv6_.link_local).value();
      }))),
      to_interface_(kMailboxCapacity),
      to_control_(kMailboxCapacity),
      control_({.context = shared.context,
                .number = identity.number,
                .pkey = identity.pkey,
                .netlink = *netlink_,
                .to_interface = to_interface_,
                .inbox = to_control_,
                .owner = owner,
                .sa = sa,
                .trace = shared.control_trace,
                .log = *logs_.daemon}),
      server_(shared.home.run([&] { return serve(shared); })),
      pump_(pump_settings(shared.options, identity.pkey, identity.number),
            {.tun = *tun_,
             .queue_pair = *queue_pair_,
             .host_frames = {pools_.host, pools_.large},
             .messages = pools_.messages,
             .trace = trace_.ring,
             .log = *logs_.daemon,
             .link_log = *logs_.link}),
      loop_({.identity = identity_on(shared.device, tun_->name()),
             .pkey = identity.pkey,
             .poll = shared.options.poll},
            {pump_, *tun_, *queue_pair_, to_interface_, to_control_, trace_.ring, *logs_.daemon}),
      thread_([this] { loop_.run(); }, to_interface_) {
  logs_.daemon->info("on {} port {}, partition {:#06x}{}", shared.device.name(),
                     shared.device.port(), identity.pkey.value(),
                     tun_->adopted() ? ", adopted" : "");
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

std::unique_ptr<control::Server> Interface::serve(const SharedByInterfaces& shared) {
  using control::Server;
  const Server::Dependencies dependencies{.handler = control_,
                                          .levels = shared.logs.levels,
                                          .trace = shared.rings,
                                          .log = *logs_.control};
  return std::make_unique<Server>(shared.context, dependencies, Server::Options{tun_->name()});
}

}  // namespace ipoib::daemon
