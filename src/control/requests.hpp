// Requests of the control protocol.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "control/events.hpp"
#include "control/filter.hpp"
#include "control/values.hpp"

namespace ipoib::control {

/// Requests one page, of about kPageEntries.
struct ListRequest {
  std::uint64_t cursor = 0;  ///< 0: the first page; otherwise EntryPage::next of the page before
  friend bool operator==(const ListRequest&, const ListRequest&) = default;
};
struct GetRequest {
  IpAddress address;
  friend bool operator==(const GetRequest&, const GetRequest&) = default;
};
/// Resolves a neighbour that is not in the cache, and responds when its path is known. Fails with
/// ETIMEDOUT if that takes longer than `timeout`, EHOSTUNREACH if the neighbour does not respond or
/// there is no path to it, EBUSY if too many are waited for, and as link::Link::resolve() with
/// EINVAL, ENETUNREACH, ENOBUFS.
struct ResolveRequest {
  /// Less than the server's time-out for clients that do nothing.
  static constexpr std::chrono::milliseconds kMaxTimeout{30'000};
  IpAddress address;
  std::chrono::milliseconds timeout{};
  friend bool operator==(const ResolveRequest&, const ResolveRequest&) = default;
};
/// Creates a permanent entry. `add` fails with EEXIST if there is an entry, `change` with ENOENT if
/// there is none.
struct SetRequest {
  enum class Mode : std::uint8_t { add, change, replace };
  Mode mode = Mode::replace;
  IpAddress address;
  HwAddress hardware;
  friend bool operator==(const SetRequest&, const SetRequest&) = default;
};
/// Pins an address to a GID: its entry may have no other one. The modes are those of SetRequest; a
/// pin counts as an entry.
struct PinRequest {
  SetRequest::Mode mode = SetRequest::Mode::replace;
  IpAddress address;
  Gid gid;
  friend bool operator==(const PinRequest&, const PinRequest&) = default;
};
/// Deletes an entry and its pin. Fails with ENOENT if there is neither.
struct DeleteRequest {
  IpAddress address;
  friend bool operator==(const DeleteRequest&, const DeleteRequest&) = default;
};
/// Deletes the entries that match; permanent ones only if the filter names their state, and pins
/// only if it names "pinned".
struct FlushRequest {
  Filter filter{};
  friend bool operator==(const FlushRequest&, const FlushRequest&) = default;
};
struct StatsRequest {
  friend bool operator==(const StatsRequest&, const StatsRequest&) = default;
};
struct InfoRequest {
  friend bool operator==(const InfoRequest&, const InfoRequest&) = default;
};
struct HistogramsRequest {
  friend bool operator==(const HistogramsRequest&, const HistogramsRequest&) = default;
};
/// Requests one page, of about kPageEntries. Fails with EOPNOTSUPP unless it is an Ethernet
/// interface with stations.
struct StationsRequest {
  std::uint64_t cursor = 0;  ///< 0: the first page; otherwise StationPage::next of the page before
  friend bool operator==(const StationsRequest&, const StationsRequest&) = default;
};
/// Requests events about these topics from now on, instead of responses. The server passes on to
/// the interface what all subscribers together want; the interval does not matter there.
struct SubscribeRequest {
  static constexpr std::chrono::milliseconds kMinInterval{100};
  static constexpr std::chrono::milliseconds kMaxInterval{std::chrono::hours(1)};
  static constexpr std::chrono::milliseconds kDefaultInterval{1000};
  Topics topics;
  std::chrono::milliseconds interval = kDefaultInterval;  ///< of StatsEvent
  friend bool operator==(const SubscribeRequest&, const SubscribeRequest&) = default;
};
/// Moves the interface to a port, or without a device to the one that does not serve it now. Does
/// nothing if that one serves it already. Fails with EOPNOTSUPP if it has no backup port, ENODEV if
/// it has no such port, and ENETDOWN if the link on that port is not up.
struct FailoverRequest {
  std::string device;
  std::uint8_t port = 1;
  friend bool operator==(const FailoverRequest&, const FailoverRequest&) = default;
};
/// Requests that the interface's thread answers.
using InterfaceRequest =
    std::variant<ListRequest, GetRequest, ResolveRequest, SetRequest, PinRequest, DeleteRequest,
                 FlushRequest, StatsRequest, InfoRequest, HistogramsRequest, SubscribeRequest,
                 FailoverRequest, StationsRequest>;

/// The members of a group; the daemon asks the SA.
struct MembersRequest {
  Gid mgid;
  friend bool operator==(const MembersRequest&, const MembersRequest&) = default;
};
/// Sets the given levels, then returns all of them.
struct LogRequest {
  std::vector<ModuleLevel> set;
  friend bool operator==(const LogRequest&, const LogRequest&) = default;
};
struct TraceRequest {
  std::uint32_t ring = 0;
  std::uint64_t from = 0;  ///< first record wanted; the oldest one if it is overwritten already
  friend bool operator==(const TraceRequest&, const TraceRequest&) = default;
};
/// Adds an interface for another partition of the port.
struct AddInterfaceRequest {
  PKey pkey;         ///< with or without its membership bit
  std::string name;  ///< empty: the usual one
  friend bool operator==(const AddInterfaceRequest&, const AddInterfaceRequest&) = default;
};
/// Deletes the interface that serves the request.
struct DeleteInterfaceRequest {
  friend bool operator==(const DeleteInterfaceRequest&, const DeleteInterfaceRequest&) = default;
};
/// Captures the packets of the interface's queue pair from now on. Only on the socket for captures,
/// whose connection carries them (erf/capture_messages.hpp).
struct CaptureRequest {
  std::optional<IpAddress> neighbour{};  ///< only packets from and to it, and about its address
  friend bool operator==(const CaptureRequest&, const CaptureRequest&) = default;
};
using Request = std::variant<InterfaceRequest, MembersRequest, LogRequest, TraceRequest,
                             AddInterfaceRequest, DeleteInterfaceRequest, CaptureRequest>;

}  // namespace ipoib::control
