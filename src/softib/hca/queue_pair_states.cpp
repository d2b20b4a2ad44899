// The states of a queue pair and their transitions (IBA 10.3.1, 11.2.5.2; the tables of
// ibv_modify_qp(3)).
//
//            +-------+  INIT   +------+   RTR   +-----+   RTS   +-----+  SQD   +-----+
//   create ->| RESET |-------->| INIT |-------->| RTR |-------->| RTS |------->| SQD |
//            +-------+         +------+         +-----+         +-----+<-------+-----+
//                ^                                               |   ^            |
//                |   from any state            error of a send   v   | RTS        | error of a send
//                +-----------------------                       +-----+           |
//   ERR: from any state, or by an error of a receive            | SQE |<----------+
//                                                               +-----+
//
// SQE is for UD and UC: a reliable connection goes into ERR when a send fails.
#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <span>
#include <type_traits>

#include "softib/hca/queue_pair.hpp"

namespace softib::hca {
namespace {

struct Transition {
  ibv_qp_state from;
  ibv_qp_state to;
  int required;
  int allowed;
};

constexpr int kInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;

// Transitions to RESET and ERR are allowed from every state and take no attributes.
constexpr std::array kUdTransitions = {
    Transition{IBV_QPS_RESET, IBV_QPS_INIT, kInit, 0},
    Transition{IBV_QPS_INIT, IBV_QPS_INIT, 0, kInit},
    Transition{IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    Transition{IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    Transition{IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    Transition{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    Transition{IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    Transition{IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    Transition{IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
};

constexpr int kConnectedInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kConnectedReady = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS;
constexpr int kConnectedPath = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr int kRcReady = kConnectedReady | IBV_QP_MIN_RNR_TIMER;
constexpr int kRcPath = kConnectedPath | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRcRetries =
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

constexpr std::array kRcTransitions = {
    Transition{IBV_QPS_RESET, IBV_QPS_INIT, kConnectedInit, 0},
    Transition{IBV_QPS_INIT, IBV_QPS_INIT, 0, kConnectedInit},
    Transition{IBV_QPS_INIT, IBV_QPS_RTR, kRcPath, IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    Transition{IBV_QPS_RTR, IBV_QPS_RTS, kRcRetries | IBV_QP_SQ_PSN, kRcReady},
    Transition{IBV_QPS_RTS, IBV_QPS_RTS, 0, kRcReady},
    Transition{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    Transition{IBV_QPS_SQD, IBV_QPS_RTS, 0, kRcReady},
    Transition{IBV_QPS_SQD, IBV_QPS_SQD, 0,
               kRcReady | kRcRetries | kConnectedInit | IBV_QP_AV | IBV_QP_MAX_DEST_RD_ATOMIC},
};

// XRC, whose queue pairs have one side each of a reliable connection (IBA annex A14).
constexpr std::array kXrcSendTransitions = {
    Transition{IBV_QPS_RESET, IBV_QPS_INIT, kConnectedInit, 0},
    Transition{IBV_QPS_INIT, IBV_QPS_INIT, 0, kConnectedInit},
    Transition{IBV_QPS_INIT, IBV_QPS_RTR, kConnectedPath, IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    Transition{IBV_QPS_RTR, IBV_QPS_RTS, kRcRetries | IBV_QP_SQ_PSN, kConnectedReady},
    Transition{IBV_QPS_RTS, IBV_QPS_RTS, 0, kConnectedReady},
    Transition{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    Transition{IBV_QPS_SQD, IBV_QPS_RTS, 0, kConnectedReady},
    Transition{IBV_QPS_SQD, IBV_QPS_SQD, 0,
               kConnectedReady | kRcRetries | kConnectedInit | IBV_QP_AV},
};

constexpr std::array kXrcReceiveTransitions = {
    Transition{IBV_QPS_RESET, IBV_QPS_INIT, kConnectedInit, 0},
    Transition{IBV_QPS_INIT, IBV_QPS_INIT, 0, kConnectedInit},
    Transition{IBV_QPS_INIT, IBV_QPS_RTR, kRcPath, IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    Transition{IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_SQ_PSN, kRcReady},
    Transition{IBV_QPS_RTS, IBV_QPS_RTS, 0, kRcReady},
    Transition{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    Transition{IBV_QPS_SQD, IBV_QPS_RTS, 0, kRcReady},
    Transition{IBV_QPS_SQD, IBV_QPS_SQD, 0,
               kRcReady | kConnectedInit | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_MAX_DEST_RD_ATOMIC},
};

constexpr std::array kUcTransitions = {
    Transition{IBV_QPS_RESET, IBV_QPS_INIT, kConnectedInit, 0},
    Transition{IBV_QPS_INIT, IBV_QPS_INIT, 0, kConnectedInit},
    Transition{IBV_QPS_INIT, IBV_QPS_RTR, kConnectedPath, IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    Transition{IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, kConnectedReady},
    Transition{IBV_QPS_RTS, IBV_QPS_RTS, 0, kConnectedReady},
    Transition{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    Transition{IBV_QPS_SQD, IBV_QPS_RTS, 0, kConnectedReady},
    Transition{IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_AV | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    Transition{IBV_QPS_SQE, IBV_QPS_RTS, 0, kConnectedReady},
};

std::span<const Transition> transitions_of(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC:
      return kRcTransitions;
    case IBV_QPT_UC:
      return kUcTransitions;
    case IBV_QPT_XRC_SEND:
      return kXrcSendTransitions;
    case IBV_QPT_XRC_RECV:
      return kXrcReceiveTransitions;
    default:
      return kUdTransitions;
  }
}

/// Attributes of RC that programs may give queue pairs of XRC, which have only one of its two
/// sides: modify_qp_mask() of the kernel's ib_uverbs drops them, too.
int ignored_attributes(ibv_qp_type type) {
  if (type == IBV_QPT_XRC_SEND) return IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (type != IBV_QPT_XRC_RECV) return 0;
  return IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
}

/// A program in C may pass any number as a state. A number that is no ibv_qp_state has no
/// transition.
ibv_qp_state state_of(const ibv_qp_state& passed) {
  const auto number = std::bit_cast<std::underlying_type_t<ibv_qp_state>>(passed);
  return number < IBV_QPS_UNKNOWN ? static_cast<ibv_qp_state>(number) : IBV_QPS_UNKNOWN;
}

}  // namespace

bool is_transition(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask) {
  const int attributes = mask & ~IBV_QP_STATE;
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return attributes == 0;
  const auto table = transitions_of(type);
  const auto found = std::ranges::find_if(
      table, [&](const Transition& each) { return each.from == from && each.to == to; });
  if (found == table.end()) return false;
  return (attributes & found->required) == found->required &&
         (attributes & ~(found->required | found->allowed)) == 0;
}

int QueuePair::apply(const ibv_qp_attr& attr, int passed_mask) {
  const int mask = passed_mask & ~ignored_attributes(config_.type);
  if ((mask & IBV_QP_CUR_STATE) != 0 && state_of(attr.cur_qp_state) != state_) {
    return EINVAL;
  }
  const auto to = (mask & IBV_QP_STATE) != 0 ? state_of(attr.qp_state) : state_;
  if (!is_transition(config_.type, state_, to, mask)) return EINVAL;
  if ((mask & IBV_QP_PKEY_INDEX) != 0 && attr.pkey_index >= kPKeyTableSize) return EINVAL;

  // The caller has checked that there is such a port.
  const std::uint8_t number = (mask & IBV_QP_PORT) != 0 ? attr.port_num : port_;
  const PortAttributes& port = ports_[number == 0 ? 1U : number];
  if (is_connected() && !are_valid_connection_attributes(attr, mask, port)) return EINVAL;

  port_ = number;
  if ((mask & IBV_QP_PKEY_INDEX) != 0) pkey_index_ = attr.pkey_index;
  if ((mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0) notify_drained_ = attr.en_sqd_async_notify != 0;
  if (is_connected()) {
    connection().attributes.apply(attr, mask, port.mtu);
    return 0;
  }
  if ((mask & IBV_QP_QKEY) != 0) datagram().qkey = QKey(attr.qkey);
  if ((mask & IBV_QP_SQ_PSN) != 0) datagram().sender.start(ipoib::wire::Psn(attr.sq_psn));
  return 0;
}

ibv_qp_attr QueuePair::attributes() const {
  ibv_qp_attr attr{};
  attr.qp_state = state_;
  attr.cur_qp_state = state_;
  attr.pkey_index = pkey_index_;
  attr.port_num = port_;
  attr.en_sqd_async_notify = notify_drained_ ? 1 : 0;
  attr.cap = config_.cap;
  if (is_connected()) {
    connection().report(attr);
  } else {
    attr.qkey = datagram().qkey.value();
    attr.sq_psn = datagram().sender.next_psn().value();
  }
  return attr;
}

}  // namespace softib::hca
