#include "softib/hca/work_requests.hpp"

namespace softib::hca {

ibv_wc_status gather_elements(std::span<const ibv_sge> elements, const MemoryTable& memory,
                              const ProtectionDomain* pd, OutgoingPacket& out) {
  for (const auto& element : elements) {
    if (element.length == 0) continue;
    const auto* const begin = memory.resolve(element, pd, false);
    if (begin == nullptr) return IBV_WC_LOC_PROT_ERR;
    out.add({begin, element.length});
  }
  return IBV_WC_SUCCESS;
}

}  // namespace softib::hca
