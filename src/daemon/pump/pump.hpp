// The data path of one interface: moves packets between TUN, link and queue pair, and carries out
// what the link asks for.
//
// A Pump has no descriptor, clock or thread. Its owner (InterfaceLoop, or a test in virtual time)
// calls turn() with the time, and again while it returns true. Stimuli other than packets go to
// link() directly, followed by drain(). Afterwards the owner takes the messages for the control
// thread out of to_control(), and arms one timer for link().next_deadline().
//
// The TUN is not read while sends wait for room in the send queue: the kernel's queue fills then.
// Several pumps can share a TUN; one of them serves it (pump_mode.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/pump/host_side.hpp"
#include "daemon/pump/messages.hpp"
#include "daemon/pump/packet_observer.hpp"
#include "daemon/pump/pump_mode.hpp"
#include "daemon/pump/route_follower.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/trace.hpp"
#include "ipoib/tun_port.hpp"
#include "offload/coalescer.hpp"

namespace ipoib::daemon {

class Pump {
 public:
  /// All of these outlive the pump.
  struct Dependencies {
    TunPort& tun;
    UdPort& queue_pair;
    HostPools host_frames;  ///< for packets read from the TUN
    FramePool& messages;    ///< for messages of the link
    RouteFollower& routes;  ///< which the link is added to
    TraceRing& trace;
    Logger& log;
    Logger& link_log;
    const ArpPolicySource* arp_policy = nullptr;  ///< see link::Link::Dependencies
  };
  struct Settings {
    link::Config link;
    std::uint32_t max_ip_mtu = 0;
    std::uint64_t seed = 0;             ///< for jitter
    HashKey hash_key;                   ///< of the link
    wire::SaRequestId first_request{};  ///< of the link
    PumpMode mode = PumpMode::active;   ///< at first
    bool ethernet = false;              ///< the TUN is a TAP
    std::size_t stations = 0;           ///< limit of those behind a TAP
    bool strict_source = false;         ///< see ethernet::View::Limits
  };
  Pump(const Settings& settings, const Dependencies& dependencies);

  /// Moves one batch in each direction and runs expired timers. Returns whether to call it again:
  /// there were packets, or there may be room for packets of the host now.
  bool turn(TimePoint now);
  /// Moves one batch of received datagrams; also reaps completed sends and posts waiting ones.
  /// Returns whether there were datagrams, or the last waiting send was posted, so that the TUN can
  /// be read again.
  bool from_fabric(TimePoint now);
  /// Carries out what stimuli of the link have caused.
  void drain(TimePoint now);

  /// On the way to PumpMode::active, makes the settings of the TUN that the link wants, and
  /// announces the host's addresses.
  void set_mode(PumpMode mode, TimePoint now);
  [[nodiscard]] PumpMode mode() const { return mode_; }
  /// When to call turn() without any stimulus.
  [[nodiscard]] TimePoint next_deadline() const;
  /// The MTU of the interface for a link's one, both in bytes.
  [[nodiscard]] std::uint32_t allowed_mtu(std::uint32_t of_link) const {
    return std::min(of_link, max_ip_mtu_);
  }

  /// The observer sees all datagrams from now on; null ends that. LID and P_Key are those of
  /// QueuePairView.
  void observe(PacketObserver* observer, Lid lid, PKey pkey) { observed_ = {observer, lid, pkey}; }

  /// The host's configuration has changed. The pump that serves the host tells the view of it.
  void on_host_changed(const HostChanged& message, TimePoint now);
  [[nodiscard]] link::Link& link() { return link_; }
  [[nodiscard]] HostSide& host() { return host_; }
  /// Messages for the control thread, in order; the caller removes them.
  [[nodiscard]] std::vector<ToControl>& to_control() { return to_control_; }
  [[nodiscard]] const offload::Coalescer::Counters& counters() const {
    return coalescer_.counters();
  }

 private:
  [[nodiscard]] bool serves_host() const { return mode_ != PumpMode::standby; }
  bool from_host(TimePoint now);
  void send_pending(TimePoint now);

  void apply(const link::ConfigureQueuePair& event);
  void apply(const link::AttachGroup& event);
  void apply(const link::DetachGroup& event);
  void apply(const link::SetMtu& event);
  void apply(const link::SetCarrier& event);
  template <class Message>
  void apply(const Message& message) {
    to_control_.emplace_back(message);
  }

  void leave_to_active_pump();

  struct Observed {
    PacketObserver* observer = nullptr;
    Lid lid;
    PKey pkey;
  };

  Dependencies dependencies_;
  Observed observed_;
  std::uint32_t max_ip_mtu_;
  PumpMode mode_;
  link::Link link_;
  HostSide host_;
  offload::Coalescer coalescer_;
  /// Limit of the next read from the TUN: twice the size of the last batch, so that a single packet
  /// is sent before the TUN is asked for more.
  std::size_t host_limit_ = 1;
  bool setup_failed_ = false;
  std::vector<Gid> not_attached_;
  std::vector<ToControl> to_control_;

  // Batches; members, so that their memory is reused.
  std::vector<Frame> packets_;
  std::vector<Incoming> datagrams_;
  std::vector<link::Event> events_;
};

}  // namespace ipoib::daemon
