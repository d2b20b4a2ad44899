// The protocol of one IPoIB link (RFC 4391): bring-up, neighbours, paths, groups.
//
// A Link has no descriptor, no clock and no thread. Its owner, the pump of an interface, calls one
// method per stimulus with the time, then drains the output that the call has appended:
//   sends()    datagrams for UdPort::send; those that could not be posted stay at the front
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
#include "ipoib/keyed_hash.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/result.hpp"
#include "ipoib/route_changes.hpp"
#include "ipoib/time.hpp"
#include "ipoib/ud_port.hpp"
#include "link/changes.hpp"
#include "link/config.hpp"
#include "link/counters.hpp"
#include "link/events.hpp"
#include "link/neighbour_statistics.hpp"
#include "link/output.hpp"
#include "link/saved_cache.hpp"
#include "wire/arp.hpp"
#include "wire/notice.hpp"

namespace ipoib::link {

class HostRoutes;

class Link {
 public:
  /// All of these outlive the link.
  struct Dependencies {
    AddressHandleFactory& handles;
    FramePool& messages;  ///< for messages of the link; slots of at least kMessageSize bytes
    FramePool& packets;   ///< for fragments; slots of the link's MTU and kHeadroom bytes
    Logger& log;
    HashKey hash_key;                             ///< of tables whose keys strangers choose; secret
    wire::SaRequestId first_request{};            ///< SA requests are numbered from here
    const ArpPolicySource* arp_policy = nullptr;  ///< null: the policy is that of the HostView
  };

  /// `qpn` names an existing queue pair, which need not be configured. `seed` is for jitter.
  Link(const Config& config, const Dependencies& deps, Qpn qpn, std::uint64_t seed);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link();

  // --- Stimuli: port, queue pair, host ---------------------------------------------------------
  void on_port(const PortStatus& port, TimePoint now);
  /// The SM has asked its clients to register again (IBA 14.4.11).
  void on_client_reregister(TimePoint now);
  /// The queue pair was recreated: it is in RESET, and attached to the groups of the old one.
  void on_queue_pair(Qpn qpn, TimePoint now);
  /// ConfigureQueuePair failed: the link goes down and joins again later.
  void on_setup_failed(TimePoint now);
  /// AttachGroup failed. If it was for the broadcast group, the link goes down and joins again
  /// later; another group is joined again later.
  void on_attach_failed(const Gid& mgid, TimePoint now);
  /// The host's configuration has changed; until the first call the link knows no addresses of the
  /// host. `routes` are those of the view, and may be shared with links that get the same changes;
  /// if null, the link takes them from the view.
  void on_host_changed(const HostView& view, TimePoint now,
                       std::shared_ptr<HostRoutes> routes = nullptr);
  /// Changes since the last HostView, in order; RoutesUnknown is followed by a new one.
  void on_routes_changed(std::span<const RouteChange> changes, TimePoint now);
  /// Sends the reply that an ArpReplyCheck has asked about, or that answers one of
  /// station_requests().
  void reply_to_arp(const wire::Arp& request, TimePoint now);
  /// A report of the SA about a group or a port: traps 64 to 67. Others are ignored.
  void on_notice(const wire::Notice& notice, TimePoint now);
  /// Announces the host's addresses if the link is up: the host's packets come here from now on.
  void announce(TimePoint now);
  void shut_down(TimePoint now);  ///< leaves the groups, releases all frames; only draining follows

  // --- Stimuli: the SA -------------------------------------------------------------------------
  void on_response(const wire::SaResponse& response, TimePoint now);

  // --- Stimuli: packets; takes the frames ------------------------------------------------------
  /// IP packets of the host, each with kHeadroom bytes before it. `hops` is empty, or has the next
  /// hop of each packet; where that is nullopt, the link chooses it by the host's routes.
  void from_host(std::span<Frame> batch, TimePoint now,
                 std::span<const std::optional<IpAddress>> hops = {});
  void from_fabric(std::span<Incoming> batch, TimePoint now);

  /// The host wants to know the hardware address of a neighbour, or to confirm it: solicits it. If
  /// it responds, it is in known_neighbours().
  void solicit(const IpAddress& address, TimePoint now);

  // --- Stimuli: stations behind the host, which have addresses of their own ---------------------
  /// The link speaks for this address from now on: announces it, sends from it, and learns from
  /// requests for it what neighbours say about themselves. Another call changes `is_router` (of
  /// IPv6), and announces the address again.
  void serve(const IpAddress& address, bool is_router, TimePoint now);
  void withdraw(const IpAddress& address);
  /// Asks all hosts once for the address of a station that no longer answers. If one has it, it is
  /// in known_neighbours(). The caller limits the rate.
  void search(const IpAddress& address, TimePoint now);
  /// The multicast groups that stations listen to; the link is a member of them as of the host's.
  void set_station_groups(std::vector<IpAddress> groups, TimePoint now);

  // --- Stimuli: time ---------------------------------------------------------------------------
  /// Runs expired timers. The cost depends on their number, not on the size of the tables.
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const;  ///< for tick(); kNever if no timer runs

  // --- To drain --------------------------------------------------------------------------------
  [[nodiscard]] std::vector<Outgoing>& sends();
  [[nodiscard]] std::vector<Frame>& to_host();
  [[nodiscard]] std::vector<Event>& events();
  /// What neighbours have said since the list was drained, also about served addresses; empty
  /// unless Config::reports_neighbours.
  [[nodiscard]] std::vector<KnownNeighbour>& known_neighbours();
  /// ARP requests of neighbours for addresses that are not the host's: a station may have them. The
  /// link answers none of them by itself.
  [[nodiscard]] std::vector<wire::Arp>& station_requests();
  [[nodiscard]] Changes& changes();  ///< for those who watch
  [[nodiscard]] ChangePage take_changes(std::size_t limit, TimePoint now);

  // --- Administration --------------------------------------------------------------------------
  /// At most `limit` entries.
  [[nodiscard]] NeighbourPage list(NeighbourCursor from, std::size_t limit, TimePoint now) const;
  [[nodiscard]] std::optional<NeighbourInfo> get(const IpAddress& address, TimePoint now) const;
  /// Adds or replaces an entry; it does not age, and ARP and ND do not change it. Ends a pin.
  [[nodiscard]] Result<void> set_permanent(const IpAddress& address, const HwAddress& hardware,
                                           TimePoint now);
  /// Adds or replaces a pin: the address may have this GID only. Ends an entry with another one.
  [[nodiscard]] Result<void> pin(const IpAddress& address, const Gid& gid);
  /// Starts to resolve a neighbour, as a packet to it does, unless that is under way; get() then
  /// shows how far it is. Fails with EINVAL if no neighbour can have the address, ENETUNREACH if
  /// the routes of the interface do not lead to it or lead to a gateway, EHOSTUNREACH if the SA
  /// knows no path to it, and ENOBUFS if a limit forbids it.
  [[nodiscard]] Result<void> resolve(const IpAddress& address, TimePoint now);
  bool remove(const IpAddress& address);  ///< entry and pin; returns false if there is neither
  bool remove_entry(const IpAddress& address);  ///< not the pin
  std::size_t flush();  ///< removes all but permanent entries and pins; returns how many

  // --- Handover to the link of another daemon on the same port and partition -------------------
  /// At most `limit` neighbours.
  [[nodiscard]] SavedPage save(NeighbourCursor from, std::size_t limit, TimePoint now) const;
  /// Adds what another link has saved, without sending anything but SA requests for groups. Call it
  /// while the link is up. Ignores entries that are invalid here, and those that need an eviction.
  /// Returns how many neighbours were added.
  std::size_t restore(const SavedPage& saved, TimePoint now);
  /// Whether waiting changes nothing: the link is up, and each of its groups was joined or refused,
  /// or the port is not ready.
  [[nodiscard]] bool is_settled() const;

  // --- State -----------------------------------------------------------------------------------
  [[nodiscard]] LinkState state() const;
  /// What bring-up waits for, as a phrase for the operator.
  [[nodiscard]] std::string waiting_for() const;
  [[nodiscard]] HwAddress hardware_address() const;
  [[nodiscard]] std::uint32_t mtu() const;  ///< bytes; 0 before the first join
  [[nodiscard]] QKey qkey() const;          ///< 0 before the first join
  /// The rate of the broadcast group as an IBA code; 0 unless a member.
  [[nodiscard]] std::uint8_t group_rate() const;
  [[nodiscard]] std::vector<GroupInfo> groups() const;
  [[nodiscard]] std::size_t neighbour_count() const;
  [[nodiscard]] std::size_t unrouted_count() const;  ///< packets that wait for a route
  [[nodiscard]] const NeighbourStatistics& neighbour_statistics() const;
  [[nodiscard]] const Counters& counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ipoib::link
