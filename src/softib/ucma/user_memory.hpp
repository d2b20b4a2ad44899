// Copies from and to memory that a command names. As with the kernel, an address without memory
// causes EFAULT.
#pragma once

#include <cstdint>

#include "ipoib/bytes.hpp"
#include "ipoib/result.hpp"

namespace softib::ucma {

[[nodiscard]] ipoib::Result<void> copy_to_user(std::uint64_t address, ipoib::ConstBytes bytes);
[[nodiscard]] ipoib::Result<void> copy_from_user(ipoib::MutableBytes to, std::uint64_t address);

}  // namespace softib::ucma
