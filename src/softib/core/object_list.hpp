// What a process says about the objects of its HCA when another one asks, as rdma(8) does for
// `rdma resource`: a page of them for each request, as long as a message between processes.
//
//   request | kind 8 | first 32 |
//   page    | next 32 | objects, kObjectBytes each |
//
// All in host order: both are processes of one host. The asking process trusts nothing in a page.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "softib/core/fabric_types.hpp"

namespace softib {

enum class ObjectKind : std::uint8_t {
  context,
  protection_domain,
  memory_region,
  completion_queue,
  shared_receive_queue,
  queue_pair,
  count_
};

/// An object. What its kind does not have is 0.
struct ObjectStatus {
  std::uint32_t number = 0;    ///< that of a queue pair; of others their index in the process
  std::uint32_t domain = 0;    ///< index of its protection domain
  std::uint32_t users = 0;     ///< objects that use it
  std::uint32_t capacity = 0;  ///< completions that fit into it
  std::uint32_t remote_qpn = 0;
  std::uint32_t receive_psn = 0;
  std::uint32_t send_psn = 0;
  std::uint8_t type = 0;       ///< ibv_qp_type, ibv_srq_type
  std::uint8_t state = 0;      ///< ibv_qp_state
  std::uint8_t migration = 0;  ///< ibv_mig_state
  std::uint8_t port = 0;       ///< of the HCA; 0: none yet
  std::uint64_t length = 0;    ///< in bytes

  friend bool operator==(const ObjectStatus&, const ObjectStatus&) = default;
};
inline constexpr std::size_t kObjectBytes = sizeof(ObjectStatus);
static_assert(kObjectBytes == 40, "without padding, which would carry memory of the process");

/// Asks for the objects of a kind from an index on.
struct ObjectRequest {
  ObjectKind kind{};
  std::uint32_t first = 0;

  using Bytes = std::array<std::uint8_t, 5>;
  [[nodiscard]] Bytes bytes() const;
  /// nullopt for bytes that bytes() does not return.
  [[nodiscard]] static std::optional<ObjectRequest> parse(ConstBytes bytes);
};

/// The answer.
struct ObjectPage {
  static constexpr std::size_t kMaxObjects = 25;

  std::vector<ObjectStatus> objects;  ///< at most kMaxObjects
  std::uint32_t next = 0;             ///< the index to ask for next; 0: there are no more

  /// The page that begins with index `first` of a table with indices below `end`. `describe`
  /// returns the object with an index, or nullopt.
  template <class Describe>
  [[nodiscard]] static ObjectPage from(std::uint32_t first, std::size_t end, Describe describe) {
    ObjectPage page;
    for (std::size_t index = first; index < end; ++index) {
      const std::optional<ObjectStatus> object = describe(index);
      if (!object) continue;
      if (page.objects.size() == kMaxObjects) {
        page.next = static_cast<std::uint32_t>(index);
        break;
      }
      page.objects.push_back(*object);
    }
    return page;
  }

  [[nodiscard]] std::vector<std::uint8_t> bytes() const;
  /// nullopt for bytes that bytes() does not return.
  [[nodiscard]] static std::optional<ObjectPage> parse(ConstBytes bytes);
};

}  // namespace softib
