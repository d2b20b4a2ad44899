// The control protocol: one JSON object per line in each direction; each request gets one response.
//
//   -> {"op":"get","address":"10.44.0.2"}
//   <- {"ok":true,"entry":{"address":"10.44.0.2","state":"reachable",...}}
//   -> {"op":"delete","address":"10.44.0.9"}
//   <- {"ok":false,"error":{"code":2,"message":"10.44.0.9: no such entry"}}
//
// After {"op":"subscribe"} a connection carries events instead (control/events.hpp).
// `code` is an errno value. Both sides ignore unknown members, so that either may be newer. A
// member of the wrong type or range is an error.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "control/requests.hpp"
#include "control/values.hpp"
#include "ipoib/result.hpp"

namespace ipoib::control {

inline constexpr std::size_t kMaxRequestLine = 4096;  ///< bytes, with the newline
/// Bytes that a client accepts: enough for a group with all ports of the largest subnet.
inline constexpr std::size_t kMaxResponseLine = 4U << 20;
inline constexpr std::size_t kPageEntries = 128;
inline constexpr std::size_t kPageLines = 512;  ///< trace records in a response

/// Reply to set, pin, delete, failover and delete_interface.
struct Done {
  friend bool operator==(const Done&, const Done&) = default;
};
/// Reply to flush: the number of deleted entries.
struct Flushed {
  std::uint64_t entries = 0;
  friend bool operator==(const Flushed&, const Flushed&) = default;
};
/// Reply to add_interface.
struct AddedInterface {
  std::string name;
  std::string warning = {};  ///< what the operator may not have meant; may be empty
  friend bool operator==(const AddedInterface&, const AddedInterface&) = default;
};
/// Reply by request: list EntryPage, get Entry, resolve Resolution, set, pin, delete, failover and
/// subscribe Done, flush Flushed, stats vector<Counter>, histograms vector<Histogram>, stations
/// StationPage, info InterfaceInfo, members vector<Member>, log vector<ModuleLevel>, trace
/// TracePage, add_interface AddedInterface, delete_interface and capture Done.
using Reply = std::variant<EntryPage, Entry, Resolution, Done, Flushed, std::vector<Counter>,
                           InterfaceInfo, std::vector<Member>, std::vector<ModuleLevel>, TracePage,
                           AddedInterface, std::vector<Histogram>, StationPage>;
using Response = Result<Reply>;

/// Whether the request changes anything.
[[nodiscard]] bool is_change(const Request& request);
/// Whether only those who may change things may make the request: changes; members, which the SA
/// returns only to trusted requesters; and trace and captures, which show the traffic of all users.
[[nodiscard]] bool is_restricted(const Request& request);

/// Parses a line without its newline. The error is for the client: EINVAL, or EOPNOTSUPP for an
/// unknown operation.
[[nodiscard]] Result<Request> parse_request(std::string_view line);
/// Returns one line with its newline.
[[nodiscard]] std::string emit(const Request& request);
/// Parses the response to `request`. Returns the error that the daemon reports, or EPROTO if the
/// line is not a valid response.
[[nodiscard]] Response parse_response(const Request& request, std::string_view line);
/// Returns one line with its newline.
[[nodiscard]] std::string emit(const Response& response);

}  // namespace ipoib::control
