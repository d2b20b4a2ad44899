// Verbs that need no device: names of values, rates, and the little that fork() needs.
#include <algorithm>
#include <array>

#include "softib/verbs/abi.hpp"

namespace softib::verbs {
namespace {

struct Rate {
  ibv_rate code;
  int multiple;  // of 2.5 Gb/s; the lanes of FDR and beyond are rounded down, as everywhere
  int mbps;
};
constexpr std::array kRates = {
    Rate{IBV_RATE_2_5_GBPS, 1, 2500},       Rate{IBV_RATE_5_GBPS, 2, 5000},
    Rate{IBV_RATE_10_GBPS, 4, 10000},       Rate{IBV_RATE_20_GBPS, 8, 20000},
    Rate{IBV_RATE_30_GBPS, 12, 30000},      Rate{IBV_RATE_40_GBPS, 16, 40000},
    Rate{IBV_RATE_60_GBPS, 24, 60000},      Rate{IBV_RATE_80_GBPS, 32, 80000},
    Rate{IBV_RATE_120_GBPS, 48, 120000},    Rate{IBV_RATE_14_GBPS, 5, 14062},
    Rate{IBV_RATE_56_GBPS, 22, 56250},      Rate{IBV_RATE_112_GBPS, 45, 112500},
    Rate{IBV_RATE_168_GBPS, 67, 168750},    Rate{IBV_RATE_25_GBPS, 10, 25781},
    Rate{IBV_RATE_100_GBPS, 41, 103125},    Rate{IBV_RATE_200_GBPS, 82, 206250},
    Rate{IBV_RATE_300_GBPS, 123, 309375},   Rate{IBV_RATE_28_GBPS, 11, 28125},
    Rate{IBV_RATE_50_GBPS, 20, 53125},      Rate{IBV_RATE_400_GBPS, 160, 425000},
    Rate{IBV_RATE_600_GBPS, 240, 637500},   Rate{IBV_RATE_800_GBPS, 320, 850000},
    Rate{IBV_RATE_1200_GBPS, 480, 1275000},
};

template <class Member, class Value>
const Rate* find_rate(Member member, Value value) {
  const auto* const found = std::find_if(kRates.begin(), kRates.end(),
                                         [&](const Rate& each) { return each.*member == value; });
  return found == kRates.end() ? nullptr : found;
}

/// The name at a value's place in a table, or the last one for a value that has none.
template <std::size_t N>
const char* word(const std::array<const char*, N>& words, int value) {
  const bool known = value >= 0 && value < static_cast<int>(N) - 1;
  return words[known ? static_cast<std::size_t>(value) : N - 1];
}

}  // namespace

SOFTIB_ABI int ibv_rate_to_mult(ibv_rate code) {
  const auto* const rate = find_rate(&Rate::code, code);
  return rate == nullptr ? -1 : rate->multiple;
}

SOFTIB_ABI ibv_rate mult_to_ibv_rate(int multiple) {
  const auto* const rate = find_rate(&Rate::multiple, multiple);
  return rate == nullptr ? IBV_RATE_MAX : rate->code;
}

SOFTIB_ABI int ibv_rate_to_mbps(ibv_rate code) {
  const auto* const rate = find_rate(&Rate::code, code);
  return rate == nullptr ? -1 : rate->mbps;
}

SOFTIB_ABI ibv_rate mbps_to_ibv_rate(int mbps) {
  const auto* const rate = find_rate(&Rate::mbps, mbps);
  return rate == nullptr ? IBV_RATE_MAX : rate->code;
}

SOFTIB_ABI const char* ibv_node_type_str(ibv_node_type type) {
  static constexpr std::array<const char*, 8> kWords = {
      "unknown",           "InfiniBand channel adapter",
      "InfiniBand switch", "InfiniBand router",
      "iWARP NIC",         "usNIC",
      "usNIC UDP",         "unknown"};
  return word(kWords, type);
}

SOFTIB_ABI const char* ibv_port_state_str(ibv_port_state state) {
  static constexpr std::array<const char*, 7> kWords = {
      "no state change (NOP)", "down", "init", "armed", "active", "active deferred", "unknown"};
  return word(kWords, state);
}

SOFTIB_ABI const char* ibv_event_type_str(ibv_event_type type) {
  static constexpr std::array<const char*, 21> kWords = {"CQ error",
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
  return word(kWords, type);
}

SOFTIB_ABI const char* ibv_wc_status_str(ibv_wc_status status) {
  static constexpr std::array<const char*, 25> kWords = {"success",
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
  return word(kWords, status);
}

/// Memory is not pinned and no page belongs to hardware: a fork hurts nothing.
SOFTIB_ABI int ibv_fork_init() { return 0; }
SOFTIB_ABI ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }
SOFTIB_ABI int ibv_dontfork_range(void* /*base*/, std::size_t /*size*/) { return 0; }
SOFTIB_ABI int ibv_dofork_range(void* /*base*/, std::size_t /*size*/) { return 0; }

}  // namespace softib::verbs
