// LRH (IBA 7.7):   | VL 4, LVer 4 | SL 4, - 2, LNH 2 | DLID 16 | - 5, length 11 | SLID 16 |
// GRH (IBA 8.3):   | ver 4, class 8, flow 20 | PayLen 16 | NxtHdr 8 | HopLmt 8 | SGID | DGID |
// BTH (IBA 9.2):   | opcode 8 | SE 1, M 1, pad 2, TVer 4 | P_Key 16 | - 8 | QP 24 | A 1, - 7 |
//                  | PSN 24 |
// DETH (IBA 9.3.3):| Q_Key 32 | - 8 | source QP 24 |
#include "wire/packet.hpp"

#include <cassert>

namespace ipoib::wire {

namespace {

constexpr std::uint16_t kMaxLrhLength = 0x7ff;

bool read(ConstBytes bytes, Lrh& lrh) {
  ByteReader reader(bytes);
  const std::uint8_t lane = reader.u8();
  const std::uint8_t level = reader.u8();
  lrh.virtual_lane = lane >> 4;
  lrh.sl = ServiceLevel(level >> 4);
  lrh.next_header = level & 0x03;
  lrh.dlid = Lid(reader.u16());
  lrh.length = reader.u16() & kMaxLrhLength;
  lrh.slid = Lid(reader.u16());
  const bool is_version_0 = (lane & 0x0f) == 0;
  return reader.ok() && is_version_0;
}

bool read(ConstBytes bytes, Grh& grh) {
  ByteReader reader(bytes);
  const std::uint32_t route = reader.u32();
  grh.traffic_class = static_cast<std::uint8_t>(route >> 20);
  grh.flow_label = route & 0xfffff;
  grh.payload_length = reader.u16();
  grh.next_header = reader.u8();
  grh.hop_limit = reader.u8();
  grh.sgid = Gid(reader.array<Gid::kSize>());
  grh.dgid = Gid(reader.array<Gid::kSize>());
  return reader.ok() && route >> 28 == 6;
}

bool read(ConstBytes bytes, Bth& bth) {
  ByteReader reader(bytes);
  bth.opcode = reader.u8();
  const std::uint8_t flags = reader.u8();
  bth.solicited = (flags & 0x80) != 0;
  bth.pad = flags >> 4 & 0x03;
  bth.pkey = PKey(reader.u16());
  bth.becn = (reader.u8() & 0x40) != 0;
  bth.destination = Qpn(reader.u24());
  bth.ack_request = (reader.u8() & 0x80) != 0;
  bth.psn = Psn(reader.u24());
  const bool is_version_0 = (flags & 0x0f) == 0;
  return reader.ok() && is_version_0;
}

bool read(ConstBytes bytes, Deth& deth) {
  ByteReader reader(bytes);
  deth.qkey = QKey(reader.u32());
  reader.skip(1);
  deth.source = Qpn(reader.u24());
  return reader.ok();
}

/// Parses in place: copying a value whose fields have just been written causes store-forwarding
/// stalls.
template <class Header>
std::optional<Header> parse_as(ConstBytes bytes) {
  std::optional<Header> parsed(std::in_place);
  if (!read(bytes, *parsed)) parsed.reset();
  return parsed;
}

}  // namespace

std::optional<Lrh> Lrh::parse(ConstBytes bytes) { return parse_as<Lrh>(bytes); }

void Lrh::emit(MutableBytes to) const {
  ByteWriter writer(to);
  writer.u8(static_cast<std::uint8_t>(virtual_lane << 4));
  writer.u8(static_cast<std::uint8_t>(sl.value() << 4 | (next_header & 0x03)));
  writer.u16(dlid.value());
  writer.u16(length & kMaxLrhLength);
  writer.u16(slid.value());
  assert(writer.ok());
}

std::optional<Grh> Grh::parse(ConstBytes bytes) { return parse_as<Grh>(bytes); }

void Grh::emit(MutableBytes to) const {
  ByteWriter writer(to);
  writer.u32(6U << 28 | std::uint32_t{traffic_class} << 20 | (flow_label & 0xfffff));
  writer.u16(payload_length);
  writer.u8(next_header);
  writer.u8(hop_limit);
  writer.bytes(sgid.bytes());
  writer.bytes(dgid.bytes());
  assert(writer.ok());
}

std::optional<Bth> Bth::parse(ConstBytes bytes) { return parse_as<Bth>(bytes); }

void Bth::emit(MutableBytes to) const {
  ByteWriter writer(to);
  writer.u8(opcode);
  writer.u8(static_cast<std::uint8_t>((solicited ? 0x80 : 0) | (pad & 0x03) << 4));
  writer.u16(pkey.value());
  writer.u8(becn ? 0x40 : 0);
  writer.u24(destination.value());
  writer.u8(ack_request ? 0x80 : 0);
  writer.u24(psn.value());
  assert(writer.ok());
}

std::optional<Deth> Deth::parse(ConstBytes bytes) { return parse_as<Deth>(bytes); }

void Deth::emit(MutableBytes to) const {
  ByteWriter writer(to);
  writer.u32(qkey.value());
  writer.zeros(1);
  writer.u24(source.value());
  assert(writer.ok());
}

std::optional<std::uint8_t> DataPacket::opcode_of(ConstBytes packet) {
  if (packet.size() < Lrh::kSize) return std::nullopt;
  const auto next_header = packet[1] & 0x03;
  const auto at = Lrh::kSize + (next_header == Lrh::kLnhGlobal ? Grh::kSize : 0);
  const bool has_bth = next_header == Lrh::kLnhGlobal || next_header == Lrh::kLnhLocal;
  return has_bth && at < packet.size() ? std::optional(packet[at]) : std::nullopt;
}

bool DataPacket::read_route(ByteReader& reader) {
  if (!read(reader.take(Lrh::kSize), lrh)) return false;
  if (lrh.next_header == Lrh::kLnhGlobal) {
    grh.emplace();
    if (!read(reader.take(Grh::kSize), *grh) || grh->next_header != Grh::kNextHeaderIba)
      return false;
  } else if (lrh.next_header != Lrh::kLnhLocal) {
    return false;
  }
  return read(reader.take(Bth::kSize), bth);
}

bool DataPacket::read_payload(ConstBytes packet, ConstBytes rest) {
  const auto size = packet.size() + kIcrcSize;
  if (lrh.length * Lrh::kWord != size || rest.size() < bth.pad ||
      (grh && grh->payload_length != size - Lrh::kSize - Grh::kSize)) {
    return false;
  }
  payload = rest.first(rest.size() - bth.pad);
  return true;
}

void DataPacket::set_lengths(std::size_t extended, std::size_t payload_size) {
  const std::size_t padded = (payload_size + Lrh::kWord - 1) / Lrh::kWord * Lrh::kWord;
  const std::size_t transport = Bth::kSize + extended + padded + kIcrcSize;
  const std::size_t size = Lrh::kSize + (grh ? Grh::kSize : 0) + transport;
  assert(size % Lrh::kWord == 0 && size / Lrh::kWord <= kMaxLrhLength);

  lrh.next_header = grh ? Lrh::kLnhGlobal : Lrh::kLnhLocal;
  lrh.length = static_cast<std::uint16_t>(size / Lrh::kWord);
  bth.pad = static_cast<std::uint8_t>(padded - payload_size);
  if (grh) {
    grh->next_header = Grh::kNextHeaderIba;
    grh->payload_length = static_cast<std::uint16_t>(transport);
  }
}

std::size_t DataPacket::emit_route(MutableBytes to) const {
  lrh.emit(to);
  std::size_t used = Lrh::kSize;
  if (grh) {
    grh->emit(to.subspan(used));
    used += Grh::kSize;
  }
  bth.emit(to.subspan(used));
  return used + Bth::kSize;
}

std::optional<UdPacket> UdPacket::parse_headers(ConstBytes bytes) {
  const auto opcode = opcode_of(bytes);
  if (opcode != Bth::kUdSendOnly && opcode != Bth::kUdSendOnlyImmediate) return std::nullopt;
  std::optional<UdPacket> parsed(std::in_place);
  ByteReader reader(bytes);
  if (!parsed->read_route(reader) || !read(reader.take(Deth::kSize), parsed->deth)) {
    return std::nullopt;
  }
  if (opcode == Bth::kUdSendOnlyImmediate) parsed->immediate = reader.u32();
  parsed->payload = reader.rest();
  if (!reader.ok()) parsed.reset();
  return parsed;
}

std::optional<UdPacket> UdPacket::parse(ConstBytes bytes) {
  auto parsed = parse_headers(bytes);
  if (parsed && !parsed->read_payload(bytes, parsed->payload)) parsed.reset();
  return parsed;
}

void UdPacket::set_size(std::size_t payload_size) {
  bth.opcode = immediate ? Bth::kUdSendOnlyImmediate : Bth::kUdSendOnly;
  set_lengths(Deth::kSize + (immediate ? kImmediateSize : 0), payload_size);
}

std::size_t UdPacket::emit_headers(std::size_t payload_size, MutableBytes to) {
  set_size(payload_size);
  std::size_t used = emit_route(to);
  deth.emit(to.subspan(used));
  used += Deth::kSize;
  if (immediate) {
    store_be(to.subspan(used, kImmediateSize).data(), *immediate);
    used += kImmediateSize;
  }
  return used;
}

}  // namespace ipoib::wire
