// A world with hosts on one subnet 10.44.0.0/16.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "tests/sim/host.hpp"
#include "wire/arp.hpp"
#include "wire/encapsulation.hpp"
#include "wire/packet.hpp"

namespace ipoib::sim {

using namespace std::chrono_literals;
using link::Counter;
using link::LinkState;

[[nodiscard]] inline Ipv4Address address_of(std::uint32_t number) {
  return Ipv4Address(0x0a2c0000U + number);
}

class Sim : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kSeed = 20240607;

  explicit Sim(softib::subnet::SubnetConfig subnet = {}) : world(kSeed, std::move(subnet)) {}

  [[nodiscard]] HostOptions options(std::uint32_t number) const {
    HostOptions chosen;
    chosen.hca = "hca" + std::to_string(number);
    chosen.address = {address_of(number), 16};
    // A QPN that no other host has.
    chosen.epoch = 3 + number % 10;
    chosen.slot = number / 10;
    chosen.link = config;
    return chosen;
  }
  /// Host `number` on its own HCA; its address is address_of(number).
  Host& add(std::uint32_t number) { return add(options(number)); }
  Host& add(const HostOptions& chosen) {
    hosts.push_back(std::make_unique<Host>(world, chosen));
    return *hosts.back();
  }
  void add_many(std::uint32_t count) {
    for (std::uint32_t i = 1; i <= count; ++i) add(i);
  }
  void remove(const Host& host) {
    std::erase_if(hosts, [&](const auto& one) { return one.get() == &host; });
  }
  [[nodiscard]] bool all_up() const {
    return std::ranges::all_of(hosts, [](const auto& host) { return host->is_up(); });
  }
  void bring_up() {
    ASSERT_TRUE(world.run_until([this] { return all_up(); }, 60s));
  }
  /// Two hosts that are up and have announced themselves.
  void two_hosts() {
    add_many(2);
    bring_up();
    world.run_for(5s);
  }
  [[nodiscard]] Host& a() { return *hosts.at(0); }
  [[nodiscard]] Host& b() { return *hosts.at(1); }
  /// Sends one packet, and runs until it arrives.
  [[nodiscard]] bool reaches(Host& from, Host& to, Duration within = 1s) {
    const std::size_t before = to.received_from(from.ip());
    from.send(to.ip());
    return world.run_until([&] { return to.received_from(from.ip()) > before; }, within);
  }
  /// Sends a packet every 100 ms until one arrives.
  [[nodiscard]] bool keeps_trying(Host& from, Host& to, Duration within) {
    const TimePoint end = world.now() + within;
    while (world.now() < end) {
      if (reaches(from, to, 100ms)) return true;
    }
    return false;
  }
  /// Host `number` as another process on the HCA of host `other`.
  [[nodiscard]] HostOptions beside(std::uint32_t other, std::uint32_t number) const {
    HostOptions chosen = options(number);
    chosen.hca = options(other).hca;
    chosen.slot = 1;
    chosen.takes_reports = false;
    return chosen;
  }
  /// The ARP message in a packet.
  [[nodiscard]] static std::optional<wire::Arp> arp_in(ConstBytes packet) {
    const auto ud = wire::UdPacket::parse(packet);
    if (!ud || wire::parse_encapsulation(ud->payload) != wire::EtherType::arp) return {};
    return wire::Arp::parse(ud->payload.subspan(wire::kEncapsulationSize));
  }

  link::Config config;
  World world;
  std::vector<std::unique_ptr<Host>> hosts;
};

}  // namespace ipoib::sim
