// Messages of ibacm, the InfiniBand address and route cache of rdma-core, between its clients
// (librdmacm, ib_acme) and a server on the same host: which path leads to an IP address?
//
// rdma-core, ibacm/include/infiniband/acm.h. Of the three operations, a server needs the first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"
#include "wire/path_record.hpp"

namespace ipoib::wire::acm {

inline constexpr std::size_t kHeaderSize = 16;
inline constexpr std::size_t kEntrySize = 72;
inline constexpr std::size_t kMaxEntries = 8;  ///< ACM_MSG_DATA_LENGTH
inline constexpr std::size_t kMaxMessage = kHeaderSize + kMaxEntries * kEntrySize;

enum class Operation : std::uint8_t { resolve = 1, query_counters = 2, query_endpoint = 3 };

/// ACM_STATUS_*
enum class Status : std::uint8_t {
  success = 0,
  no_memory = 1,
  invalid = 2,
  no_data = 3,
  timed_out = 6,
  source_address = 7,
  source_type = 8,
  destination_address = 9,
  destination_type = 10,
};

using Header = std::span<const std::uint8_t, kHeaderSize>;

/// The size of the message that begins with `header`, from kHeaderSize to kMaxMessage bytes.
/// nullopt if version, operation or length are invalid, so that the next message cannot be found.
[[nodiscard]] std::optional<std::size_t> message_size(Header header);

/// A request for the path to an IP address.
struct Wanted {
  IpAddress destination;
  std::optional<IpAddress> source;  ///< of the host; none: the server chooses it
  bool at_once = false;             ///< answer only from what is known already
  friend bool operator==(const Wanted&, const Wanted&) = default;
};

/// Parses a message of message_size() bytes. Returns the Status to refuse it with if it is a
/// request by host name, GID or LID, or another operation.
[[nodiscard]] std::variant<Wanted, Status> parse(ConstBytes message);

/// A path that was found. `source` is for clients that have named none.
struct Found {
  PathRecord path;
  std::optional<IpAddress> source;
};

/// The responses to the message with this header.
[[nodiscard]] std::vector<std::uint8_t> refusal(Header request, Status why);
[[nodiscard]] std::vector<std::uint8_t> answer(Header request, const Found& found);

}  // namespace ipoib::wire::acm
