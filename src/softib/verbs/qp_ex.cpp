// The functions of an ibv_qp_ex, which build work requests call by call (ibv_wr_post(3)).
// Operations that a queue pair does not have are null: ibv_create_qp_ex() has refused one that
// needs them.
#include "softib/verbs/abi.hpp"
#include "softib/verbs/objects.hpp"

namespace softib::verbs {
namespace {

/// Locks the send queue until ibv_wr_complete() or ibv_wr_abort().
void start(ibv_qp_ex* ibv) {
  of(ibv).sending.lock();
  of(ibv).builder.start();
}

void abort(ibv_qp_ex* ibv) { of(ibv).sending.unlock(); }

int complete(ibv_qp_ex* ibv) noexcept {
  auto& qp = of(ibv);
  const std::lock_guard sending(qp.sending, std::adopt_lock);
  int error = qp.builder.error();
  if (error == 0) {
    error = of(ibv->qp_base.context).device.post(*qp.model, [&](hca::Hca& hca) {
      return hca.post_send_all(*qp.model, qp.builder.chain());
    });
  }
  return post_result("ibv_wr_complete", error);
}

/// Calls `body`; an exception becomes an error of ibv_wr_complete().
template <class Body>
void build(ibv_qp_ex* ibv, Body body) noexcept {
  auto& builder = of(ibv).builder;
  try {
    if (builder.size() > hca::kMaxQueueWr) {
      builder.fail(ENOMEM);
    } else {
      body(builder);
    }
  } catch (...) {
    builder.fail(ENOMEM);
  }
}

void send(ibv_qp_ex* ibv) {
  build(ibv, [&](auto& builder) { builder.begin(IBV_WR_SEND, ibv->wr_id, ibv->wr_flags); });
}

void send_immediate(ibv_qp_ex* ibv, __be32 immediate) {
  build(ibv, [&](auto& builder) {
    builder.begin(IBV_WR_SEND_WITH_IMM, ibv->wr_id, ibv->wr_flags, immediate);
  });
}

void send_large(ibv_qp_ex* ibv, void* header, std::uint16_t header_size, std::uint16_t size) {
  const ConstBytes headers(static_cast<const std::uint8_t*>(header), header_size);
  build(ibv, [&](auto& builder) {
    builder.begin(IBV_WR_TSO, ibv->wr_id, ibv->wr_flags);
    builder.set_segments(headers, size);
  });
}

void remote(ibv_qp_ex* ibv, ibv_wr_opcode opcode, std::uint32_t key, std::uint64_t address,
            __be32 immediate = 0) {
  build(ibv, [&](auto& builder) {
    builder.begin(opcode, ibv->wr_id, ibv->wr_flags, immediate);
    builder.set_remote(key, address);
  });
}

void write(ibv_qp_ex* ibv, std::uint32_t key, std::uint64_t address) {
  remote(ibv, IBV_WR_RDMA_WRITE, key, address);
}

void write_immediate(ibv_qp_ex* ibv, std::uint32_t key, std::uint64_t address, __be32 immediate) {
  remote(ibv, IBV_WR_RDMA_WRITE_WITH_IMM, key, address, immediate);
}

void read(ibv_qp_ex* ibv, std::uint32_t key, std::uint64_t address) {
  remote(ibv, IBV_WR_RDMA_READ, key, address);
}

void compare_swap(ibv_qp_ex* ibv, std::uint32_t key, std::uint64_t address, std::uint64_t compare,
                  std::uint64_t swap) {
  build(ibv, [&](auto& builder) {
    builder.begin(IBV_WR_ATOMIC_CMP_AND_SWP, ibv->wr_id, ibv->wr_flags);
    builder.set_atomic(key, address, compare, swap);
  });
}

void fetch_add(ibv_qp_ex* ibv, std::uint32_t key, std::uint64_t address, std::uint64_t add) {
  build(ibv, [&](auto& builder) {
    builder.begin(IBV_WR_ATOMIC_FETCH_AND_ADD, ibv->wr_id, ibv->wr_flags);
    builder.set_atomic(key, address, add, 0);
  });
}

void invalidate(ibv_qp_ex* ibv, ibv_wr_opcode opcode, std::uint32_t key) {
  build(ibv, [&](auto& builder) {
    builder.begin(opcode, ibv->wr_id, ibv->wr_flags);
    builder.set_invalidated(key);
  });
}

void send_invalidate(ibv_qp_ex* ibv, std::uint32_t key) {
  invalidate(ibv, IBV_WR_SEND_WITH_INV, key);
}

void local_invalidate(ibv_qp_ex* ibv, std::uint32_t key) { invalidate(ibv, IBV_WR_LOCAL_INV, key); }

void bind_window(ibv_qp_ex* ibv, ibv_mw* window, std::uint32_t key, const ibv_mw_bind_info* info) {
  build(ibv, [&](auto& builder) {
    builder.begin(IBV_WR_BIND_MW, ibv->wr_id, ibv->wr_flags);
    builder.set_binding(window, key, *info);
  });
}

void atomic_write(ibv_qp_ex* ibv, std::uint32_t key, std::uint64_t address, const void* word) {
  const ibv_data_buf data{const_cast<void*>(word), hca::kAtomicBytes};
  build(ibv, [&](auto& builder) {
    builder.begin(IBV_WR_ATOMIC_WRITE, ibv->wr_id, ibv->wr_flags);
    builder.set_remote(key, address);
    builder.set_inline(1, &data, hca::kAtomicBytes);
  });
}

void set_destination(ibv_qp_ex* ibv, ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey) {
  build(ibv, [&](auto& builder) { builder.set_destination(ah, qpn, qkey); });
}

void set_shared_queue(ibv_qp_ex* ibv, std::uint32_t number) {
  build(ibv, [&](auto& builder) { builder.set_shared_queue(number); });
}

void set_elements(ibv_qp_ex* ibv, std::size_t count, const ibv_sge* elements) {
  build(ibv, [&](auto& builder) { builder.set_elements(count, elements); });
}

void set_element(ibv_qp_ex* ibv, std::uint32_t key, std::uint64_t address, std::uint32_t length) {
  const ibv_sge element{address, length, key};
  set_elements(ibv, 1, &element);
}

void set_inline_list(ibv_qp_ex* ibv, std::size_t count, const ibv_data_buf* buffers) {
  const auto limit = of(ibv).model->config().cap.max_inline_data;
  build(ibv, [&](auto& builder) { builder.set_inline(count, buffers, limit); });
}

void set_inline(ibv_qp_ex* ibv, void* data, std::size_t length) {
  const ibv_data_buf buffer{data, length};
  set_inline_list(ibv, 1, &buffer);
}

}  // namespace

void fill_in_qp_ex(Qp& qp) {
  qp.wr_start = start;
  qp.wr_complete = complete;
  qp.wr_abort = abort;
  qp.wr_send = send;
  qp.wr_send_imm = send_immediate;
  if (qp.model->is_connected()) {
    qp.wr_rdma_write = write;
    qp.wr_rdma_write_imm = write_immediate;
    qp.wr_rdma_read = read;
    qp.wr_atomic_cmp_swp = compare_swap;
    qp.wr_atomic_fetch_add = fetch_add;
    qp.wr_atomic_write = atomic_write;
    qp.wr_send_inv = send_invalidate;
    qp.wr_local_inv = local_invalidate;
    qp.wr_bind_mw = bind_window;
    qp.wr_set_xrc_srqn = set_shared_queue;
  } else {
    qp.wr_send_tso = send_large;
    qp.wr_set_ud_addr = set_destination;
  }
  qp.wr_set_sge = set_element;
  qp.wr_set_sge_list = set_elements;
  qp.wr_set_inline_data = set_inline;
  qp.wr_set_inline_data_list = set_inline_list;
}

}  // namespace softib::verbs
