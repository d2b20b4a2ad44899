// The memory of this process, part of which may not be mapped.
#pragma once

#include "softib/hca/registered_memory.hpp"

namespace softib::verbs {

/// Lets the kernel copy (process_vm_readv(2) on the process itself), which reports missing memory
/// instead of raising SIGSEGV, and needs no signal handler of the program's.
class ProcessMemory final : public hca::OnDemandMemory {
 public:
  [[nodiscard]] bool read(std::span<std::uint8_t> to, const std::uint8_t* from) override;
  [[nodiscard]] bool write(std::uint8_t* to, hca::ConstBytes from) override;
  [[nodiscard]] bool populate(std::uint8_t* begin, std::size_t size) override;
};

/// Makes pages present, as ibv_advise_mr() asks for. Returns 0 or an errno value: EFAULT for
/// missing memory.
[[nodiscard]] int prefetch_pages(std::uint8_t* begin, std::size_t size, bool to_write);
/// Whether all of the range is mapped now.
[[nodiscard]] bool is_mapped(const void* begin, std::size_t size);

}  // namespace softib::verbs
