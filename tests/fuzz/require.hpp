// Checks of the fuzz targets.
#pragma once

#include <cstdlib>
#include <vector>

#include "ipoib/bytes.hpp"

namespace ipoib {

inline void require(bool what) {
  if (!what) std::abort();
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
