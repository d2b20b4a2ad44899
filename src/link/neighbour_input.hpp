// Handles received ARP and Neighbour Discovery messages: updates the neighbour cache, and replies
// to ARP.
#pragma once

#include <map>

#include "ipoib/log_fwd.hpp"
#include "ipoib/token_bucket.hpp"
#include "link/announcer.hpp"
#include "link/arp_input.hpp"
#include "link/arp_output.hpp"
#include "link/claims.hpp"
#include "link/host_reports.hpp"
#include "link/nd_input.hpp"
#include "link/neighbour_table.hpp"
#include "link/path_table.hpp"
#include "link/solicitor.hpp"
#include "link/source_limit.hpp"

namespace ipoib::link {

class NeighbourInput {
 public:
  /// The parts of the link that messages concern; all outlive this object.
  struct Dependencies {
    const Config& config;
    const HwAddress& own;
    const HostAddresses& host;
    const Pins& pins;
    PathTable& paths;
    ArpOutput& arp;
    Announcer& announcer;
    Solicitor& solicitor;
    NeighbourTable& neighbours;
    HostReports& reports;
    Output& out;
    Logger& log;
  };

  NeighbourInput(const Dependencies& deps, const HashKey& key)
      : deps_(deps),
        claims_({deps.config, deps.pins, deps.out, deps.log}),
        reply_checks_(deps.config.limits.arp_reply_checks),
        proxy_checks_(deps.config.limits.arp_reply_checks / 5),
        probe_replies_(deps.config.limits.solicitations / 4),
        known_stations_(deps.config.limits.station_requests),
        unknown_stations_(deps.config.limits.station_requests),
        sources_(deps.config.limits.paths_per_source, key) {}

  /// `datagram` begins with the encapsulation header.
  void receive_arp(const Incoming& datagram, TimePoint now);
  /// The host's routes permit a reply to this request, which receive_arp() has asked about.
  void reply_to_arp(const wire::Arp& request, TimePoint now);
  void reply_to_probe(const wire::Arp& request, TimePoint now);
  /// Takes an ND message without encapsulation header. Updates the cache, and removes the
  /// link-layer options, which the host's kernel does not understand. Returns false if it drops the
  /// message, and counts it.
  [[nodiscard]] bool receive_discovery(Incoming& datagram, TimePoint now);
  /// Compares the datagram's LID with that of the sender's path, which may be outdated.
  void check_source(const Neighbour& sender, const Incoming& datagram, TimePoint now);

 private:
  [[nodiscard]] Neighbour* find_or_create(const IpAddress& address);
  /// Applies an update to the cache; returns false if a limit forbids it.
  bool apply(const NeighbourUpdate& update, const Incoming& datagram, TimePoint now);
  [[nodiscard]] bool admits_path(const IpAddress& sender, const HwAddress& hardware,
                                 const Incoming& datagram, TimePoint now);
  void set_address(Neighbour& sender, const HwAddress& hardware, Evidence evidence,
                   const Incoming& datagram, TimePoint now);
  void respond(const wire::Arp& request, const Incoming& datagram, TimePoint now);
  void ask_routes(const wire::Arp& request, const Incoming& datagram, TimePoint now);
  void answer_as_proxy(const wire::Arp& request, const Incoming& datagram, TimePoint now);
  void learn(Neighbour& sender, const wire::Arp& message, Evidence evidence,
             const Incoming& datagram, TimePoint now);
  void update_known(const wire::Arp& message, const Incoming& datagram, TimePoint now);
  void receive_reply(const wire::Arp& reply, const Incoming& datagram, TimePoint now);
  void pass_on(const wire::Arp& request, TimePoint now);
  void report(const IpAddress& address, const HwAddress& hardware);
  void log_duplicate(const wire::Arp& message, TimePoint now);

  Dependencies deps_;
  Claims claims_;
  TokenBucket reply_checks_;
  TokenBucket proxy_checks_;  ///< of them for addresses that are not known to be proxied
  TokenBucket probe_replies_;
  TokenBucket known_stations_;                  ///< requests for addresses of stations
  TokenBucket unknown_stations_;                ///< requests for all others
  SourceLimit sources_;                         ///< of requests for paths
  std::map<Ipv4Address, LogPause> duplicates_;  ///< of the host's addresses
};

}  // namespace ipoib::link
