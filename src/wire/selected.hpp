// A value and its selector in one byte: | selector 2 | value 6 |.
#pragma once

#include <cstdint>

#include "ipoib/bytes.hpp"
#include "wire/sa_values.hpp"

namespace ipoib::wire {

inline void read_selected(ByteReader& reader, Selector& selector, std::uint8_t& value) {
  const std::uint8_t byte = reader.u8();
  selector = static_cast<Selector>(byte >> 6);
  value = byte & 0x3f;
}

inline void write_selected(ByteWriter& writer, Selector selector, std::uint8_t value) {
  writer.u8(static_cast<std::uint8_t>(static_cast<unsigned>(selector) << 6 | (value & 0x3fU)));
}

}  // namespace ipoib::wire
