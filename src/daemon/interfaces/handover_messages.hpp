// What two daemons of one port say to each other when the new one takes over: values and their form
// in bytes. handover.hpp describes the procedure.
//
//   magic (4) | type (1) | reserved (3) | contents
//
// Numbers are in network order. Each message is one datagram of a socket of the type
// SOCK_SEQPACKET. A reader ignores what follows the contents that it knows; records tell their
// size, so that a later version can extend them, too. A change that is not such an extension takes
// a new version.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "control/neighbour_file.hpp"
#include "daemon/pump/port_selection.hpp"
#include "ethernet/station_page.hpp"
#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"
#include "ipoib/result.hpp"
#include "link/saved_cache.hpp"

namespace ipoib::daemon::handover {

inline constexpr std::uint16_t kVersion = 2;
/// The first version that has Stations and StationGroups.
inline constexpr std::uint16_t kVersionOfStations = 2;
/// The oldest version that this daemon can speak.
inline constexpr std::uint16_t kOldestVersion = 1;

inline constexpr std::size_t kMaxMessage = 32U << 10;  ///< bytes
inline constexpr std::size_t kMaxText = 256;           ///< bytes of a text
/// Records in a message; those of the largest kind fit.
inline constexpr std::size_t kMaxRecords = 256;

/// From the new daemon: what it is, and what it wants to serve.
struct Hello {
  std::uint16_t oldest = kOldestVersion;
  std::uint16_t newest = kVersion;
  std::string program_version = {};
  std::string device = {};
  std::uint8_t port = 0;
  Guid guid = {};                ///< of the port
  std::vector<PKey> pkeys = {};  ///< chosen partitions; empty: all
  friend bool operator==(const Hello&, const Hello&) = default;
};
/// From either: the handover is over, and both daemons are as before.
struct Refusal {
  int code = 0;  ///< errno value; ENODEV: another port or partition, so that other daemons may fit
  std::string text;
  friend bool operator==(const Refusal&, const Refusal&) = default;
};
/// From the old daemon: what it will send.
struct Offer {
  std::uint16_t version = kVersion;  ///< which both speak
  std::uint32_t pid = 0;
  std::string program_version = {};
  std::vector<std::pair<PKey, std::string>> added = {};  ///< interfaces that the operator has added
  std::vector<PKey> deleted = {};                        ///< those that the operator has deleted
  friend bool operator==(const Offer&, const Offer&) = default;
};
/// Begins an interface. The message carries the descriptor of its TUN.
struct Interface {
  PKey pkey;
  std::uint32_t mtu = 0;  ///< that the old daemon has set, in bytes; 0: none
  SavedSelection selection = {};
  friend bool operator==(const Interface&, const Interface&) = default;
};
/// Static neighbours of the interface that was begun last. Neighbours, SendGroups, Stations and
/// StationGroups are about it, too.
struct Statics {
  std::vector<control::StaticNeighbour> neighbours;
  friend bool operator==(const Statics&, const Statics&) = default;
};
struct Neighbours {
  std::vector<link::SavedNeighbour> neighbours;
  friend bool operator==(const Neighbours&, const Neighbours&) = default;
};
struct SendGroups {
  std::vector<Gid> mgids;
  friend bool operator==(const SendGroups&, const SendGroups&) = default;
};
/// Everything was sent.
struct Complete {
  friend bool operator==(const Complete&, const Complete&) = default;
};
/// From the new daemon: it can serve these interfaces at once, and no others.
struct Ready {
  std::vector<PKey> pkeys;
  friend bool operator==(const Ready&, const Ready&) = default;
};
/// From the old daemon: it has stopped to serve them.
struct Released {
  friend bool operator==(const Released&, const Released&) = default;
};
/// Addresses of stations behind the TAP that the old daemon serves.
struct Stations {
  std::vector<ethernet::SavedStation> stations;
  friend bool operator==(const Stations&, const Stations&) = default;
};
/// Multicast groups that they listen to.
struct StationGroups {
  std::vector<ethernet::SavedGroup> groups;
  friend bool operator==(const StationGroups&, const StationGroups&) = default;
};
using Message = std::variant<Hello, Refusal, Offer, Interface, Statics, Neighbours, SendGroups,
                             Complete, Ready, Released, Stations, StationGroups>;

/// At most kMaxMessage bytes. Cuts off texts that are too long. Requires at most kMaxRecords in
/// each list.
[[nodiscard]] std::vector<std::uint8_t> emit(const Message& message);
/// The error is for the log. Texts have only printable characters of ASCII.
[[nodiscard]] Result<Message> parse(ConstBytes bytes);

}  // namespace ipoib::daemon::handover
