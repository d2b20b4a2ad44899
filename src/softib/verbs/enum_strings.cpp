// Verbs that need no device: names of enumerators, rates, and fork().
#include <algorithm>
#include <array>

#include "softib/verbs/abi.hpp"
#include "wire/sa_values.hpp"

namespace softib::verbs {
namespace {

/// Multiples of 2.5 Gb/s by rate code, rounded as in rdma-core.
constexpr std::array kMultiples = {0,  0,  1,  4,  12, 2,   8,  16, 24,  32,  48,  5,  22,
                                   45, 67, 10, 41, 82, 123, 11, 20, 160, 240, 320, 480};

/// The rate code for which `value_of` gives `value`.
template <class Function>
ibv_rate find_rate(Function value_of, int value) {
  for (unsigned code = 2; code < kMultiples.size(); ++code) {
    if (value_of(code) == value) return static_cast<ibv_rate>(code);
  }
  return IBV_RATE_MAX;
}

int multiple(unsigned code) { return code < kMultiples.size() ? kMultiples[code] : 0; }
int mbps(unsigned code) {
  return code < kMultiples.size()
             ? static_cast<int>(ipoib::wire::rate_mbps(static_cast<std::uint8_t>(code)))
             : 0;
}
int or_minus_one(int value) { return value == 0 ? -1 : value; }

/// The entry of a value, or the last entry for an unknown value.
template <std::size_t N>
const char* string_of(const std::array<const char*, N>& strings, int value) {
  const bool known = value >= 0 && value < static_cast<int>(N) - 1;
  return strings[known ? static_cast<std::size_t>(value) : N - 1];
}

}  // namespace

SOFTIB_ABI int ibv_rate_to_mult(ibv_rate code) { return or_minus_one(multiple(code)); }
SOFTIB_ABI ibv_rate mult_to_ibv_rate(int value) { return find_rate(multiple, value); }
SOFTIB_ABI int ibv_rate_to_mbps(ibv_rate code) { return or_minus_one(mbps(code)); }
SOFTIB_ABI ibv_rate mbps_to_ibv_rate(int value) { return find_rate(mbps, value); }

SOFTIB_ABI const char* ibv_node_type_str(ibv_node_type type) {
  static constexpr std::array<const char*, 8> kStrings = {
      "unknown",           "InfiniBand channel adapter",
      "InfiniBand switch", "InfiniBand router",
      "iWARP NIC",         "usNIC",
      "usNIC UDP",         "unknown"};
  return string_of(kStrings, type);
}

SOFTIB_ABI const char* ibv_port_state_str(ibv_port_state state) {
  static constexpr std::array<const char*, 7> kStrings = {
      "no state change (NOP)", "down", "init", "armed", "active", "active deferred", "unknown"};
  return string_of(kStrings, state);
}

// Declared since rdma-core 47.
SOFTIB_ABI const char* ibv_wr_opcode_str(ibv_wr_opcode opcode);
SOFTIB_ABI const char* ibv_wr_opcode_str(ibv_wr_opcode opcode) {
  static constexpr std::array<const char*, 17> kStrings = {"rdma-write",
                                                           "rdma-write-with-imm",
                                                           "send",
                                                           "send-with-imm",
                                                           "rdma-read",
                                                           "atomic-cmp-and-swp",
                                                           "atomic-fetch-and-add",
                                                           "local-inv",
                                                           "bind-mw",
                                                           "send-with-inv",
                                                           "tso",
                                                           "driver1",
                                                           "unknown",
                                                           "unknown",
                                                           "flush",
                                                           "atomic-write",
                                                           "unknown"};
  return string_of(kStrings, opcode);
}

SOFTIB_ABI const char* ibv_event_type_str(ibv_event_type type) {
  static constexpr std::array<const char*, 21> kStrings = {
      "CQ error",
      "local work queue catastrophic error",
      "invalid request local work queue error",
      "local access violation work queue error",
      "communication established",
      "send queue drained",
      "path migrated",
      "path migration request error",
      "local catastrophic error",
      "port active",
      "port error",
      "LID change",
      "P_Key change",
      "SM change",
      "SRQ catastrophic error",
      "SRQ limit reached",
      "last WQE reached",
      "client reregistration",
      "GID table change",
      "WQ fatal",
      "unknown"};
  return string_of(kStrings, type);
}

SOFTIB_ABI const char* ibv_wc_status_str(ibv_wc_status status) {
  static constexpr std::array<const char*, 25> kStrings = {"success",
                                                           "local length error",
                                                           "local QP operation error",
                                                           "local EE context operation error",
                                                           "local protection error",
                                                           "Work Request Flushed Error",
                                                           "memory management operation error",
                                                           "bad response error",
                                                           "local access error",
                                                           "remote invalid request error",
                                                           "remote access error",
                                                           "remote operation error",
                                                           "transport retry counter exceeded",
                                                           "RNR retry counter exceeded",
                                                           "local RDD violation error",
                                                           "remote invalid RD request",
                                                           "aborted error",
                                                           "invalid EE context number",
                                                           "invalid EE context state",
                                                           "fatal error",
                                                           "response timeout error",
                                                           "general error",
                                                           "TM error",
                                                           "TM software rendezvous",
                                                           "unknown"};
  return string_of(kStrings, status);
}

/// No page is pinned for hardware, so fork() needs no precautions.
SOFTIB_ABI int ibv_fork_init() { return 0; }
SOFTIB_ABI ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }
SOFTIB_ABI int ibv_dontfork_range(void* /*base*/, std::size_t /*size*/) { return 0; }
SOFTIB_ABI int ibv_dofork_range(void* /*base*/, std::size_t /*size*/) { return 0; }

}  // namespace softib::verbs
