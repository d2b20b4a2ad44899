// Checks of the fuzz targets.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>
#include <vector>

#include "ipoib/bytes.hpp"

namespace ipoib {

inline void require(bool what, std::source_location at = std::source_location::current()) {
  if (what) return;
  std::fprintf(stderr, "%s:%u: does not hold\n", at.file_name(), at.line());
  std::abort();
}

/// Checks that bytes that parse have the same value after emit() and parse(). The bytes may differ
/// in reserved fields.
template <class Value>
void require_stable(ConstBytes bytes) {
  const auto value = Value::parse(bytes);
  if (!value) return;
  std::vector<std::uint8_t> emitted(bytes.size());
  value->emit(emitted);
  require(Value::parse(emitted) == value);
}

}  // namespace ipoib
