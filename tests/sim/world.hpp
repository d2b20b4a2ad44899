// A subnet in one process and in virtual time: the core of the emulated fabric, and wires between
// its nodes with seeded loss and delay.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ipoib/mad_port.hpp"
#include "ipoib/time.hpp"
#include "softib/core/packet_sink.hpp"
#include "softib/subnet/subnet.hpp"

namespace ipoib::sim {

class World;

/// A process on a node.
class Process {
 public:
  virtual ~Process() = default;
  /// A packet for the node's HCA, from LRH to padding. Returns whether there is work for turn().
  [[nodiscard]] virtual bool receive(ConstBytes packet) = 0;
  virtual void receive_mad(const ReceivedMad& mad) = 0;
  /// Whether it gets the reports of the SA.
  [[nodiscard]] virtual bool takes_reports() const = 0;
  virtual void port_changed(const softib::PortAttributes& port) = 0;
  /// Its deadline has come, or it has received something.
  virtual void turn() = 0;
  [[nodiscard]] virtual TimePoint next_deadline() const = 0;
};

struct Faults {
  double packet_loss = 0;  ///< probability, for each receiver
  double mad_loss = 0;     ///< probability, each way
  bool sa_drops_requests = false;
  Duration sa_delay{};  ///< how much longer the SA takes to respond
  /// How long the SA works on each MAD, one after the other. MADs that arrive while `sa_queue`
  /// others wait are lost, as with the receive queue of a real port.
  Duration sa_service{};
  std::size_t sa_queue = 512;
  Duration latency = std::chrono::microseconds(2);
  Duration jitter = std::chrono::microseconds(3);
};

class World : public softib::PacketSink {
 public:
  /// Called for each packet; returns false to drop it.
  using Tap = std::function<bool(ConstBytes packet)>;
  /// May change each MAD of the SA; returns false to drop it.
  using MadTap = std::function<bool(softib::MadPacket& packet)>;

  explicit World(std::uint64_t seed, softib::subnet::SubnetConfig config = {});

  [[nodiscard]] TimePoint now() const { return now_; }
  [[nodiscard]] softib::subnet::Subnet& subnet() { return subnet_; }
  /// Notifies the ports of changes of SM and SA that no MAD has caused.
  void publish();
  /// A MAD that another program on the subnet has made up: a response for the process that its
  /// transaction id names, or a report. It arrives at once. As in the kernel, a response ends the
  /// request of its transaction id, whoever sends it.
  void inject_mad(const softib::MadPacket& packet);
  /// Restarts the subnet manager.
  void restart_sm();

  /// Runs until that time.
  void run_for(Duration time);
  /// Runs until the condition holds; returns false if it does not within `limit`.
  [[nodiscard]] bool run_until(const std::function<bool()>& holds, Duration limit);

  // --- For processes ---------------------------------------------------------------------------
  /// The HCA of that name; added if it does not exist.
  softib::NodeIndex add(Process& process, const std::string& hca);
  void remove(Process& process);
  /// Schedules a turn of the process.
  void wake(Process& process, TimePoint when);
  void send(std::span<const softib::OutgoingPacket> batch) override;
  /// A MAD without a time-out is a response. EINVAL: the port requires a GRH.
  [[nodiscard]] Result<void> send_mad(Process& from, const MadDestination& to, ConstBytes mad,
                                      Duration timeout);

  Faults faults;
  Tap tap;
  MadTap mad_tap;
  std::uint64_t packets_sent = 0;
  std::uint64_t mads_sent = 0;
  std::uint64_t sa_overruns = 0;  ///< MADs for which the SA had no room

 private:
  using Packet = std::shared_ptr<const std::vector<std::uint8_t>>;
  using ProcessId = std::uint32_t;
  struct Member {
    ProcessId id = 0;
    softib::NodeIndex node = 0;
    Process* process = nullptr;
    TimePoint woken_at = kNever;
  };
  struct Event {
    TimePoint when;
    std::uint64_t order;
    std::function<void()> act;
    friend bool operator>(const Event& a, const Event& b) {
      return a.when != b.when ? a.when > b.when : a.order > b.order;
    }
  };

  void at(TimePoint when, std::function<void()> act);
  void step();
  [[nodiscard]] TimePoint arrival();
  [[nodiscard]] bool lost(double probability);
  void send(ConstBytes bytes, Lid dlid);
  void deliver(Packet packet, Lid dlid);
  [[nodiscard]] Member* reports_to(softib::NodeIndex node);
  void give(Member& member);
  void await_response(ProcessId id, const softib::MadPacket& request, Duration timeout);
  void to_subnet(const softib::MadPacket& packet);
  void at_sa(const softib::MadPacket& packet);
  void from_subnet(softib::MadPacket packet);
  void to_process(const softib::MadPacket& packet);
  void deliver_response(const wire::MadHeader& header, const softib::MadPacket& packet);
  void report(const softib::MadPacket& packet);
  [[nodiscard]] static ReceivedMad received(const softib::MadPacket& packet);
  [[nodiscard]] const softib::PortAttributes& port_of(const Member& member) const;
  [[nodiscard]] Member* find(ProcessId id);
  [[nodiscard]] Member* find(const Process& process);
  template <class Act>
  void for_each_on(const softib::NodeSet& nodes, Act&& act);
  static std::uint64_t key_of(ProcessId id, std::uint32_t transaction) {
    return std::uint64_t{id} << 32 | transaction;
  }

  TimePoint now_{std::chrono::seconds(1000)};
  std::mt19937_64 random_;
  softib::subnet::Subnet subnet_;
  std::unordered_map<ProcessId, std::unique_ptr<Member>> members_;
  std::unordered_map<const Process*, Member*> by_process_;
  std::vector<std::vector<Member*>> on_node_;  ///< by NodeIndex
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t order_ = 0;
  ProcessId last_id_ = 0;
  std::unordered_map<Lid, TimePoint> last_arrivals_;
  TimePoint subnet_woken_at_ = kNever;
  /// Requests without a response: process, and low half of the transaction id.
  std::unordered_set<std::uint64_t> outstanding_;
  TimePoint sa_free_at_{};  ///< when the SA has worked off its queue
};

}  // namespace ipoib::sim
