#include "wire/connected_packet.hpp"

#include <array>
#include <cassert>

namespace ipoib::wire {

namespace {

constexpr unsigned kAethValueBits = 5;
constexpr std::uint8_t kAethValueMask = (1U << kAethValueBits) - 1;
constexpr unsigned kOperationBits = 5;  ///< of the BTH's opcode
constexpr std::uint8_t kOperationMask = (1U << kOperationBits) - 1;

/// What an opcode says about its packet.
enum Has : std::uint16_t {
  kReth = 1,
  kAeth = 2,
  kImmediate = 4,
  kPayload = 8,
  kEnd = 16,
  kAtomicEth = 32,
  kAtomicAckEth = 64,
  kBegin = 128,
  kIeth = 256,
};

/// The headers of each opcode; zero if it is reserved, or not supported.
constexpr std::array<unsigned, 30> kOpcodes = {
    kPayload | kBegin,                      // SEND First
    kPayload,                               // SEND Middle
    kPayload | kEnd,                        // SEND Last
    kPayload | kEnd | kImmediate,           // SEND Last with Immediate
    kPayload | kBegin | kEnd,               // SEND Only
    kPayload | kBegin | kEnd | kImmediate,  // SEND Only with Immediate
    kPayload | kBegin | kReth,              // RDMA WRITE First
    kPayload,                               // RDMA WRITE Middle
    kPayload | kEnd,                        // RDMA WRITE Last
    kPayload | kEnd | kImmediate,           // RDMA WRITE Last with Immediate
    kPayload | kBegin | kEnd | kReth,       // RDMA WRITE Only
    kPayload | kBegin | kEnd | kReth | kImmediate,
    kBegin | kEnd | kReth,      // RDMA READ Request
    kPayload | kBegin | kAeth,  // RDMA READ response First
    kPayload,                   // RDMA READ response Middle
    kPayload | kEnd | kAeth,    // RDMA READ response Last
    kPayload | kBegin | kEnd | kAeth,
    kBegin | kEnd | kAeth,                  // Acknowledge
    kBegin | kEnd | kAeth | kAtomicAckEth,  // ATOMIC Acknowledge
    kBegin | kEnd | kAtomicEth,             // CmpSwap
    kBegin | kEnd | kAtomicEth,             // FetchAdd
    0,
    kPayload | kEnd | kIeth,           // SEND Last with Invalidate
    kPayload | kBegin | kEnd | kIeth,  // SEND Only with Invalidate
    0,
    0,
    0,
    0,
    0,
    kPayload | kBegin | kEnd | kReth,  // ATOMIC WRITE
};

/// Whether the opcode of a BTH belongs to one of these services.
bool is_known(std::uint8_t opcode) {
  const auto operation = opcode & kOperationMask;
  switch (static_cast<ConnectedService>(opcode >> kOperationBits)) {
    case ConnectedService::reliable:
    case ConnectedService::extended:
      return static_cast<std::size_t>(operation) < kOpcodes.size() &&
             kOpcodes[static_cast<std::size_t>(operation)] != 0;
    case ConnectedService::unreliable:
      return operation <= static_cast<int>(ConnectedOpcode::write_only_immediate);
  }
  return false;
}

unsigned parts_of(ConnectedOpcode opcode) { return kOpcodes[static_cast<std::size_t>(opcode)]; }

bool has_xrceth(const ConnectedPacket& packet) {
  return packet.service == ConnectedService::extended && !is_response(packet.opcode);
}

std::size_t extended_size(const ConnectedPacket& packet) {
  const auto parts = parts_of(packet.opcode);
  return (has_xrceth(packet) ? ConnectedPacket::kXrcEthSize : 0) +
         ((parts & kReth) != 0 ? Reth::kSize : 0) + ((parts & kAeth) != 0 ? Aeth::kSize : 0) +
         ((parts & kImmediate) != 0 ? kImmediateSize : 0) +
         ((parts & kIeth) != 0 ? sizeof(ConnectedPacket::invalidated_key) : 0) +
         ((parts & kAtomicEth) != 0 ? AtomicEth::kSize : 0) +
         ((parts & kAtomicAckEth) != 0 ? sizeof(ConnectedPacket::original) : 0);
}

Aeth read_aeth(ByteReader& reader) {
  Aeth aeth;
  const auto syndrome = reader.u8();
  aeth.kind = static_cast<Aeth::Kind>(syndrome >> kAethValueBits & 0x03);
  aeth.value = syndrome & kAethValueMask;
  aeth.msn = reader.u24();
  return aeth;
}

AtomicEth read_atomic(ByteReader& reader) {
  AtomicEth atomic;
  atomic.address = reader.u64();
  atomic.key = reader.u32();
  atomic.operand = reader.u64();
  atomic.compare = reader.u64();
  return atomic;
}

void read_extended(ByteReader& reader, ConnectedPacket& packet) {
  const auto parts = parts_of(packet.opcode);
  if (has_xrceth(packet)) {
    (void)reader.u8();  // reserved
    packet.shared_queue = reader.u24();
  }
  if ((parts & kReth) != 0) {
    packet.reth.address = reader.u64();
    packet.reth.key = reader.u32();
    packet.reth.length = reader.u32();
  }
  if ((parts & kAtomicEth) != 0) packet.atomic = read_atomic(reader);
  if ((parts & kAeth) != 0) packet.aeth = read_aeth(reader);
  if ((parts & kImmediate) != 0) packet.immediate = reader.u32();
  if ((parts & kIeth) != 0) packet.invalidated_key = reader.u32();
  if ((parts & kAtomicAckEth) != 0) packet.original = reader.u64();
}

void write_extended(ByteWriter& writer, const ConnectedPacket& packet) {
  const auto parts = parts_of(packet.opcode);
  if (has_xrceth(packet)) {
    writer.u8(0);
    writer.u24(packet.shared_queue);
  }
  if ((parts & kReth) != 0) {
    writer.u64(packet.reth.address);
    writer.u32(packet.reth.key);
    writer.u32(packet.reth.length);
  }
  if ((parts & kAtomicEth) != 0) {
    writer.u64(packet.atomic.address);
    writer.u32(packet.atomic.key);
    writer.u64(packet.atomic.operand);
    writer.u64(packet.atomic.compare);
  }
  if ((parts & kAeth) != 0) {
    writer.u8(static_cast<std::uint8_t>(static_cast<unsigned>(packet.aeth.kind) << kAethValueBits |
                                        (packet.aeth.value & kAethValueMask)));
    writer.u24(packet.aeth.msn);
  }
  if ((parts & kImmediate) != 0) writer.u32(packet.immediate);
  if ((parts & kIeth) != 0) writer.u32(packet.invalidated_key);
  if ((parts & kAtomicAckEth) != 0) writer.u64(packet.original);
}

}  // namespace

bool has_immediate(ConnectedOpcode opcode) { return (parts_of(opcode) & kImmediate) != 0; }

bool has_invalidate(ConnectedOpcode opcode) { return (parts_of(opcode) & kIeth) != 0; }

bool is_send(ConnectedOpcode opcode) {
  return opcode <= ConnectedOpcode::send_only_immediate || has_invalidate(opcode);
}

bool is_write(ConnectedOpcode opcode) {
  return opcode >= ConnectedOpcode::write_first && opcode <= ConnectedOpcode::write_only_immediate;
}

bool is_response(ConnectedOpcode opcode) {
  return opcode >= ConnectedOpcode::read_response_first &&
         opcode <= ConnectedOpcode::atomic_acknowledge;
}

bool is_read_response(ConnectedOpcode opcode) {
  return opcode >= ConnectedOpcode::read_response_first &&
         opcode <= ConnectedOpcode::read_response_only;
}

bool is_atomic(ConnectedOpcode opcode) {
  return opcode == ConnectedOpcode::compare_swap || opcode == ConnectedOpcode::fetch_add;
}

bool begins_message(ConnectedOpcode opcode) { return (parts_of(opcode) & kBegin) != 0; }

bool ends_message(ConnectedOpcode opcode) { return (parts_of(opcode) & kEnd) != 0; }

ConnectedOpcode opcode_of_part(ConnectedOpcode whole, bool is_first, bool is_last) {
  is_first = is_first && begins_message(whole);
  is_last = is_last && ends_message(whole);
  if (is_first && is_last) return whole;
  using enum ConnectedOpcode;
  const auto select = [&](ConnectedOpcode first, ConnectedOpcode middle, ConnectedOpcode last) {
    return is_last ? last : is_first ? first : middle;
  };
  if (is_read_response(whole)) {
    return select(read_response_first, read_response_middle, read_response_last);
  }
  if (is_write(whole)) {
    return select(write_first, write_middle,
                  has_immediate(whole) ? write_last_immediate : write_last);
  }
  if (has_invalidate(whole)) return select(send_first, send_middle, send_last_invalidate);
  return select(send_first, send_middle, has_immediate(whole) ? send_last_immediate : send_last);
}

Duration rnr_delay(std::uint8_t code) {
  // The delays in units of 10 us.
  constexpr std::array<std::uint32_t, 32> kDelays = {
      65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return std::chrono::microseconds(10) * kDelays[code % kDelays.size()];
}

std::optional<ConnectedPacket> ConnectedPacket::parse_headers(ConstBytes bytes) {
  std::optional<ConnectedPacket> parsed(std::in_place);
  auto& packet = *parsed;
  ByteReader reader(bytes);
  if (!packet.read_route(reader) || !is_known(packet.bth.opcode)) return std::nullopt;
  packet.service = static_cast<ConnectedService>(packet.bth.opcode >> kOperationBits);
  packet.opcode = static_cast<ConnectedOpcode>(packet.bth.opcode & kOperationMask);
  read_extended(reader, packet);

  packet.payload = reader.rest();
  const bool may_have_payload = (parts_of(packet.opcode) & kPayload) != 0;
  if (!reader.ok() || (!may_have_payload && !packet.payload.empty())) parsed.reset();
  return parsed;
}

std::optional<ConnectedPacket> ConnectedPacket::parse(ConstBytes bytes) {
  auto parsed = parse_headers(bytes);
  if (parsed && !parsed->read_payload(bytes, parsed->payload)) parsed.reset();
  return parsed;
}

std::size_t ConnectedPacket::header_size() const {
  return Lrh::kSize + (grh ? Grh::kSize : 0) + Bth::kSize + extended_size(*this);
}

std::size_t ConnectedPacket::emit_headers(std::size_t payload_size, MutableBytes to) {
  bth.opcode = static_cast<std::uint8_t>(static_cast<unsigned>(service) << kOperationBits |
                                         static_cast<unsigned>(opcode));
  set_lengths(extended_size(*this), payload_size);
  const std::size_t route = emit_route(to);
  ByteWriter writer(to.subspan(route));
  write_extended(writer, *this);
  assert(writer.ok());
  return route + writer.written();
}

}  // namespace ipoib::wire
