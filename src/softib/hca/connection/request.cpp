#include "softib/hca/connection/request.hpp"

#include "softib/hca/limits.hpp"

namespace softib::hca {
namespace {

constexpr unsigned kConnectedFlags =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

WindowBinding binding_of(const ibv_send_wr& wr) {
  const auto& bind = wr.bind_mw;
  const auto& info = bind.bind_info;
  return {bind.mw->rkey, bind.rkey,   info.mr != nullptr ? info.mr->lkey : 0,
          info.addr,     info.length, static_cast<int>(info.mw_access_flags)};
}

}  // namespace

bool is_valid_request(const ibv_send_wr& wr, std::uint64_t length, ibv_qp_type type,
                      const ConnectionAttributes& attributes) {
  if ((wr.send_flags & ~kConnectedFlags) != 0 || length > kMaxMessage) return false;
  if (type == IBV_QPT_XRC_RECV) return false;
  if (type == IBV_QPT_XRC_SEND && wr.qp_type.xrc.remote_srqn > kMaxQpn) return false;
  const bool is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
  // Unreliable connections have none: `max_sent_reads` is 0.
  const bool may_have_response = attributes.max_sent_reads != 0;
  switch (wr.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_LOCAL_INV:
      return true;
    case IBV_WR_SEND_WITH_INV:
      return type != IBV_QPT_UC;
    case IBV_WR_BIND_MW:
      return wr.bind_mw.mw != nullptr;
    case IBV_WR_ATOMIC_WRITE:
      return length == kAtomicBytes && may_have_response;
    case IBV_WR_RDMA_READ:
      return !is_inline && may_have_response;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      // The local memory may be longer than the result.
      return !is_inline && length >= kAtomicBytes && may_have_response;
    default:
      return false;
  }
}

void ConnectedRequest::set(const ibv_send_wr& wr, bool is_extended) {
  opcode = wr.opcode;
  fence = (wr.send_flags & IBV_SEND_FENCE) != 0;
  if (is_extended) shared_queue = wr.qp_type.xrc.remote_srqn;
  remote_address = wr.wr.rdma.remote_addr;
  remote_key = wr.wr.rdma.rkey;
  invalidated_key = wr.invalidate_rkey;
  if (is_atomic()) {
    const auto& atomic = wr.wr.atomic;
    const bool is_swap = opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    remote_address = atomic.remote_addr;
    remote_key = atomic.rkey;
    operand = is_swap ? atomic.swap : atomic.compare_add;
    compare = is_swap ? atomic.compare_add : 0;
  }
  if (opcode == IBV_WR_BIND_MW) binding = binding_of(wr);
}

ibv_wc_opcode completion_opcode(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_WC_FETCH_ADD;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_ATOMIC_WRITE:
      return IBV_WC_ATOMIC_WRITE;
    case IBV_WR_BIND_MW:
      return IBV_WC_BIND_MW;
    case IBV_WR_LOCAL_INV:
      return IBV_WC_LOCAL_INV;
    default:
      return IBV_WC_SEND;
  }
}

}  // namespace softib::hca
