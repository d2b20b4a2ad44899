// Large subnets in virtual time: many links on one SA that works on one MAD after the other, pairs
// of links that exchange packets, and how many SA requests that takes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/sim/host.hpp"
#include "tests/sim/world.hpp"

namespace ipoib::sim {

struct ScaleOptions {
  std::uint32_t links = 1000;
  /// Links on each port, each in a partition of its own: the emulated subnet has at most 4095
  /// ports.
  std::uint32_t partitions = 1;
  /// The HCAs are spread evenly over the leaf switches of a fat tree of three levels, whose
  /// switches have this many ports; 0: one switch.
  std::uint32_t switch_ports = 0;
  std::uint64_t seed = 1;
  bool broadcast_group = true;                           ///< the SM creates it, in each partition
  Duration sa_service = std::chrono::microseconds(100);  ///< 10,000 MADs per second
  Duration sa_delay = std::chrono::milliseconds(1);
  std::size_t sa_queue = 512;  ///< MADs; that of Linux's ib_mad
  link::Config link = {};      ///< of all links, but for the P_Key
};

/// What all SA clients have counted, those of ended processes included.
struct SaLoad {
  std::uint64_t requests = 0;
  std::uint64_t mads = 0;  ///< with retries
  std::uint64_t timeouts = 0;
  std::uint64_t paths = 0;  ///< path requests among the requests
};
[[nodiscard]] SaLoad operator-(const SaLoad& left, const SaLoad& right);

class Scale {
 public:
  struct Pair {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
  };

  explicit Scale(const ScaleOptions& options);
  virtual ~Scale() = default;
  Scale(const Scale&) = delete;
  Scale& operator=(const Scale&) = delete;

  /// Starts a process for each link, at random times within `spread`.
  void boot(Duration spread);
  [[nodiscard]] std::uint32_t up() const;
  /// Runs until that many links are up; false if they are not within `limit`.
  [[nodiscard]] bool run_until_up(std::uint32_t count, Duration limit);
  /// Each link gets `peers` random peers in its partition.
  void choose_pairs(std::uint32_t peers);
  [[nodiscard]] const std::vector<Pair>& pairs() const { return pairs_; }
  /// Different links as an unordered pair: both need a path.
  [[nodiscard]] std::size_t connections() const;
  /// Each pair sends packets until one has arrived. Returns the pairs that do not succeed within
  /// `limit`; `took` is the time until the last one did.
  [[nodiscard]] std::vector<Pair> exchange(Duration limit, Duration& took);
  void send(const Pair& pair);
  void broadcast(std::uint32_t link);

  [[nodiscard]] SaLoad load() const;
  [[nodiscard]] std::uint32_t size() const { return options_.links; }
  /// Null: the process has ended.
  [[nodiscard]] Host* host(std::uint32_t link) const { return links_[link].host.get(); }
  [[nodiscard]] PKey pkey_of(std::uint32_t link) const;
  [[nodiscard]] std::string name_of(std::uint32_t link) const;
  /// Takes the power from a switch, or gives it back. Throws std::runtime_error if there is none
  /// of that name.
  void set_switch(const std::string& name, softib::subnet::SwitchState state);
  [[nodiscard]] std::uint64_t received() const { return received_; }

  World world;

 protected:
  void start(std::uint32_t link);
  /// Ends the process, with or without leaving its groups.
  void end(std::uint32_t link, bool in_order);
  [[nodiscard]] std::uint64_t random(std::uint64_t below) { return random_() % below; }
  [[nodiscard]] Duration random(Duration from, Duration to);

  const ScaleOptions options_;

 private:
  struct LinkSlot {
    std::unique_ptr<Host> host;
    std::uint32_t epoch = 0;
    std::unordered_map<std::uint32_t, std::uint32_t> last_from;  ///< number, by source address
  };
  [[nodiscard]] static softib::subnet::SubnetConfig subnet_of(const ScaleOptions& options);
  [[nodiscard]] Ipv4Address address_of(std::uint32_t link) const;
  [[nodiscard]] bool has_arrived(const Pair& pair) const;
  void add_counters(const Host& host, SaLoad& to) const;
  bool take(std::uint32_t link, ConstBytes packet);

  std::mt19937_64 random_;
  std::vector<LinkSlot> links_;
  std::vector<Pair> pairs_;
  SaLoad ended_;
  std::uint32_t number_ = 0;  ///< of the packets of the current exchange
  std::uint64_t received_ = 0;
};

}  // namespace ipoib::sim
