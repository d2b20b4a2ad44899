#include "tests/sim/scale.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "softib/topology/shapes.hpp"
#include "wire/ipv4.hpp"

namespace ipoib::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::uint16_t kFirstPKey = 0x8010;
/// Where progress is looked at.
constexpr Duration kStep = 10ms;

/// Enough for the packets of an instant: in virtual time each is handled at once.
constexpr std::uint32_t kQueueDepth = 16;
constexpr std::size_t kFrames = 48;
/// Of neighbours and paths; their tables are allocated when a link is created.
constexpr std::size_t kNeighbours = 512;

std::uint32_t number_of(Ipv4Address address) {
  return load_be<std::uint32_t>(address.bytes().data());
}

std::string hca_name(std::uint32_t port) { return "hca" + std::to_string(port + 1); }

/// A fat tree of three levels with `hcas` of its HCAs, evenly.
softib::topology::Topology tree_of(std::uint32_t switch_ports, std::uint32_t hcas) {
  auto tree = softib::topology::make_shape("fat-tree:" + std::to_string(switch_ports)).value();
  const std::size_t places = tree.hcas.size();
  if (hcas > places) {
    throw std::invalid_argument("the tree has only " + std::to_string(places) + " HCAs");
  }
  std::vector<std::optional<std::uint16_t>> index_of(places);
  std::vector<softib::topology::Hca> kept;
  for (std::uint32_t i = 0; i < hcas; ++i) {
    const std::size_t place = std::size_t{i} * places / hcas;
    index_of[place] = static_cast<std::uint16_t>(i);
    kept.push_back(tree.hcas[place]);
    kept.back().name = hca_name(i);
  }
  tree.hcas = std::move(kept);
  std::erase_if(tree.cables, [&](softib::topology::Cable& cable) {
    for (auto* const end : {&cable.a, &cable.b}) {
      if (end->is_switch) continue;
      const auto index = index_of[end->index];
      if (!index) return true;
      end->index = *index;
    }
    return false;
  });
  return tree;
}

}  // namespace

SaLoad operator-(const SaLoad& left, const SaLoad& right) {
  return {left.requests - right.requests, left.mads - right.mads, left.timeouts - right.timeouts,
          left.paths - right.paths};
}

Scale::Scale(const ScaleOptions& options)
    : world(options.seed, subnet_of(options)),
      options_(options),
      random_(options.seed),
      links_(options.links) {
  world.faults.sa_service = options.sa_service;
  world.faults.sa_delay = options.sa_delay;
  world.faults.sa_queue = options.sa_queue;
  // The ports are there before the first process starts, as after a power failure.
  for (std::uint32_t link = 0; link < size(); ++link) {
    (void)world.subnet().add_hca(name_of(link)).value();
  }
}

softib::subnet::SubnetConfig Scale::subnet_of(const ScaleOptions& options) {
  softib::subnet::SubnetConfig subnet;
  subnet.mtu = 5;
  for (std::uint32_t i = 0; i < options.partitions; ++i) {
    softib::subnet::Partition partition;
    partition.pkey = PKey(static_cast<std::uint16_t>(kFirstPKey + i));
    partition.others = softib::subnet::Membership::full;
    partition.broadcast_group = options.broadcast_group;
    partition.mtu = options.broadcast_group ? 4 : 0;
    subnet.partitions.push_back(partition);
  }
  if (options.switch_ports != 0) {
    subnet.topology = tree_of(options.switch_ports, options.links / options.partitions);
  }
  return subnet;
}

PKey Scale::pkey_of(std::uint32_t link) const {
  return PKey(static_cast<std::uint16_t>(kFirstPKey + link % options_.partitions));
}

std::string Scale::name_of(std::uint32_t link) const {
  return hca_name(link / options_.partitions);
}

void Scale::set_switch(const std::string& name, softib::subnet::SwitchState state) {
  (void)world.subnet().set_switch(name, state).value();
  world.publish();
}

Ipv4Address Scale::address_of(std::uint32_t link) const {
  constexpr std::uint32_t kNetwork = 0x0a2c0000;
  const std::uint32_t port = link / options_.partitions + 1;
  return Ipv4Address(kNetwork + (link % options_.partitions << 16) + port);
}

Duration Scale::random(Duration from, Duration to) {
  return from + Duration(static_cast<Duration::rep>(
                    random(static_cast<std::uint64_t>((to - from).count()) + 1)));
}

// --- Processes -----------------------------------------------------------------------------------

void Scale::start(std::uint32_t link) {
  LinkSlot& slot = links_[link];
  HostOptions chosen;
  chosen.hca = name_of(link);
  chosen.address = {address_of(link), 16};
  chosen.slot = link % options_.partitions;
  slot.epoch = slot.epoch % softib::QpnLayout::kMaxEpoch + 1;
  chosen.epoch = slot.epoch;
  chosen.takes_reports = chosen.slot == 0;
  chosen.link = options_.link;
  chosen.link.pkey = pkey_of(link);
  chosen.link.limits.neighbours = chosen.link.limits.paths = kNeighbours;
  chosen.queue_depth = kQueueDepth;
  chosen.frames = kFrames;
  slot.host = std::make_unique<Host>(world, chosen);
  slot.host->tun().kernel = [this, link](ConstBytes packet) { return take(link, packet); };
}

void Scale::end(std::uint32_t link, bool in_order) {
  if (in_order) links_[link].host->shut_down();
  add_counters(*links_[link].host, ended_);
  links_[link].host.reset();
}

void Scale::boot(Duration spread) {
  std::vector<std::pair<Duration, std::uint32_t>> starts;
  for (std::uint32_t link = 0; link < size(); ++link) {
    starts.emplace_back(random(Duration::zero(), spread), link);
  }
  std::ranges::sort(starts);
  const TimePoint begin = world.now();
  for (const auto& [after, link] : starts) {
    if (begin + after > world.now()) world.run_for(begin + after - world.now());
    start(link);
  }
}

std::uint32_t Scale::up() const {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      links_, [](const LinkSlot& slot) { return slot.host && slot.host->is_up(); }));
}

bool Scale::run_until_up(std::uint32_t count, Duration limit) {
  for (const TimePoint end = world.now() + limit; up() < count;) {
    if (world.now() >= end) return false;
    world.run_for(kStep);
  }
  return true;
}

void Scale::add_counters(const Host& host, SaLoad& to) const {
  to.requests += host.sa_counters().requests;
  to.mads += host.sa_counters().mads_sent;
  to.timeouts += host.sa_counters().timeouts;
  to.paths += host.count(link::Counter::path_requests);
}

SaLoad Scale::load() const {
  SaLoad sum = ended_;
  for (const LinkSlot& slot : links_) {
    if (slot.host) add_counters(*slot.host, sum);
  }
  return sum;
}

// --- Packets -------------------------------------------------------------------------------------

void Scale::choose_pairs(std::uint32_t peers) {
  pairs_.clear();
  const std::uint32_t ports = size() / options_.partitions;
  for (std::uint32_t from = 0; from < size(); ++from) {
    std::set<std::uint32_t> chosen;
    while (chosen.size() < std::min(peers, ports - 1)) {
      const auto port = static_cast<std::uint32_t>(random(ports));
      if (port != from / options_.partitions) chosen.insert(port);
    }
    for (const std::uint32_t port : chosen) {
      pairs_.push_back({from, port * options_.partitions + from % options_.partitions});
    }
  }
}

std::size_t Scale::connections() const {
  std::set<std::pair<std::uint32_t, std::uint32_t>> different;
  for (const Pair& pair : pairs_) different.insert(std::minmax(pair.from, pair.to));
  return different.size();
}

void Scale::send(const Pair& pair) {
  if (Host* const from = host(pair.from)) from->send(address_of(pair.to), number_);
}

void Scale::broadcast(std::uint32_t link) {
  if (Host* const from = host(link)) from->send(Ipv4Address(0xffffffff), number_);
}

/// Takes a received packet, of which only the last number of its source is remembered.
bool Scale::take(std::uint32_t link, ConstBytes packet) {
  const auto header = wire::Ipv4Header::parse(packet);
  constexpr std::size_t kNumber = wire::Ipv4Header::kMinimumSize;  // where ip_packet() puts it
  if (!header || packet.size() < kNumber + sizeof number_) return false;
  ++received_;
  if (header->destination != address_of(link)) return true;
  links_[link].last_from[number_of(header->source)] =
      load_be<std::uint32_t>(packet.data() + kNumber);
  return true;
}

bool Scale::has_arrived(const Pair& pair) const {
  const auto& last = links_[pair.to].last_from;
  const auto found = last.find(number_of(address_of(pair.from)));
  return found != last.end() && found->second == number_;
}

std::vector<Scale::Pair> Scale::exchange(Duration limit, Duration& took) {
  ++number_;
  const TimePoint begin = world.now();
  std::vector<Pair> left = pairs_;
  while (!left.empty() && world.now() - begin < limit) {
    for (const Pair& pair : left) {
      send(pair);
      world.run_for(100us);
    }
    world.run_for(1s);
    std::erase_if(left, [this](const Pair& pair) { return has_arrived(pair); });
  }
  took = world.now() - begin;
  return left;
}

}  // namespace ipoib::sim
