// The part of the view that deals with stations: with their frames, and with requests of the fabric
// for them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ethernet/fabric_requests.hpp"
#include "ethernet/station_dependencies.hpp"
#include "ethernet/station_multicast.hpp"
#include "ethernet/station_table.hpp"
#include "wire/arp.hpp"
#include "wire/ethernet.hpp"
#include "wire/neighbour_discovery.hpp"

namespace ipoib::ethernet {

class Stations {
 public:
  using Dependencies = StationDependencies;
  /// The number of addresses for which a station that has arrived is asked at once.
  static constexpr std::size_t kAskedOnArrival = 128;
  // The rates of all stations per second; see StationBudget.
  static constexpr std::uint32_t kArrivals = 20;
  static constexpr std::uint32_t kGuesses = 20;

  /// `limit` is the maximum number of stations. With `strict`, a packet from an address that
  /// another station has is dropped.
  Stations(std::size_t limit, bool strict, const HashKey& key, const Dependencies& deps);

  // --- Stimuli ---------------------------------------------------------------------------------
  // The frame of a station goes on to the link, or an ARP or ND request to the fabric, if the
  // function returns true. Otherwise it was for the view alone, or was dropped and counted.

  /// A station has sent an IP packet.
  [[nodiscard]] bool receive(const wire::EthernetHeader& header, ConstBytes packet, TimePoint now);
  /// The host has sent a report of IGMP or MLD, which may be about another interface at the TAP
  /// than the link's. keepalived sends those of its macvlan interfaces like those of the interface
  /// itself.
  void receive_host_report(ConstBytes packet, TimePoint now);
  [[nodiscard]] bool receive_arp(const wire::EthernetHeader& header,
                                 const wire::EthernetArp& message, TimePoint now);
  /// A station has sent a Neighbour Discovery message; to call before receive().
  [[nodiscard]] bool receive_discovery(const wire::EthernetHeader& header,
                                       const wire::NdMessage& message, TimePoint now);
  /// A station has arrived behind another port of a bridge, or another bridge, and says only that
  /// (RARP, as QEMU sends it): it is asked whether it has an address of a neighbour.
  void on_arrival(MacAddress station, TimePoint now);
  /// An ARP request of the fabric for an address that is not the host's.
  void on_request(const wire::Arp& request, TimePoint now);
  /// A host of the fabric says that it has the address. Returns whether a station keeps it.
  [[nodiscard]] bool on_fabric(const IpAddress& address, const HwAddress& host, TimePoint now);
  /// The host or a station asks for the address. Returns whether a station here has it.
  [[nodiscard]] bool on_asked(const IpAddress& address, TimePoint now);
  /// A packet goes to the address of an entry, which mostly changes nothing; for the fast path.
  void on_packet(StationAddress& entry, TimePoint now) {
    if (entry.is_silent(now)) table_.on_packet(entry, now);
  }
  /// The host's configuration has changed; its interfaces no longer have the addresses `gone`.
  void on_host_changed(const std::vector<LinkAddress>& gone, TimePoint now);
  /// Serves what another daemon of the interface has served until now.
  void restore(std::span<const SavedStation> saved, TimePoint now);
  void restore(std::span<const SavedGroup> saved, TimePoint now) {
    for (const SavedGroup& each : saved) multicast_.restore(each, now);
  }
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const {
    return std::min(table_.next_deadline(), multicast_.next_deadline());
  }

  /// Whether a frame of a station to a MAC where the destination no longer is may cause an answer,
  /// or a request (to a known neighbour, or else to all).
  [[nodiscard]] bool may_correct(MacAddress station, bool is_known, TimePoint now);

  // --- State and output ------------------------------------------------------------------------
  /// Whether a station has sent from this MAC.
  [[nodiscard]] bool has(MacAddress mac) const { return table_.has(mac); }
  /// The entry of an address whose packets go to its station, or null; valid as long as version()
  /// is the same.
  [[nodiscard]] StationAddress* receiver(const IpAddress& address) const;
  /// See StationTable.
  [[nodiscard]] bool has_addresses(MacAddress mac) const { return table_.has_addresses(mac); }
  /// The station that gets packets to this address.
  [[nodiscard]] std::optional<MacAddress> mac_of(const IpAddress& address) const {
    const StationAddress* const entry = receiver(address);
    return entry != nullptr ? std::optional(entry->mac()) : std::nullopt;
  }
  [[nodiscard]] const StationTable& table() const { return table_; }
  [[nodiscard]] std::uint64_t version() const { return table_.version(); }
  // The caller takes these out; replies() are to requests of the fabric, searches() addresses that
  // the link is to search though it speaks for them.
  [[nodiscard]] std::vector<StationOutput::Service>& services() { return services_; }
  [[nodiscard]] std::vector<wire::Arp>& replies() { return replies_; }
  [[nodiscard]] std::vector<IpAddress>& searches() { return table_.out().searches; }
  [[nodiscard]] std::vector<StationEvent>& events() { return events_; }
  /// See StationMulticast::take_groups().
  [[nodiscard]] std::optional<std::vector<IpAddress>> take_groups() {
    return multicast_.take_groups(table_);
  }
  [[nodiscard]] StationMulticast& multicast() { return multicast_; }
  [[nodiscard]] const StationMulticast& multicast() const { return multicast_; }

 private:
  using Header = wire::EthernetHeader;

  [[nodiscard]] bool admit_source(MacAddress mac, const IpAddress& source, bool is_strict,
                                  TimePoint now);
  [[nodiscard]] bool receive_multicast(const Header& header, const IpAddress& group,
                                       ConstBytes packet, TimePoint now);
  [[nodiscard]] bool may_have(MacAddress mac, const IpAddress& address) const;
  /// Returns the entry of an address that the station claims; null if it may not, and counts why.
  /// With `is_request` the message only comes from the address, and does not announce it.
  [[nodiscard]] StationAddress* claim(StationBudget& station, const IpAddress& address,
                                      bool is_request, TimePoint now);
  /// Counts a dropped frame. Returns false.
  bool drop(std::uint64_t StationCounters::*why);
  void settle(TimePoint now);
  void probe(const StationOutput::Probe& probe);
  void serve(const StationOutput::Service& service);
  /// Has the link announce an address again, as its station does: neighbours may have missed it.
  void announce_again(const StationAddress& entry) {
    services_.push_back({entry.address(), entry.is_router(), true});
  }
  void on_moved_out(const StationEvent& event);

  Dependencies deps_;
  bool strict_;
  StationTable table_;
  FabricRequests requests_;
  StationMulticast multicast_;
  TokenBucket arrivals_{kArrivals};
  TokenBucket guesses_{kGuesses};
  std::vector<StationOutput::Service> services_;
  std::vector<wire::Arp> replies_;
  std::vector<StationEvent> events_;
  // The last result, since packets of one flow follow each other.
  struct {
    MacAddress mac;
    IpAddress source;
    StationAddress* entry = nullptr;
    std::uint64_t version = 0;
  } last_;
};

}  // namespace ipoib::ethernet
