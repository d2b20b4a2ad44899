#include "softib/core/work_requests.hpp"

#include <algorithm>

namespace softib {

ibv_wc_status gather_elements(std::span<const ibv_sge> elements, ElementPlace& from,
                              std::size_t octets, const MemoryTable& memory,
                              const ProtectionDomain* pd, OutgoingPacket& out) {
  while (octets != 0 && from.element < elements.size()) {
    const auto& element = elements[from.element];
    const auto size = std::min<std::size_t>(element.length - from.offset, octets);
    if (size != 0) {
      const auto* const begin = memory.resolve(element, pd, false);
      if (begin == nullptr) return IBV_WC_LOC_PROT_ERR;
      out.pieces[out.piece_count++] = {begin + from.offset, size};
      octets -= size;
    }
    from.offset += static_cast<std::uint32_t>(size);
    if (from.offset == element.length) from = {from.element + 1, 0};
  }
  return IBV_WC_SUCCESS;
}

}  // namespace softib
