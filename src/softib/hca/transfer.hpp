// Copies between messages and the memory of the scatter elements of a work request.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>

#include "softib/hca/memory_table.hpp"
#include "softib/hca/outbox.hpp"

namespace softib::hca {

/// Bytes of all elements.
[[nodiscard]] std::uint64_t total_length(std::span<const ibv_sge> elements);

/// Adds `size` bytes of a message, from `offset` on, to the last packet of `to`; the packet refers
/// to the memory of the elements. Returns IBV_WC_LOC_PROT_ERR if an element is not memory of `pd`.
[[nodiscard]] ibv_wc_status gather(const MemoryTable& memory, const ProtectionDomain* pd,
                                   std::span<const ibv_sge> elements, std::uint64_t offset,
                                   std::uint64_t size, Outbox& to);

/// Writes a part of a message, which begins at `offset`, to the memory of the elements. Returns
/// IBV_WC_LOC_PROT_ERR if an element is not writable memory of `pd` up to the end of the part;
/// IBV_WC_LOC_LEN_ERR if the elements are too short, after what fits has been written.
[[nodiscard]] ibv_wc_status scatter(const MemoryTable& memory, const ProtectionDomain* pd,
                                    std::span<const ibv_sge> elements, std::uint64_t offset,
                                    ConstBytes from);

}  // namespace softib::hca
