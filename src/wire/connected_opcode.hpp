// The opcodes of the connection services.
#pragma once

#include <cstdint>

namespace ipoib::wire {

/// The upper three bits of the BTH's opcode (IBA 9.2, table 38).
/// The extended one is reliable, too, and names a shared receive queue in each request.
enum class ConnectedService : std::uint8_t { reliable = 0, unreliable = 1, extended = 5 };

/// The lower five bits of the BTH's opcode. The unreliable service has SEND and RDMA WRITE only.
enum class ConnectedOpcode : std::uint8_t {
  send_first = 0x00,
  send_middle = 0x01,
  send_last = 0x02,
  send_last_immediate = 0x03,
  send_only = 0x04,
  send_only_immediate = 0x05,
  write_first = 0x06,
  write_middle = 0x07,
  write_last = 0x08,
  write_last_immediate = 0x09,
  write_only = 0x0a,
  write_only_immediate = 0x0b,
  read_request = 0x0c,
  read_response_first = 0x0d,
  read_response_middle = 0x0e,
  read_response_last = 0x0f,
  read_response_only = 0x10,
  acknowledge = 0x11,
  atomic_acknowledge = 0x12,
  compare_swap = 0x13,
  fetch_add = 0x14,
  send_last_invalidate = 0x16,
  send_only_invalidate = 0x17,
  atomic_write = 0x1d,  ///< IBA volume 1, release 1.5
};

[[nodiscard]] bool has_immediate(ConnectedOpcode opcode);
[[nodiscard]] bool has_invalidate(ConnectedOpcode opcode);
[[nodiscard]] bool is_send(ConnectedOpcode opcode);
[[nodiscard]] bool is_write(ConnectedOpcode opcode);
[[nodiscard]] bool is_response(ConnectedOpcode opcode);
[[nodiscard]] bool is_read_response(ConnectedOpcode opcode);
[[nodiscard]] bool is_atomic(ConnectedOpcode opcode);  ///< a request that returns a value
/// The opcode of one packet of those that `whole` stands for (a message or a READ response), which
/// may be the first, the last, both or neither.
[[nodiscard]] ConnectedOpcode opcode_of_part(ConnectedOpcode whole, bool is_first, bool is_last);
/// Whether it is the first packet of a message, or the only one.
[[nodiscard]] bool begins_message(ConnectedOpcode opcode);
/// Whether it is the last packet of a message, or the only one.
[[nodiscard]] bool ends_message(ConnectedOpcode opcode);

}  // namespace ipoib::wire
