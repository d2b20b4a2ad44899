// Checks of the fuzz targets.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>

#include "ipoib/bytes.hpp"

namespace ipoib {

inline void require(bool what, std::source_location at = std::source_location::current()) {
  if (what) return;
  std::fprintf(stderr, "%s:%u: does not hold\n", at.file_name(), at.line());
  std::abort();
}

/// Room for `size` bytes, at most kMaxScratch, all zero, until the next call. It ends where a
/// buffer ends, so the address sanitizer finds what is written beyond it; a std::vector for each
/// value would take most of the time of a fast parser.
inline constexpr std::size_t kMaxScratch = 8192;
[[nodiscard]] MutableBytes scratch(std::size_t size);
/// The same, with these bytes instead of zeros; they are not those of an earlier call.
[[nodiscard]] MutableBytes scratch_copy(ConstBytes bytes, ConstBytes more = {});

/// Checks that bytes that parse have the same value after emit() and parse(). The bytes may differ
/// in reserved fields.
template <class Value>
void require_stable(ConstBytes bytes) {
  const auto value = Value::parse(bytes);
  if (!value) return;
  const MutableBytes emitted = scratch(bytes.size());
  value->emit(emitted);
  require(Value::parse(emitted) == value);
}

}  // namespace ipoib
