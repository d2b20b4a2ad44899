// The functions of an ibv_cq_ex, which read completions field by field (ibv_create_cq_ex(3)).
#include <chrono>

#include "ipoib/monotonic_clock.hpp"
#include "softib/verbs/abi.hpp"
#include "softib/verbs/objects.hpp"

namespace softib::verbs {
namespace {

int take_next(Cq& cq) {
  const int count = poll(cq, {&cq.current, 1}, {&cq.current_time, 1});
  if (count == 0) return ENOENT;
  if (count < 0) return EIO;
  cq.status = cq.current.status;
  cq.wr_id = cq.current.wr_id;
  return 0;
}

int start_poll(ibv_cq_ex* ibv, ibv_poll_cq_attr* attr) {
  if (attr != nullptr && attr->comp_mask != 0) return EINVAL;
  return take_next(of(ibv));
}

/// Takes the next completion. Receives no packets: a completion that they cause, and its event,
/// come after this batch.
int next_poll(ibv_cq_ex* ibv) {
  auto& cq = of(ibv);
  return cq.model->idle() ? ENOENT : take_next(cq);
}

std::uint64_t nanoseconds(std::chrono::nanoseconds since) {
  return static_cast<std::uint64_t>(since.count());
}

/// The time of the completion by the clock of the HCA, which is the monotonic clock, in
/// nanoseconds.
std::uint64_t read_time(ibv_cq_ex* from) {
  return nanoseconds(of(from).current_time.time_since_epoch());
}

/// The wall-clock time of the completion, as if the clock of the day had run evenly since then.
std::uint64_t read_wallclock(ibv_cq_ex* from) {
  const auto age = ipoib::monotonic_now() - of(from).current_time;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return nanoseconds(now - age);
}

void end_poll(ibv_cq_ex* /*ibv*/) {}

}  // namespace

void fill_in_cq_ex(Cq& cq) {
  cq.start_poll = start_poll;
  cq.next_poll = next_poll;
  cq.end_poll = end_poll;
  cq.read_completion_ts = read_time;
  cq.read_completion_wallclock_ns = read_wallclock;
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
