// The events of the RDMA connection manager for its user, and the parameters of connections.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <variant>

#include "softib/rdma_cm/address.hpp"
#include "wire/path_record.hpp"

namespace softib::rdma_cm {

/// Names an ID of the process: 1 to kMaxIds.
using IdHandle = ipoib::Strong<struct IdHandleTag, std::uint32_t>;
/// An event channel: the open file that its IDs belong to.
using ChannelId = ipoib::Strong<struct ChannelIdTag, std::uint32_t>;

/// Names the membership of an ID in a multicast group.
using JoinHandle = ipoib::Strong<struct JoinHandleTag, std::uint32_t>;

/// The type of an event, with the numbers of the ABI (enum rdma_cm_event_type).
enum class EventType : std::uint32_t {
  address_resolved = 0,
  address_error = 1,
  route_resolved = 2,
  route_error = 3,
  connect_request = 4,
  connect_response = 5,
  connect_error = 6,
  unreachable = 7,
  rejected = 8,
  established = 9,
  disconnected = 10,
  device_removal = 11,
  multicast_join = 12,
  multicast_error = 13,
  time_wait_exit = 15,
};

/// Private data of a user, with the length that the peer's user sees.
struct UserData {
  static constexpr std::size_t kMaxSize = 255;  ///< its length has 8 bits
  std::array<std::uint8_t, kMaxSize + 1> bytes{};
  std::uint8_t size = 0;

  [[nodiscard]] static UserData of(ipoib::ConstBytes data);
  [[nodiscard]] ipoib::ConstBytes data() const { return ipoib::ConstBytes(bytes).first(size); }
};

/// Parameters of connect() and accept(), and of the events that report them to the peer. Responder
/// resources and initiator depth are always those of the reader.
struct ConnectionParameters {
  Qpn qpn;
  QKey qkey;
  bool srq = false;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  bool flow_control = false;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
  UserData data;
};

/// The path to a UD queue pair, its number and its Q_Key.
struct DatagramParameters {
  Qpn qpn;
  QKey qkey;
  wire::PathRecord path;
  UserData data;
};

struct Event {
  IdHandle id{};          ///< of connect_request: the new ID
  JoinHandle join{};      ///< of multicast_join and multicast_error
  std::uint64_t uid = 0;  ///< of the ID, of the listener, or of the join
  EventType type = EventType::address_resolved;
  int status = 0;  ///< a negative errno value, the reason of a REJ, or the status of the SA
  std::variant<ConnectionParameters, DatagramParameters> parameters{};
};

}  // namespace softib::rdma_cm
