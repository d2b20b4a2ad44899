// How a new daemon takes over from a running one (ipoibd --takeover), without a pause for the
// hosts:
//
//   new                                     old
//   Hello            ------------------->            on the socket "handover" of an interface
//                    <-------------------   Offer, then for each interface: its TUN, statics,
//                                           send-only groups, stations, neighbours with paths;
//                                           Complete
//   opens the TUNs, but does not serve
//   them (PumpMode::held); its links come
//   up beside the old ones, with queue
//   pairs and groups
//   Ready            ------------------->   stops to serve (PumpMode::retired): reads no TUN,
//                                           answers no ARP; tells subscribers, and closes its
//                                           control sockets
//                    <-------------------   Released
//   serves the TUNs and stations, and       passes on what peers still send to its queue pairs;
//   announces the new queue pairs           ends a few seconds later
//
// The memberships in groups are counted by SharedMemberships, so the old daemon leaves none that
// the new one has. If the new one dies, the old one goes on, or serves again. If the old one dies,
// the new one serves at once. Each of them refuses what it does not understand, and then both are
// as before.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <vector>

#include "control/neighbour_file.hpp"
#include "daemon/interfaces/handover_socket.hpp"
#include "daemon/interfaces/partition_interface.hpp"
#include "daemon/options/interface_plan.hpp"
#include "daemon/pump/handover_steps.hpp"
#include "ipoib/file_descriptor.hpp"
#include "ipoib/log_fwd.hpp"

namespace ipoib::daemon {

/// An interface that another daemon hands over.
struct HandedInterface {
  FileDescriptor tun;
  std::uint32_t mtu = 0;      ///< that the other daemon has set, in bytes; 0: none
  SharedNamespace home = {};  ///< of the TUN; null: that of the option --netns
  std::vector<control::StaticNeighbour> statics = {};
  SavedCache cache = {};
};
using HandedInterfaces = std::map<PKey, HandedInterface>;

namespace handover {

/// Puts together what the old daemon sends. Everything is bounded.
class Assembly {
 public:
  static constexpr std::size_t kMaxNeighbours = 1048576;  ///< of an interface, as of --neighbours
  static constexpr std::size_t kMaxStatics = 2 * control::kMaxStaticNeighbours;
  static constexpr std::size_t kMaxSendGroups = 1024;
  /// Addresses of stations of an interface: four for each of --ethernet-stations.
  static constexpr std::size_t kMaxStations = 262144;
  static constexpr std::size_t kMaxStationGroups = 1024;

  /// Takes the next message. Returns whether it was the last one; the error is for the operator:
  /// that of a Refusal, or EPROTO.
  [[nodiscard]] Result<bool> add(Received&& received);
  [[nodiscard]] const std::optional<Offer>& offer() const { return offer_; }
  [[nodiscard]] HandedInterfaces& interfaces() { return interfaces_; }

 private:
  [[nodiscard]] Result<bool> take(Interface& interface, FileDescriptor&& tun);
  [[nodiscard]] Result<bool> take(Statics& statics);
  [[nodiscard]] Result<bool> take(Neighbours& neighbours);
  [[nodiscard]] Result<bool> take(SendGroups& groups);
  [[nodiscard]] Result<bool> take(Stations& stations);
  [[nodiscard]] Result<bool> take(StationGroups& groups);

  std::optional<Offer> offer_;
  HandedInterfaces interfaces_;
  HandedInterface* current_ = nullptr;  ///< the one that was begun last
};

/// What the new daemon has after Complete.
struct Handover {
  Connection connection;
  Offer offer;
  HandedInterfaces interfaces;
};

/// What a daemon on this port wants, or serves.
[[nodiscard]] Hello hello_of(const verbs::Device& device, std::vector<PKey> pkeys);

/// Asks the daemon of the port that `wanted` names for its interfaces. Called in the network
/// namespace of the interfaces. Returns nullopt if there is none, or it ends meanwhile. Throws
/// std::runtime_error with the reason if it refuses, or if a handover `is_required` and there is
/// none. `patience` is for each message of that daemon.
[[nodiscard]] std::optional<Handover> request_handover(
    const Hello& wanted, bool is_required, Logger& log,
    std::chrono::milliseconds patience = std::chrono::seconds(10));

}  // namespace handover
}  // namespace ipoib::daemon
