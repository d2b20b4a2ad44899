// What programs of verbs share that a test drives by their standard input and output. They end at
// the first failure, and write what has failed.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

[[noreturn]] inline void fail(const std::string& what) {
  std::cout << "failed: " << what << ": " << std::strerror(errno) << std::endl;
  std::exit(1);
}

template <class T>
T* need(T* value, const char* what) {
  if (value == nullptr) fail(what);
  return value;
}

inline void need(int result, const char* what) {
  if (result != 0) fail(what);
}

inline ibv_context* open_first_device() {
  ibv_device** const devices = need(ibv_get_device_list(nullptr), "devices");
  ibv_context* const context = need(ibv_open_device(need(devices[0], "device")), "open");
  ibv_free_device_list(devices);
  return context;
}

/// Moves a UD queue pair from RESET to RTS, with the port, P_Key index and Q_Key of `to`.
inline void start_datagrams(ibv_qp* qp, ibv_qp_attr to) {
  to.qp_state = IBV_QPS_INIT;
  need(ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
       "INIT");
  to.qp_state = IBV_QPS_RTR;
  need(ibv_modify_qp(qp, &to, IBV_QP_STATE), "RTR");
  to.qp_state = IBV_QPS_RTS;
  need(ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
}

/// Moves an RC queue pair from RESET to RTS, with all attributes of `to` that this needs.
inline void start_connection(ibv_qp* qp, ibv_qp_attr to) {
  to.qp_state = IBV_QPS_INIT;
  need(ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
       "INIT");
  to.qp_state = IBV_QPS_RTR;
  need(ibv_modify_qp(qp, &to,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
       "RTR");
  to.qp_state = IBV_QPS_RTS;
  need(ibv_modify_qp(qp, &to,
                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
       "RTS");
}
