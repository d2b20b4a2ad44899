// The functions of an ibv_cq_ex, which read completions field by field (ibv_create_cq_ex(3)).
#include "softib/verbs/abi.hpp"
#include "softib/verbs/objects.hpp"

namespace softib::verbs {
namespace {

int next_poll(ibv_cq_ex* ibv) {
  auto& cq = of(ibv);
  const int count = ibv_poll_cq(as_cq(cq), 1, &cq.current);
  if (count == 0) return ENOENT;
  if (count < 0) return EIO;
  cq.status = cq.current.status;
  cq.wr_id = cq.current.wr_id;
  return 0;
}

int start_poll(ibv_cq_ex* ibv, ibv_poll_cq_attr* attr) {
  if (attr != nullptr && attr->comp_mask != 0) return EINVAL;
  return next_poll(ibv);
}

void end_poll(ibv_cq_ex* /*ibv*/) {}

}  // namespace

void fill_in_cq_ex(Cq& cq) {
  cq.start_poll = start_poll;
  cq.next_poll = next_poll;
  cq.end_poll = end_poll;
  cq.read_opcode = [](ibv_cq_ex* from) { return of(from).current.opcode; };
  cq.read_vendor_err = [](ibv_cq_ex* from) { return of(from).current.vendor_err; };
  cq.read_byte_len = [](ibv_cq_ex* from) { return of(from).current.byte_len; };
  cq.read_imm_data = [](ibv_cq_ex* from) { return of(from).current.imm_data; };
  cq.read_qp_num = [](ibv_cq_ex* from) { return of(from).current.qp_num; };
  cq.read_src_qp = [](ibv_cq_ex* from) { return of(from).current.src_qp; };
  cq.read_wc_flags = [](ibv_cq_ex* from) { return of(from).current.wc_flags; };
  cq.read_slid = [](ibv_cq_ex* from) { return std::uint32_t{of(from).current.slid}; };
  cq.read_sl = [](ibv_cq_ex* from) { return of(from).current.sl; };
  cq.read_dlid_path_bits = [](ibv_cq_ex* from) { return of(from).current.dlid_path_bits; };
}

}  // namespace softib::verbs
