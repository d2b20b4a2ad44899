// The commands. Most return the text to print.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client.hpp"
#include "command.hpp"
#include "findings.hpp"
#include "metrics/families.hpp"

namespace ipoib::ibarp {

/// Entries of one interface: all, or the one of the given address.
struct Listing {
  std::string interface;
  std::vector<ibarp_entry> entries;
};
[[nodiscard]] Listing look_up(const Client& client, const Command& command);
[[nodiscard]] std::string show(const std::vector<Listing>& listings, const Command& command);

/// A multicast group and, if known, its members.
struct GroupLine {
  ibarp_group group;
  std::optional<std::vector<ibarp_member>> members;
};
/// The multicast groups of one interface.
struct GroupListing {
  std::string interface;
  std::vector<GroupLine> groups;
  std::string members_unknown;  ///< the reason, as text; empty if there is nothing to say
};
/// The address of the broadcast group, which is for all hosts of the link.
inline constexpr ibarp_address kBroadcast{AF_INET, {0xff, 0xff, 0xff, 0xff}};
/// The group of an IP address; null if there is none.
[[nodiscard]] const ibarp_group* find_group(const std::vector<ibarp_group>& groups,
                                            const ibarp_address& address);
[[nodiscard]] GroupListing list_groups(const Client& client, const Command& command);
[[nodiscard]] std::string groups(const std::vector<GroupListing>& listings, const Command& command);

/// The addresses of stations behind one interface.
struct StationListing {
  std::string interface;
  std::vector<ibarp_station> stations;
};
[[nodiscard]] std::string stations(const std::vector<StationListing>& listings,
                                   const Command& command);

/// Runs add, change, replace and delete, which print nothing.
void change(const Client& client, const Command& command);
/// Sets the entries and pins of a file.
void load(const Client& client, const Command& command);

/// Whether the port is a limited member of the partition.
[[nodiscard]] bool is_limited(const ibarp_info& info);
/// Lists interfaces from their information.
[[nodiscard]] std::string interfaces(const std::vector<ibarp_info>& infos, const Command& command);
/// An interface whose daemon is to add another one. Throws Failure if several daemons run.
[[nodiscard]] Client daemon_of(const Command& command);
[[nodiscard]] std::string add_interface(const Client& client, const Command& command);
void delete_interface(const Client& client);

/// Moves the interface to another of its ports.
void fail_over(const Client& client, const Command& command);

/// Metrics of the interfaces, and why some are missing, as lines for the user.
struct Metrics {
  metrics::Families families;
  std::vector<std::string> problems;
};
/// Does not throw Failure for an interface whose daemon does not respond.
[[nodiscard]] Metrics collect_metrics(const Command& command);
/// Serves metrics over HTTP until a signal ends it.
void serve_metrics(const Command& command);

/// One interface's part of a report; with --json, a JSON object without a newline.
[[nodiscard]] std::string flush(const Client& client, const Command& command);
[[nodiscard]] std::string stats(const Client& client, const Command& command);
[[nodiscard]] std::string log_levels(const Client& client, const Command& command);
[[nodiscard]] std::string trace(const Client& client, const Command& command);
[[nodiscard]] std::string info(const Client& client, const Command& command);

/// Says what keeps packets from the address of the command from this host. Throws Failure.
[[nodiscard]] Findings explain_sender(const Command& command);
/// Reaches the address of the command step by step: ARP or Neighbour Discovery, path, ICMP echo
/// with this sequence number. Throws Failure.
[[nodiscard]] Findings probe(const Command& command, std::uint16_t sequence);

/// The first interface of each daemon, by its process.
using SavedDaemons = std::map<std::uint32_t, std::string>;
/// Commands for --batch that set again what was set of the interface at run time. `daemons` has
/// those of the interfaces before.
[[nodiscard]] std::string save(const Client& client, SavedDaemons& daemons);

/// Writes the archive of a report about a problem to the file --output, or to one in the current
/// folder, and returns a line with its name; for "-", returns the archive. Throws Failure.
[[nodiscard]] std::string bug_report(const Command& command);

/// Checks the interface, its port, its partition and its subnet.
[[nodiscard]] Findings check(const Client& client);
/// Says where packets to the address of the command go, and what keeps them from arriving. Resolves
/// the neighbour if the cache does not know it. Throws Failure.
[[nodiscard]] Findings explain(const Command& command);

}  // namespace ipoib::ibarp
