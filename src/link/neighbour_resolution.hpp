// The neighbours of a link: the cache and the paths that it uses, the ARP and Neighbour Discovery
// messages that fill it and announce the host, and the operator's commands about it.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "link/announcer.hpp"
#include "link/host_reports.hpp"
#include "link/icmp_errors.hpp"
#include "link/nd_output.hpp"
#include "link/neighbour_input.hpp"
#include "link/neighbour_table.hpp"
#include "link/path_table.hpp"
#include "link/pins.hpp"
#include "link/saved_cache.hpp"
#include "link/solicitor.hpp"

namespace ipoib::link {

class NeighbourResolution {
 public:
  /// All of these outlive this object.
  struct Dependencies {
    const Config& config;
    const HwAddress& own;
    HostAddresses& host;
    const Group& broadcast;
    MulticastOutput& multicast;
    AddressHandleFactory& handles;
    FramePool& messages;  ///< for messages of the link
    FramePool& packets;   ///< for fragments
    ParkingBudget& parking;
    Output& out;
    RequestIds& ids;
    Random& random;
    Logger& log;
  };

  /// The key is for tables whose keys strangers choose.
  NeighbourResolution(const Dependencies& deps, const HashKey& key);
  NeighbourResolution(const NeighbourResolution&) = delete;
  NeighbourResolution& operator=(const NeighbourResolution&) = delete;

  // What the way of a packet uses.
  [[nodiscard]] NeighbourTable& table() { return table_; }
  [[nodiscard]] Solicitor& solicitor() { return solicitor_; }
  [[nodiscard]] IcmpErrors& icmp() { return icmp_; }
  [[nodiscard]] NeighbourInput& input() { return input_; }
  [[nodiscard]] HostReports& reports() { return reports_; }

  // --- Stimuli ---------------------------------------------------------------------------------
  /// The port that paths begin at.
  void set_source(const PathSource& source) { paths_.set_source(source); }
  void invalidate_paths(std::string_view why) { paths_.invalidate_all(why); }
  void go_down(TimePoint now);
  /// Removes all entries, and drops their packets as those of a link that is down.
  void clear() { table_.clear(Counter::drop_link_down); }
  /// Announces all addresses of the host, or one.
  void announce(TimePoint now) { announcer_.start_all(now); }
  void announce(const IpAddress& address, TimePoint now) { announcer_.start(address, now); }
  void announce_again(const IpAddress& address, TimePoint now) { announcer_.repeat(address, now); }
  /// The SA has reported that a port came into service or went out of it (traps 64 and 65).
  void on_in_service(const Gid& gid, TimePoint now) { paths_.on_in_service(gid, now); }
  void on_out_of_service(const Gid& gid, TimePoint now) { paths_.on_out_of_service(gid, now); }
  /// Returns false if the response is not for a path.
  [[nodiscard]] bool on_response(const wire::SaResponse& response, TimePoint now);
  /// See Link::reply_to_arp().
  void reply_to_arp(const wire::Arp& request, TimePoint now);
  /// The host's addresses have changed: removes the entries of those that are now the host's own or
  /// broadcast addresses.
  void on_host_changed();
  /// Removes the entry of an address that is this host's, or a station's behind it.
  void remove_own(const IpAddress& address);
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const {
    return std::min({announcer_.next_deadline(), table_.next_deadline(), paths_.next_deadline(),
                     reports_.next_deadline()});
  }

  // --- Administration; see Link ----------------------------------------------------------------
  [[nodiscard]] NeighbourPage list(NeighbourCursor from, std::size_t limit, TimePoint now) const;
  [[nodiscard]] std::optional<NeighbourInfo> get(const IpAddress& address, TimePoint now) const;
  [[nodiscard]] Result<void> set_permanent(const IpAddress& address, const HwAddress& hardware,
                                           TimePoint now);
  [[nodiscard]] Result<void> pin(const IpAddress& address, const Gid& gid);
  [[nodiscard]] bool has(const IpAddress& address) const { return table_.find(address) != nullptr; }
  /// Uses the path of an entry that has an address, which requests it if necessary. Returns
  /// nullopt if there is no such entry.
  [[nodiscard]] std::optional<PathTable::Condition> use_path(const IpAddress& address,
                                                             TimePoint now);
  bool remove(const IpAddress& address);
  bool remove_entry(const IpAddress& address);
  std::size_t flush() { return table_.flush(); }
  /// Adds the GID that the neighbour's address is pinned to.
  void add_pin(NeighbourInfo& neighbour) const;
  [[nodiscard]] std::size_t size() const { return table_.size(); }
  [[nodiscard]] const NeighbourStatistics& statistics() const { return statistics_; }

  // --- Handover; see Link ----------------------------------------------------------------------
  /// Goes on from `slot`, as NeighbourTable::save().
  [[nodiscard]] std::vector<SavedNeighbour> save(std::optional<std::uint32_t>& slot,
                                                 std::size_t limit, TimePoint now) const {
    return table_.save(slot, limit, now);
  }
  std::size_t restore(std::span<const SavedNeighbour> saved, TimePoint now);

 private:
  void report_pin(NeighbourChange::Kind kind, const NeighbourInfo& neighbour);

  Dependencies deps_;
  NeighbourStatistics statistics_;
  PathTable paths_;
  HostReports reports_;
  ArpOutput arp_;
  NdOutput nd_;
  Solicitor solicitor_;
  IcmpErrors icmp_;
  NeighbourTable table_;
  Announcer announcer_;
  Pins pins_;
  NeighbourInput input_;
};

}  // namespace ipoib::link
