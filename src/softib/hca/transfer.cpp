#include "softib/hca/transfer.hpp"

#include <algorithm>

namespace softib::hca {
namespace {

/// Calls `use(element, offset, size)` for each part of an element that belongs to the bytes of a
/// message from `offset` on, until `size` bytes are done or `use` returns false. Returns how many
/// are left.
template <class Use>
std::uint64_t for_each_part(std::span<const ibv_sge> elements, std::uint64_t offset,
                            std::uint64_t size, Use use) {
  for (const auto& element : elements) {
    if (size == 0) break;
    if (offset >= element.length) {
      offset -= element.length;
      continue;
    }
    const auto length = std::min(element.length - offset, size);
    if (!use(element, offset, length)) break;
    size -= length;
    offset = 0;
  }
  return size;
}

}  // namespace

std::uint64_t total_length(std::span<const ibv_sge> elements) {
  std::uint64_t length = 0;
  for (const auto& element : elements) length += element.length;
  return length;
}

ibv_wc_status gather(const MemoryTable& memory, const ProtectionDomain* pd,
                     std::span<const ibv_sge> elements, std::uint64_t offset, std::uint64_t size,
                     Outbox& to) {
  const auto left =
      for_each_part(elements, offset, size, [&](const ibv_sge& element, auto at, auto length) {
        const auto from = memory.resolve(element, pd, false);
        return from && to.add(from.from(at), length);
      });
  return left == 0 ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
}

ibv_wc_status scatter(const MemoryTable& memory, const ProtectionDomain* pd,
                      std::span<const ibv_sge> elements, std::uint64_t offset, ConstBytes from) {
  bool is_refused = false;
  const auto left =
      for_each_part(elements, offset, from.size(), [&](ibv_sge element, auto at, auto length) {
        element.length = static_cast<std::uint32_t>(at + length);
        const auto to = memory.resolve(element, pd, true);
        is_refused = !to || !to.from(at).store(from.first(length));
        from = from.subspan(length);
        return !is_refused;
      });
  if (is_refused) return IBV_WC_LOC_PROT_ERR;
  return left == 0 ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR;
}

}  // namespace softib::hca
