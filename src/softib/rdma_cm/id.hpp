// An RDMA CM ID: docs/states.md, "RDMA CM ID".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ipoib/result.hpp"
#include "ipoib/time.hpp"
#include "softib/cm/events.hpp"
#include "softib/rdma_cm/events.hpp"
#include "wire/path_record.hpp"
#include "wire/psn.hpp"

namespace softib::rdma_cm {

enum class IdState : std::uint8_t {
  idle,
  address_bound,
  address_query,
  address_resolved,
  route_query,
  route_resolved,
  connect,  ///< from connect() on, or from the request of a peer on
  disconnected,
  listen,
};
[[nodiscard]] std::string_view name(IdState state);

/// Transport service of the queue pair of an ID. With XRC its two ends have queue pairs of
/// different types.
enum class Service : std::uint8_t {
  reliable,
  unreliable,
  datagram,
  extended_initiator,
  extended_target
};

struct Id;
/// Whether the ID leaves the port number to IDs of other families. IPv4 always does.
[[nodiscard]] bool is_family_only(const Id& id, const Address& address);

/// The data of an ID, which Manager keeps consistent.
struct Id {
  IdHandle handle;
  ChannelId channel;
  std::uint64_t uid = 0;  ///< 0: a request that its user has not accepted yet
  PortSpace space = PortSpace::tcp;
  PortSpace bound_space = PortSpace::tcp;  ///< of an address of AF_IB: the one in its service ID
  bool has_port = false;                   ///< in Ports
  Service service = Service::reliable;
  IdState state = IdState::idle;

  Address source;
  Address destination;
  std::optional<LocalPort> local;  ///< once it is bound to one
  Gid dgid;
  PKey pkey;
  std::optional<wire::PathRecord> path;
  /// In state ADDR_QUERY, the time to look for the destination for the last time.
  ipoib::TimePoint deadline = ipoib::kNever;

  std::uint8_t tos = 0;
  bool reuses_address = false;
  bool is_family_only = false;
  std::optional<std::uint8_t> ack_timeout;

  /// The connection or service resolution, until the communication manager ends it.
  std::optional<cm::Handle> connection;
  wire::Psn starting_psn;  ///< of what the peer sends
  QKey qkey;               ///< of UD; 0: the default one
  Qpn qpn;

  unsigned backlog = 0;      ///< of a listener: requests that it may have without an answer
  unsigned undelivered = 0;  ///< those whose events nobody has taken
  std::uint32_t events_reported = 0;
};

/// The GID of the port from which an ID sends: on Ethernet that of its source address.
[[nodiscard]] Gid source_gid(const Id& id, const PortAttributes& port);

}  // namespace softib::rdma_cm
