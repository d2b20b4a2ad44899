// What follows the MAD header, 232 bytes (IBA 12.6, 12.8, 12.11). Offsets are from there; bits of a
// byte are listed from the highest. "-" is reserved.
//
// REQ:
//   0          4          8           16        24          28      32     35          36
//   | local ID | vendor - | ServiceID | CA GUID | vendor -  | Q_Key | QPN  | responder | ...
//   36       39                40       43                                       44
//   | EECN - | initiator depth | EECN - | remote time-out 5, transport 2, flow 1 | ...
//   44             47                                48      50                    51
//   | starting PSN | local time-out 5, retry count 3 | P_Key | MTU 4, RDC 1, RNR 3 | ...
//   51                                           52             96               140
//   | max. CM retries 4, SRQ 1, ext. transport 3 | primary path | alternate path | private data |
//
// A path:
//   0           2            4           20           36
//   | local LID | remote LID | local GID | remote GID | flow label 20, - 6, rate 6 |
//   40              41          42                       43                     44
//   | traffic class | hop limit | SL 4, subnet local 1 - | ACK time-out 5, - |
//
// MRA:  | local ID | remote ID | 8: message 2 - | service time-out 5 - | 10: private data |
// REJ:  | local ID | remote ID | 8: message 2 - | info length 7 - | reason 16 | 12: info |
//       84: private data |
// REP:  | local ID | remote ID | 8: Q_Key | QPN 24 - | 16: EECN - | 20: starting PSN 24 - |
//       24: responder | initiator depth | ACK delay 5, failover 2, flow 1 | RNR 3, SRQ 1 - |
//       28: CA GUID | 36: private data |
// RTU:  | local ID | remote ID | 8: private data |
// DREQ: | local ID | remote ID | 8: remote QPN 24 - | 12: private data |
// DREP: | local ID | remote ID | 8: private data |
// SIDR_REQ: | request ID | 4: P_Key | - | 8: ServiceID | 16: private data |
// SIDR_REP: | request ID | 4: status | info length | - 16 | 8: QPN 24 - | 12: ServiceID | 20: Q_Key
// |
//       24: info | 96: private data |
// LAP:  | local ID | remote ID | ... |
// APR:  | local ID | remote ID | 8: info length | status | - | 12: info | 84: private data |
#include "wire/cm_messages.hpp"

#include <algorithm>
#include <cassert>
#include <concepts>
#include <type_traits>

namespace ipoib::wire {

namespace {

/// A field of `bits` bits whose lowest one is bit `shift` of `byte`.
constexpr std::uint8_t field(std::uint8_t byte, unsigned shift, unsigned bits) {
  return static_cast<std::uint8_t>(byte >> shift & ((1U << bits) - 1));
}
constexpr bool bit(std::uint8_t byte, unsigned at) { return (byte >> at & 1) != 0; }
/// The inverse of field(); bits of `value` that do not fit are discarded.
constexpr unsigned in_field(unsigned value, unsigned shift, unsigned bits) {
  return (value & ((1U << bits) - 1)) << shift;
}
constexpr unsigned in_bit(bool value, unsigned at) { return value ? 1U << at : 0U; }
void write_bits(ByteWriter& writer, unsigned bits) { writer.u8(static_cast<std::uint8_t>(bits)); }

template <class Enum>
constexpr std::underlying_type_t<Enum> code(Enum value) {
  return static_cast<std::underlying_type_t<Enum>>(value);
}

/// Reads a field of 24 bits and the reserved byte after it.
std::uint32_t read_u24(ByteReader& reader) {
  const std::uint32_t value = reader.u24();
  reader.skip(1);
  return value;
}
void write_u24(ByteWriter& writer, std::uint32_t value) {
  writer.u24(value & 0xffffff);
  writer.zeros(1);
}

template <class Message>
void read_ids(ByteReader& reader, Message& message) {
  message.local_id = CommId(reader.u32());
  message.remote_id = CommId(reader.u32());
}
template <class Message>
void write_ids(ByteWriter& writer, const Message& message) {
  writer.u32(message.local_id.value());
  writer.u32(message.remote_id.value());
}

template <class Message>
void read_private_data(ByteReader& reader, Message& message) {
  message.private_data = reader.array<std::tuple_size_v<decltype(message.private_data)>>();
}

/// A length that exceeds the field is cut to its size.
std::uint8_t info_length(unsigned length) {
  return static_cast<std::uint8_t>(std::min<std::size_t>(length, CmAdditionalInfo::kSize));
}

CmPath read_path(ByteReader& reader) {
  CmPath path;
  path.local_lid = Lid(reader.u16());
  path.remote_lid = Lid(reader.u16());
  path.local_gid = Gid(reader.array<Gid::kSize>());
  path.remote_gid = Gid(reader.array<Gid::kSize>());
  const std::uint32_t flow = reader.u32();
  path.flow_label = flow >> 12;
  path.rate = flow & 0x3f;
  path.traffic_class = reader.u8();
  path.hop_limit = reader.u8();
  const std::uint8_t level = reader.u8();
  path.sl = ServiceLevel(field(level, 4, 4));
  path.is_subnet_local = bit(level, 3);
  path.ack_timeout = field(reader.u8(), 3, 5);
  return path;
}

void write_path(ByteWriter& writer, const CmPath& path) {
  writer.u16(path.local_lid.value());
  writer.u16(path.remote_lid.value());
  writer.bytes(path.local_gid.bytes());
  writer.bytes(path.remote_gid.bytes());
  writer.u32((path.flow_label & 0xfffff) << 12 | (path.rate & 0x3fU));
  writer.u8(path.traffic_class);
  writer.u8(path.hop_limit);
  write_bits(writer, in_field(path.sl.value(), 4, 4) | in_bit(path.is_subnet_local, 3));
  write_bits(writer, in_field(path.ack_timeout, 3, 5));
}

void read(ByteReader& reader, CmReq& req) {
  req.local_id = CommId(reader.u32());
  reader.skip(4);
  req.service_id = ServiceId(reader.u64());
  req.ca_guid = Guid(reader.u64());
  reader.skip(4);
  req.qkey = QKey(reader.u32());
  req.qpn = Qpn(reader.u24());
  req.responder_resources = reader.u8();
  reader.skip(3);
  req.initiator_depth = reader.u8();
  reader.skip(3);
  const std::uint8_t transport = reader.u8();
  req.remote_response_timeout = field(transport, 3, 5);
  req.transport = static_cast<CmTransport>(field(transport, 1, 2));
  req.flow_control = bit(transport, 0);
  req.starting_psn = Psn(reader.u24());
  const std::uint8_t timing = reader.u8();
  req.local_response_timeout = field(timing, 3, 5);
  req.retry_count = field(timing, 0, 3);
  req.pkey = PKey(reader.u16());
  const std::uint8_t mtu = reader.u8();
  req.mtu = field(mtu, 4, 4);
  req.rnr_retry_count = field(mtu, 0, 3);
  const std::uint8_t retries = reader.u8();
  req.max_cm_retries = field(retries, 4, 4);
  req.srq = bit(retries, 3);
  req.extended_transport = field(retries, 0, 3);
  req.primary = read_path(reader);
  req.alternate = read_path(reader);
  read_private_data(reader, req);
}

void write(ByteWriter& writer, const CmReq& req) {
  writer.u32(req.local_id.value());
  writer.zeros(4);
  writer.u64(req.service_id.value());
  writer.u64(req.ca_guid.value());
  writer.zeros(4);
  writer.u32(req.qkey.value());
  writer.u24(req.qpn.value() & 0xffffff);
  writer.u8(req.responder_resources);
  writer.zeros(3);
  writer.u8(req.initiator_depth);
  writer.zeros(3);
  write_bits(writer, in_field(req.remote_response_timeout, 3, 5) |
                         in_field(code(req.transport), 1, 2) | in_bit(req.flow_control, 0));
  writer.u24(req.starting_psn.value());
  write_bits(writer, in_field(req.local_response_timeout, 3, 5) | in_field(req.retry_count, 0, 3));
  writer.u16(req.pkey.value());
  write_bits(writer, in_field(req.mtu, 4, 4) | in_field(req.rnr_retry_count, 0, 3));
  write_bits(writer, in_field(req.max_cm_retries, 4, 4) | in_bit(req.srq, 3) |
                         in_field(req.extended_transport, 0, 3));
  write_path(writer, req.primary);
  write_path(writer, req.alternate);
  writer.bytes(req.private_data);
}

void read(ByteReader& reader, CmMra& mra) {
  read_ids(reader, mra);
  mra.subject = static_cast<CmSubject>(field(reader.u8(), 6, 2));
  mra.service_timeout = field(reader.u8(), 3, 5);
  read_private_data(reader, mra);
}

void write(ByteWriter& writer, const CmMra& mra) {
  write_ids(writer, mra);
  write_bits(writer, in_field(code(mra.subject), 6, 2));
  write_bits(writer, in_field(mra.service_timeout, 3, 5));
  writer.bytes(mra.private_data);
}

void read(ByteReader& reader, CmRej& rej) {
  read_ids(reader, rej);
  rej.subject = static_cast<CmSubject>(field(reader.u8(), 6, 2));
  rej.info.length = info_length(field(reader.u8(), 1, 7));
  rej.reason = static_cast<CmRejReason>(reader.u16());
  rej.info.bytes = reader.array<CmAdditionalInfo::kSize>();
  read_private_data(reader, rej);
}

void write(ByteWriter& writer, const CmRej& rej) {
  write_ids(writer, rej);
  write_bits(writer, in_field(code(rej.subject), 6, 2));
  write_bits(writer, in_field(info_length(rej.info.length), 1, 7));
  writer.u16(code(rej.reason));
  writer.bytes(rej.info.bytes);
  writer.bytes(rej.private_data);
}

void read(ByteReader& reader, CmRep& rep) {
  read_ids(reader, rep);
  rep.qkey = QKey(reader.u32());
  rep.qpn = Qpn(read_u24(reader));
  reader.skip(4);
  rep.starting_psn = Psn(read_u24(reader));
  rep.responder_resources = reader.u8();
  rep.initiator_depth = reader.u8();
  const std::uint8_t delay = reader.u8();
  rep.target_ack_delay = field(delay, 3, 5);
  rep.failover = field(delay, 1, 2);
  rep.flow_control = bit(delay, 0);
  const std::uint8_t rnr = reader.u8();
  rep.rnr_retry_count = field(rnr, 5, 3);
  rep.srq = bit(rnr, 4);
  rep.ca_guid = Guid(reader.u64());
  read_private_data(reader, rep);
}

void write(ByteWriter& writer, const CmRep& rep) {
  write_ids(writer, rep);
  writer.u32(rep.qkey.value());
  write_u24(writer, rep.qpn.value());
  writer.zeros(4);
  write_u24(writer, rep.starting_psn.value());
  writer.u8(rep.responder_resources);
  writer.u8(rep.initiator_depth);
  write_bits(writer, in_field(rep.target_ack_delay, 3, 5) | in_field(rep.failover, 1, 2) |
                         in_bit(rep.flow_control, 0));
  write_bits(writer, in_field(rep.rnr_retry_count, 5, 3) | in_bit(rep.srq, 4));
  writer.u64(rep.ca_guid.value());
  writer.bytes(rep.private_data);
}

template <class Message>
  requires std::same_as<Message, CmRtu> || std::same_as<Message, CmDrep>
void read(ByteReader& reader, Message& message) {
  read_ids(reader, message);
  read_private_data(reader, message);
}

template <class Message>
  requires std::same_as<Message, CmRtu> || std::same_as<Message, CmDrep>
void write(ByteWriter& writer, const Message& message) {
  write_ids(writer, message);
  writer.bytes(message.private_data);
}

void read(ByteReader& reader, CmDreq& dreq) {
  read_ids(reader, dreq);
  dreq.remote_qpn = Qpn(read_u24(reader));
  read_private_data(reader, dreq);
}

void write(ByteWriter& writer, const CmDreq& dreq) {
  write_ids(writer, dreq);
  write_u24(writer, dreq.remote_qpn.value());
  writer.bytes(dreq.private_data);
}

void read(ByteReader& reader, CmSidrReq& req) {
  req.request_id = CommId(reader.u32());
  req.pkey = PKey(reader.u16());
  reader.skip(2);
  req.service_id = ServiceId(reader.u64());
  read_private_data(reader, req);
}

void write(ByteWriter& writer, const CmSidrReq& req) {
  writer.u32(req.request_id.value());
  writer.u16(req.pkey.value());
  writer.zeros(2);
  writer.u64(req.service_id.value());
  writer.bytes(req.private_data);
}

void read(ByteReader& reader, CmSidrRep& rep) {
  rep.request_id = CommId(reader.u32());
  rep.status = static_cast<CmSidrStatus>(reader.u8());
  rep.info.length = info_length(reader.u8());
  reader.skip(2);
  rep.qpn = Qpn(read_u24(reader));
  rep.service_id = ServiceId(reader.u64());
  rep.qkey = QKey(reader.u32());
  rep.info.bytes = reader.array<CmAdditionalInfo::kSize>();
  read_private_data(reader, rep);
}

void write(ByteWriter& writer, const CmSidrRep& rep) {
  writer.u32(rep.request_id.value());
  writer.u8(code(rep.status));
  writer.u8(info_length(rep.info.length));
  writer.zeros(2);
  write_u24(writer, rep.qpn.value());
  writer.u64(rep.service_id.value());
  writer.u32(rep.qkey.value());
  writer.bytes(rep.info.bytes);
  writer.bytes(rep.private_data);
}

void read(ByteReader& reader, CmLap& lap) { read_ids(reader, lap); }
void write(ByteWriter& writer, const CmLap& lap) { write_ids(writer, lap); }

void read(ByteReader& reader, CmApr& apr) {
  read_ids(reader, apr);
  reader.skip(1);
  apr.status = reader.u8();
}

void write(ByteWriter& writer, const CmApr& apr) {
  write_ids(writer, apr);
  writer.zeros(1);
  writer.u8(apr.status);
}

/// The alternative of CmMessage that has this attribute.
template <std::size_t kIndex = 0>
std::optional<CmMessage> read_message(std::uint16_t attribute, ByteReader& reader) {
  if constexpr (kIndex < std::variant_size_v<CmMessage>) {
    using Message = std::variant_alternative_t<kIndex, CmMessage>;
    if (attribute != Message::kAttribute) return read_message<kIndex + 1>(attribute, reader);
    Message message;
    read(reader, message);
    return message;
  }
  return std::nullopt;
}

}  // namespace

CmAdditionalInfo CmAdditionalInfo::of(ConstBytes info) {
  CmAdditionalInfo out;
  out.length = static_cast<std::uint8_t>(std::min(info.size(), kSize));
  std::copy_n(info.begin(), out.length, out.bytes.begin());
  return out;
}

std::optional<CmMad> CmMad::parse(ConstBytes mad) {
  const auto header = MadHeader::parse(mad);
  if (!header || mad.size() < kSize || header->management_class != mgmt_class::kCommMgt ||
      header->class_version != kCmClassVersion || header->method != method::kSend) {
    return std::nullopt;
  }
  ByteReader reader(mad.subspan(kMadHeaderSize));
  const auto message = read_message(header->attribute_id, reader);
  if (!message) return std::nullopt;
  return CmMad{header->transaction_id, *message};
}

void CmMad::emit(MutableBytes to) const {
  MadHeader header;
  header.management_class = mgmt_class::kCommMgt;
  header.class_version = kCmClassVersion;
  header.method = method::kSend;
  header.transaction_id = transaction_id;
  header.attribute_id = std::visit([](const auto& one) { return one.kAttribute; }, message);
  header.emit(to);
  ByteWriter writer(to.subspan(kMadHeaderSize, kCmDataSize));
  std::visit([&](const auto& one) { write(writer, one); }, message);
  writer.zeros(kCmDataSize - writer.written());
  assert(writer.ok());
}

}  // namespace ipoib::wire
