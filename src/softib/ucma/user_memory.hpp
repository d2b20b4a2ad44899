// Memory that a command names: the kernel says EFAULT for an address that is none.
#pragma once

#include <cstdint>

#include "ipoib/bytes.hpp"
#include "ipoib/result.hpp"

namespace softib::ucma {

[[nodiscard]] ipoib::Result<void> copy_to_user(std::uint64_t address, ipoib::ConstBytes bytes);
[[nodiscard]] ipoib::Result<void> copy_from_user(ipoib::MutableBytes to, std::uint64_t address);

}  // namespace softib::ucma
