// What a fuzz target holds its subject to.
#pragma once

#include <cstdlib>
#include <vector>

#include "ipoib/bytes.hpp"

namespace ipoib {

inline void require(bool what) {
  if (!what) std::abort();
}

/// What parses is the same value after emit() and parse(). The octets need not be the same:
/// reserved fields are not kept.
template <class Value>
void require_stable(ConstBytes octets) {
  const auto value = Value::parse(octets);
  if (!value) return;
  std::vector<std::uint8_t> emitted(octets.size());
  value->emit(emitted);
  require(Value::parse(emitted) == value);
}

}  // namespace ipoib
