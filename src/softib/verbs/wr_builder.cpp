#include "softib/verbs/wr_builder.hpp"

#include <bit>
#include <cerrno>

namespace softib::verbs {

void WrBuilder::start() {
  built_.clear();
  error_ = 0;
}

void WrBuilder::begin(ibv_wr_opcode opcode, std::uint64_t id, unsigned flags, __be32 immediate) {
  auto& request = built_.emplace_back().request;
  request.wr_id = id;
  request.opcode = opcode;
  request.send_flags = flags & ~unsigned{IBV_SEND_INLINE};
  request.imm_data = immediate;
}

void WrBuilder::set_segments(ipoib::ConstBytes headers, std::uint16_t size) {
  auto& built = built_.back();
  built.headers.assign(headers.begin(), headers.end());
  built.request.tso.hdr = built.headers.data();
  built.request.tso.hdr_sz = static_cast<std::uint16_t>(headers.size());
  built.request.tso.mss = size;
}

void WrBuilder::fail(int error) {
  if (error_ == 0) error_ = error;
}

void WrBuilder::set_remote(std::uint32_t key, std::uint64_t address) {
  auto& to = built_.back().request.wr.rdma;
  to.rkey = key;
  to.remote_addr = address;
}

void WrBuilder::set_atomic(std::uint32_t key, std::uint64_t address, std::uint64_t compare_add,
                           std::uint64_t swap) {
  auto& to = built_.back().request.wr.atomic;
  to = {address, compare_add, swap, key};
}

void WrBuilder::set_invalidated(std::uint32_t key) { built_.back().request.invalidate_rkey = key; }

void WrBuilder::set_binding(ibv_mw* window, std::uint32_t key, const ibv_mw_bind_info& info) {
  built_.back().request.bind_mw = {window, key, info};
}

void WrBuilder::set_destination(ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey) {
  if (built_.empty()) return fail(EINVAL);
  auto& to = built_.back().request.wr.ud;
  to.ah = ah;
  to.remote_qpn = qpn;
  to.remote_qkey = qkey;
}

void WrBuilder::set_shared_queue(std::uint32_t number) {
  if (built_.empty()) return fail(EINVAL);
  built_.back().request.qp_type.xrc.remote_srqn = number;
}

void WrBuilder::set_elements(std::size_t count, const ibv_sge* elements) {
  if (built_.empty()) return fail(EINVAL);
  built_.back().elements.assign(elements, elements + count);
}

void WrBuilder::set_inline(std::size_t count, const ibv_data_buf* buffers, std::size_t limit) {
  if (built_.empty()) return fail(EINVAL);
  auto& built = built_.back();
  built.request.send_flags |= IBV_SEND_INLINE;
  built.data.clear();
  for (std::size_t i = 0; i < count; ++i) {
    if (buffers[i].length > limit - built.data.size()) return fail(EINVAL);
    const auto* const from = static_cast<const std::uint8_t*>(buffers[i].addr);
    built.data.insert(built.data.end(), from, from + buffers[i].length);
  }
}

ibv_send_wr* WrBuilder::chain() {
  ibv_send_wr** link = nullptr;
  for (auto& built : built_) {
    if ((built.request.send_flags & IBV_SEND_INLINE) != 0) {
      built.elements = {{std::bit_cast<std::uint64_t>(built.data.data()),
                         static_cast<std::uint32_t>(built.data.size()), 0}};
    }
    built.request.sg_list = built.elements.data();
    built.request.num_sge = static_cast<int>(built.elements.size());
    built.request.next = nullptr;
    if (link != nullptr) *link = &built.request;
    link = &built.request.next;
  }
  return built_.empty() ? nullptr : &built_.front().request;
}

}  // namespace softib::verbs
