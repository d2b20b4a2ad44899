// The functions of the ABI that only access a buffer.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>

#include "softib/umad/abi.hpp"

namespace softib::umad {

namespace {
constinit std::atomic<int> level = 0;
}

int debug_level() { return level.load(std::memory_order_relaxed); }

void print_stderr(const char* function, const std::string& text) {
  std::fprintf(stderr, "libsoftib: [%d] %s: %s\n", ::getpid(), function, text.c_str());
}

}  // namespace softib::umad

namespace {

ib_user_mad& mad(void* umad) { return *static_cast<ib_user_mad*>(umad); }

std::string hex(const std::uint8_t* bytes, std::size_t count) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text.push_back(kDigits[bytes[i] >> 4]);
    text.push_back(kDigits[bytes[i] & 0x0f]);
  }
  return text;
}

}  // namespace

extern "C" {

int umad_init(void) { return 0; }
int umad_done(void) { return 0; }

void* umad_get_mad(void* umad) { return mad(umad).data; }
size_t umad_size(void) { return sizeof(ib_user_mad); }
int umad_status(void* umad) { return static_cast<int>(mad(umad).status); }
ib_mad_addr_t* umad_get_mad_addr(void* umad) { return &mad(umad).addr; }

int umad_set_grh(void* umad, void* mad_addr) {
  auto& to = mad(umad).addr;
  to.grh_present = mad_addr != nullptr ? 1 : 0;
  if (mad_addr == nullptr) return 0;
  const auto& from = *static_cast<const ib_mad_addr_t*>(mad_addr);
  std::memcpy(to.gid, from.gid, sizeof to.gid);
  to.flow_label = softib::to_network(from.flow_label);
  to.hop_limit = from.hop_limit;
  to.traffic_class = from.traffic_class;
  return 0;
}

int umad_set_addr_net(void* umad, __be16 dlid, __be32 dqp, int sl, __be32 qkey) {
  auto& to = mad(umad).addr;
  to.lid = dlid;
  to.qpn = dqp;
  to.sl = static_cast<std::uint8_t>(sl);
  to.qkey = qkey;
  return 0;
}

int umad_set_addr(void* umad, int dlid, int dqp, int sl, int qkey) {
  return umad_set_addr_net(umad, softib::to_network(static_cast<std::uint16_t>(dlid)),
                           softib::to_network(static_cast<std::uint32_t>(dqp)), sl,
                           softib::to_network(static_cast<std::uint32_t>(qkey)));
}

int umad_set_pkey(void* umad, int pkey_index) {
  mad(umad).addr.pkey_index = static_cast<std::uint16_t>(pkey_index);
  return 0;
}

int umad_get_pkey(void* umad) { return mad(umad).addr.pkey_index; }

int umad_debug(int wanted) {
  if (wanted >= 0) softib::umad::level = wanted;
  return softib::umad::level;
}

void umad_addr_dump(ib_mad_addr_t* addr) {
  std::array<char, 256> text;
  std::snprintf(text.data(), text.size(),
                "qpn %u qkey 0x%x lid %u sl %u grh_present %u gid_index %u hop_limit %u "
                "traffic_class %u flow_label 0x%x pkey_index 0x%x gid 0x%s",
                softib::from_network(addr->qpn), softib::from_network(addr->qkey),
                softib::from_network(addr->lid), unsigned{addr->sl}, unsigned{addr->grh_present},
                unsigned{addr->gid_index}, unsigned{addr->hop_limit}, unsigned{addr->traffic_class},
                softib::from_network(addr->flow_label), unsigned{addr->pkey_index},
                hex(addr->gid, sizeof addr->gid).c_str());
  softib::umad::print_stderr("umad_addr_dump", text.data());
}

void umad_dump(void* umad) {
  std::array<char, 80> text;
  std::snprintf(text.data(), text.size(), "agent id %u status %x timeout %u", mad(umad).agent_id,
                mad(umad).status, mad(umad).timeout_ms);
  softib::umad::print_stderr("umad_dump", text.data());
  umad_addr_dump(&mad(umad).addr);
}

}  // extern "C"
