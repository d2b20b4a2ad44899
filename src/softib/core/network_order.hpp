// Conversion of fields that verbs keeps in network byte order: immediate data, P_Keys, GUIDs.
#pragma once

#include <bit>
#include <concepts>

#include "ipoib/bytes.hpp"

namespace softib {

template <std::unsigned_integral T>
[[nodiscard]] T to_network(T value) {
  std::array<std::uint8_t, sizeof(T)> bytes;
  ipoib::store_be(bytes.data(), value);
  return std::bit_cast<T>(bytes);
}

template <std::unsigned_integral T>
[[nodiscard]] T from_network(T value) {
  const auto bytes = std::bit_cast<std::array<std::uint8_t, sizeof(T)>>(value);
  return ipoib::load_be<T>(bytes.data());
}

}  // namespace softib
