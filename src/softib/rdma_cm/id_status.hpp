// The part of an ID that everybody may see (`softib show --cm`), and its form in shared memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "softib/core/comm_id.hpp"
#include "softib/rdma_cm/id.hpp"

namespace softib::rdma_cm {

struct IdStatus {
  std::size_t hca = 0;  ///< of the process; not kept
  IdHandle handle{};
  PortSpace space = PortSpace::tcp;
  IdState state = IdState::idle;
  /// An index of cm::kConnectionStates; nullopt: the ID has no connection.
  std::optional<std::uint8_t> connection{};
  Address source{};  ///< of AF_IB: only the GID is kept
  Address destination{};
  wire::ServiceId service{};
  CommId local_id{};   ///< 0: none
  CommId remote_id{};  ///< 0: not known
  Qpn qpn{};           ///< of the local queue pair; 0: not known
  Qpn remote_qpn{};    ///< of the peer's queue pair; 0: not known

  static constexpr std::size_t kWords = 9;
  using Words = std::array<std::uint64_t, kWords>;
  /// The status in words, of which the first is not 0.
  [[nodiscard]] Words words() const;
  /// The inverse of words(); nullopt for words that it does not return.
  [[nodiscard]] static std::optional<IdStatus> parse(const Words& words);
};

/// "tcp", "udp", "ipoib" or "ib".
[[nodiscard]] std::string_view name(PortSpace space);
/// "127.77.0.1:7174", "[fd77::1]:7174", or the GID of AF_IB; empty for none.
[[nodiscard]] std::string to_string(const Address& address);

}  // namespace softib::rdma_cm
