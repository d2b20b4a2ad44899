// The control protocol: one JSON object per line in each direction; each request gets one response.
//
//   -> {"op":"get","address":"10.44.0.2"}
//   <- {"ok":true,"entry":{"address":"10.44.0.2","state":"reachable",...}}
//   -> {"op":"delete","address":"10.44.0.9"}
//   <- {"ok":false,"error":{"code":2,"message":"10.44.0.9: no such entry"}}
//
// `code` is an errno value. Both sides ignore unknown members, so that either may be newer. A
// member of the wrong type or range is an error.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "control/filter.hpp"
#include "control/values.hpp"
#include "ipoib/result.hpp"

namespace ipoib::control {

inline constexpr std::size_t kMaxRequestLine = 4096;  ///< bytes, with the newline
/// Bytes that a client accepts: enough for a group with all ports of the largest subnet.
inline constexpr std::size_t kMaxResponseLine = 4U << 20;
inline constexpr std::size_t kPageEntries = 128;
inline constexpr std::size_t kPageLines = 512;  ///< trace records in a response

/// Name of an interface's abstract socket: this prefix, then the interface's name.
inline constexpr std::string_view kSocketPrefix = "ipoibd/";

/// Requests one page, of about kPageEntries.
struct ListRequest {
  std::uint64_t cursor = 0;  ///< 0: the first page; otherwise EntryPage::next of the page before
  friend bool operator==(const ListRequest&, const ListRequest&) = default;
};
struct GetRequest {
  IpAddress address;
  friend bool operator==(const GetRequest&, const GetRequest&) = default;
};
/// Creates a permanent entry. add: EEXIST if there is an entry; change: ENOENT if there is none.
struct SetRequest {
  enum class Mode : std::uint8_t { add, change, replace };
  Mode mode = Mode::replace;
  IpAddress address;
  HwAddress hardware;
  friend bool operator==(const SetRequest&, const SetRequest&) = default;
};
/// ENOENT if there is no such entry.
struct DeleteRequest {
  IpAddress address;
  friend bool operator==(const DeleteRequest&, const DeleteRequest&) = default;
};
/// Deletes the entries that match; permanent ones only if the filter names their state.
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
/// Requests that the interface's thread answers.
using InterfaceRequest = std::variant<ListRequest, GetRequest, SetRequest, DeleteRequest,
                                      FlushRequest, StatsRequest, InfoRequest>;

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
using Request = std::variant<InterfaceRequest, MembersRequest, LogRequest, TraceRequest>;

/// Reply to set and delete.
struct Done {
  friend bool operator==(const Done&, const Done&) = default;
};
/// Reply to flush: the number of deleted entries.
struct Flushed {
  std::uint64_t entries = 0;
  friend bool operator==(const Flushed&, const Flushed&) = default;
};
/// Reply by request: list EntryPage, get Entry, set and delete Done, flush Flushed, stats
/// vector<Counter>, info InterfaceInfo, members vector<Member>, log vector<ModuleLevel>, trace
/// TracePage.
using Reply = std::variant<EntryPage, Entry, Done, Flushed, std::vector<Counter>, InterfaceInfo,
                           std::vector<Member>, std::vector<ModuleLevel>, TracePage>;
using Response = Result<Reply>;

/// Whether the request changes anything.
[[nodiscard]] bool is_change(const Request& request);
/// Whether only root may make the request: changes, and members, which the SA returns only to
/// trusted requesters.
[[nodiscard]] bool requires_root(const Request& request);

/// Parses a line without its newline. The error is for the client: EINVAL, or EOPNOTSUPP for an
/// unknown op.
[[nodiscard]] Result<Request> parse_request(std::string_view line);
/// Returns one line with its newline.
[[nodiscard]] std::string emit(const Request& request);
/// Parses the response to `request`. Returns the error that the daemon reports, or EPROTO if the
/// line is not a valid response.
[[nodiscard]] Response parse_response(const Request& request, std::string_view line);
/// Returns one line with its newline.
[[nodiscard]] std::string emit(const Response& response);

}  // namespace ipoib::control
