// The control protocol: one JSON object a line, both ways; each request has one response.
//
//   -> {"op":"get","address":"10.44.0.2"}
//   <- {"ok":true,"entry":{"address":"10.44.0.2","state":"reachable",...}}
//   -> {"op":"delete","address":"10.44.0.9"}
//   <- {"ok":false,"error":{"code":2,"message":"10.44.0.9: no such entry"}}
//
// `code` is an errno value. Members that a reader does not know are ignored, in both directions, so
// that either side may be newer; a member of the wrong type or range is an error.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "control/values.hpp"
#include "ipoib/result.hpp"

namespace ipoib::control {

inline constexpr std::size_t kMaxRequestLine = 4096;  ///< octets, with the newline
/// Octets; what a client accepts. Room for a group that all ports of the largest subnet are in.
inline constexpr std::size_t kMaxResponseLine = 4U << 20;
inline constexpr std::size_t kPageEntries = 128;
inline constexpr std::size_t kPageLines = 512;  ///< of a trace ring

/// The abstract socket of an interface: this, then the interface's name.
inline constexpr std::string_view kSocketPrefix = "ipoibd/";

/// One page, of about kPageEntries.
struct ListRequest {
  std::uint64_t cursor = 0;  ///< 0: from the beginning; else what the page before gave
  friend bool operator==(const ListRequest&, const ListRequest&) = default;
};
struct GetRequest {
  IpAddress address;
  friend bool operator==(const GetRequest&, const GetRequest&) = default;
};
/// Makes a permanent entry. add: EEXIST when there is an entry; change: ENOENT when there is none.
struct SetRequest {
  enum class Mode : std::uint8_t { add, change, replace };
  Mode mode = Mode::replace;
  IpAddress address;
  HwAddress hardware;
  friend bool operator==(const SetRequest&, const SetRequest&) = default;
};
/// ENOENT when there is no such entry.
struct DeleteRequest {
  IpAddress address;
  friend bool operator==(const DeleteRequest&, const DeleteRequest&) = default;
};
/// Deletes all entries but the permanent ones.
struct FlushRequest {
  friend bool operator==(const FlushRequest&, const FlushRequest&) = default;
};
struct StatsRequest {
  friend bool operator==(const StatsRequest&, const StatsRequest&) = default;
};
struct InfoRequest {
  friend bool operator==(const InfoRequest&, const InfoRequest&) = default;
};
/// What the interface itself answers.
using InterfaceRequest = std::variant<ListRequest, GetRequest, SetRequest, DeleteRequest,
                                      FlushRequest, StatsRequest, InfoRequest>;

/// Who is in a group; the daemon asks the subnet administrator.
struct MembersRequest {
  Gid mgid;
  friend bool operator==(const MembersRequest&, const MembersRequest&) = default;
};
/// Sets the levels given, then answers with all of them.
struct LogRequest {
  std::vector<ModuleLevel> set;
  friend bool operator==(const LogRequest&, const LogRequest&) = default;
};
struct TraceRequest {
  std::uint32_t ring = 0;
  std::uint64_t from = 0;  ///< first record wanted; one overwritten already means the oldest
  friend bool operator==(const TraceRequest&, const TraceRequest&) = default;
};
using Request = std::variant<InterfaceRequest, MembersRequest, LogRequest, TraceRequest>;

/// What a set or delete answers.
struct Done {
  friend bool operator==(const Done&, const Done&) = default;
};
/// How many entries a flush has deleted.
struct Flushed {
  std::uint64_t entries = 0;
  friend bool operator==(const Flushed&, const Flushed&) = default;
};
/// By request: EntryPage of list, Entry of get, Done of set and delete, Flushed of flush,
/// vector<Counter> of stats, InterfaceInfo of info, vector<Member> of members, vector<ModuleLevel>
/// of log, TracePage of trace.
using Reply = std::variant<EntryPage, Entry, Done, Flushed, std::vector<Counter>, InterfaceInfo,
                           std::vector<Member>, std::vector<ModuleLevel>, TracePage>;
using Response = Result<Reply>;

/// Whether it alters anything.
[[nodiscard]] bool is_change(const Request& request);
/// Whether it alters anything, or asks what the subnet administrator tells only whom it trusts.
[[nodiscard]] bool is_for_root(const Request& request);

/// A line without its newline. The error is for the client: EINVAL, or EOPNOTSUPP for an unknown
/// op.
[[nodiscard]] Result<Request> parse_request(std::string_view line);
/// One line with its newline.
[[nodiscard]] std::string emit(const Request& request);
/// The response to `request`. An error that the other side reports and one in its line (EPROTO)
/// look alike to the caller, who can act upon neither.
[[nodiscard]] Response parse_response(const Request& request, std::string_view line);
/// One line with its newline.
[[nodiscard]] std::string emit(const Response& response);

}  // namespace ipoib::control
