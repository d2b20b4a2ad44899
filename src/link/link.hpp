// The protocol of one IPoIB link (RFC 4391): bring-up, neighbours, paths, groups.
//
// A Link has no descriptor, no clock and no thread. Its owner, the pump of an interface, calls one
// method per stimulus with the time, and afterwards drains what the call appended:
//   sends()    datagrams for UdPort::send; what is not posted stays at the front
//   to_host()  IP packets for TunPort::write
//   events()   rare: SA requests, instructions about queue pair, groups, MTU and carrier
// and arms one timer for next_deadline(). No call re-enters, blocks or throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ipoib/frame.hpp"
#include "ipoib/host_view.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/result.hpp"
#include "ipoib/time.hpp"
#include "ipoib/ud_port.hpp"
#include "link/config.hpp"
#include "link/counters.hpp"
#include "link/events.hpp"
#include "link/neighbour_info.hpp"
#include "wire/notice.hpp"

namespace ipoib::link {

/// Free octets that a frame for from_host() has before its packet.
inline constexpr std::size_t kHeadroom = 4;
/// Octets of the largest message that a link makes itself: a neighbour solicitation.
inline constexpr std::size_t kMessageSize = 92;

/// What a link works with; all of it outlives the link.
struct Surroundings {
  AddressHandleFactory& handles;
  FramePool& frames;  ///< for messages of its own; slots of at least kMessageSize octets
  Logger& log;
  wire::SaRequestId first_request{1};  ///< SA requests are numbered from here
};

class Link {
 public:
  /// `qpn` is that of the queue pair, which exists but need not be configured. `seed` is for
  /// jitter.
  Link(const Config& config, const Surroundings& around, Qpn qpn, std::uint64_t seed);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link();

  // --- Stimuli: port, queue pair, host ---------------------------------------------------------
  void on_port(const PortStatus& port, TimePoint now);
  /// The SM asks its clients to register again (IBA 14.4.11).
  void on_client_reregister(TimePoint now);
  /// The queue pair was made anew: in the state RESET, attached to the groups of the old one.
  void on_queue_pair(Qpn qpn, TimePoint now);
  /// ConfigureQueuePair was refused: the link goes down and starts over, later.
  void on_setup_failed(TimePoint now);
  /// AttachGroup was refused: the same for the broadcast group; another one is joined again later.
  void on_attach_failed(const Gid& mgid, TimePoint now);
  /// A link that has not heard of its host yet knows no addresses.
  void on_host_changed(const HostView& view, TimePoint now);
  /// The subnet administrator's report of a group or a port: traps 64 to 67. Another one is none of
  /// a link's business.
  void on_notice(const wire::Notice& notice, TimePoint now);
  /// Leaves the groups and lets go of all frames; nothing but draining comes after that.
  void shut_down(TimePoint now);

  // --- Stimuli: the SA -------------------------------------------------------------------------
  void on_response(const wire::SaResponse& response, TimePoint now);

  // --- Stimuli: packets; the frames are taken --------------------------------------------------
  /// IP packets of the host, each with kHeadroom octets before it.
  void from_host(std::span<Frame> batch, TimePoint now);
  void from_fabric(std::span<Incoming> batch, TimePoint now);

  // --- Stimuli: time ---------------------------------------------------------------------------
  /// Does what is due. Its cost is that of what is due, not of what exists.
  void tick(TimePoint now);
  /// When tick() has something to do; kNever when nothing.
  [[nodiscard]] TimePoint next_deadline() const;

  // --- To drain --------------------------------------------------------------------------------
  [[nodiscard]] std::vector<Outgoing>& sends();
  [[nodiscard]] std::vector<Frame>& to_host();
  [[nodiscard]] std::vector<Event>& events();

  // --- Administration --------------------------------------------------------------------------
  /// At most `limit` entries.
  [[nodiscard]] NeighbourPage list(NeighbourCursor from, std::size_t limit, TimePoint now) const;
  [[nodiscard]] std::optional<NeighbourInfo> get(const IpAddress& address, TimePoint now) const;
  /// Adds an entry, or replaces one, that ARP does not change and ageing does not end.
  [[nodiscard]] Result<void> set_permanent(const IpAddress& address, const HwAddress& hardware,
                                           TimePoint now);
  /// False when there is no such entry.
  bool remove(const IpAddress& address);
  /// Removes all entries but the permanent ones; returns how many.
  std::size_t flush();

  // --- State -----------------------------------------------------------------------------------
  [[nodiscard]] LinkState state() const;
  /// What bring-up waits for, as a phrase for a person; "nothing: the link is up" when it is.
  [[nodiscard]] std::string waiting_for() const;
  [[nodiscard]] HwAddress hardware_address() const;
  [[nodiscard]] std::uint32_t mtu() const;  ///< octets; 0 before the first join
  [[nodiscard]] QKey qkey() const;          ///< 0 before the first join
  [[nodiscard]] std::vector<GroupInfo> groups() const;
  [[nodiscard]] std::size_t neighbour_count() const;
  [[nodiscard]] const Counters& counters() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace ipoib::link
