// RFC 2131, 2, after the IP and UDP headers:
//
//   0    1       2      3      4     8      10      12       16       20       24
//   | op | htype | hlen | hops | xid | secs | flags | ciaddr | yiaddr | siaddr | giaddr |
//   28       44      108    236            240
//   | chaddr | sname | file | magic cookie | options ... 255 | padding |
//
// An option is code, length, value; 0 is padding and 255 the end. With option 52, file (1), sname
// (2) or both (3) contain options as well.
#include "wire/dhcp.hpp"

#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <cassert>
#include <utility>

#include "wire/checksum.hpp"

namespace ipoib::wire {
namespace {

constexpr std::size_t kHtype = 1;
constexpr std::size_t kHlen = 2;
constexpr std::size_t kFlags = 10;
constexpr std::size_t kChaddr = 28;
constexpr std::size_t kSname = 44;
constexpr std::size_t kFile = 108;
constexpr std::size_t kCookie = 236;
constexpr std::size_t kOptions = 240;
constexpr std::uint16_t kBroadcastFlag = 0x8000;
constexpr std::uint32_t kMagic = 0x63825363;

namespace option {
constexpr std::uint8_t kPad = 0;
constexpr std::uint8_t kOverload = 52;
constexpr std::uint8_t kClientIdentifier = 61;
constexpr std::uint8_t kAuthentication = 90;
constexpr std::uint8_t kEnd = 255;
}  // namespace option

/// Calls `each` with each option of a field, beginning with its code. Returns false if an option
/// exceeds the field; the end option may be missing.
template <class Each>
bool walk(ConstBytes field, Each each) {
  constexpr std::size_t kHeader = 2;
  while (!field.empty() && field[0] != option::kEnd) {
    std::size_t size = 1;
    if (field[0] != option::kPad) {
      if (field.size() < kHeader || field.size() < kHeader + field[1]) return false;
      size = kHeader + field[1];
      each(field.first(size));
    }
    field = field.subspan(size);
  }
  return true;
}

/// The DHCP message of a packet.
ConstBytes message_of(ConstBytes packet) {
  const std::size_t header = Ipv4Header::size_by(packet[0]);
  return packet.subspan(header + kUdpHeader);
}

using OptionFields = boost::container::static_vector<ConstBytes, 3>;

/// The fields of a message that contain options, in the order of RFC 3396, 5.
OptionFields option_fields(ConstBytes message) {
  OptionFields fields{message.subspan(kOptions)};
  std::uint8_t overload = 0;
  (void)walk(fields.front(), [&](ConstBytes one) {
    if (one[0] == option::kOverload && one.size() == 3) overload = one[2];
  });
  if ((overload & 1) != 0) fields.push_back(message.subspan(kFile, kCookie - kFile));
  if ((overload & 2) != 0) fields.push_back(message.subspan(kSname, kFile - kSname));
  return fields;
}

/// The UDP checksum; 0 over a datagram with a valid checksum.
std::uint16_t udp_checksum(const Ipv4Header& ip, ConstBytes datagram) {
  return InternetChecksum()
      .add_pseudo_header(ip.source, ip.destination, kUdp,
                         static_cast<std::uint16_t>(datagram.size()))
      .add(datagram)
      .value();
}

/// Whether lengths and checksums are valid. A datagram may have no checksum (RFC 768).
bool is_intact(const Ipv4Header& ip, ConstBytes packet) {
  const ConstBytes datagram = packet.subspan(ip.header_size);
  if (datagram.size() < kUdpHeader + kOptions) return false;
  if (load_be<std::uint16_t>(datagram.data() + udp::kLength) != datagram.size()) return false;
  if (internet_checksum(packet.first(ip.header_size)) != 0) return false;
  const bool has_checksum = load_be<std::uint16_t>(datagram.data() + udp::kChecksum) != 0;
  return !has_checksum || udp_checksum(ip, datagram) == 0;
}

/// Copies the options of a field except the client identifier.
void copy_others(ConstBytes field, ByteWriter& out) {
  (void)walk(field, [&](ConstBytes one) {
    if (one[0] != option::kClientIdentifier) out.bytes(one);
  });
}

void update_lengths_and_checksums(MutableBytes packet, const Ipv4Header& ip) {
  const MutableBytes header = packet.first(ip.header_size);
  store_be(header.data() + ipv4::kTotalLength, static_cast<std::uint16_t>(packet.size()));
  store_be(header.data() + ipv4::kChecksum, std::uint16_t{0});
  store_be(header.data() + ipv4::kChecksum, internet_checksum(header));
  const MutableBytes datagram = packet.subspan(ip.header_size);
  store_be(datagram.data() + udp::kLength, static_cast<std::uint16_t>(datagram.size()));
  if (load_be<std::uint16_t>(datagram.data() + udp::kChecksum) == 0) return;
  store_be(datagram.data() + udp::kChecksum, std::uint16_t{0});
  store_be(datagram.data() + udp::kChecksum,
           checksum_as_sent(Segmentation::Kind::udp, udp_checksum(ip, datagram)));
}

}  // namespace

std::optional<DhcpMessage> DhcpMessage::parse(ConstBytes packet) {
  const auto header = Ipv4Header::parse(packet);
  const auto kind = dhcp_kind(packet, upper_layer(packet));
  if (!header || !kind) return std::nullopt;
  const Ipv4Header& ip = *header;
  packet = packet.first(ip.total_length);
  if (!is_intact(ip, packet)) return std::nullopt;

  const ConstBytes message = message_of(packet);
  ByteReader reader(message);
  DhcpMessage out;
  out.kind = *kind;
  out.source = ip.source;
  const bool is_request = reader.u8() == 1;
  out.client.htype = reader.u8();
  out.client.hlen = reader.u8();
  reader.skip(1);
  out.xid = reader.u32();
  reader.skip(2);
  out.broadcast = (reader.u16() & kBroadcastFlag) != 0;
  out.ciaddr = Ipv4Address(reader.array<Ipv4Address::kSize>());
  reader.skip(2 * Ipv4Address::kSize);
  out.giaddr = Ipv4Address(reader.array<Ipv4Address::kSize>());
  out.client.chaddr = reader.array<16>();
  reader.skip(kCookie - kSname);
  if (is_request != (out.kind == DhcpKind::request) || reader.u32() != kMagic) return std::nullopt;

  std::size_t identifiers = 0;
  for (const ConstBytes field : option_fields(message)) {
    const bool is_well_formed = walk(field, [&](ConstBytes one) {
      out.authenticated = out.authenticated || one[0] == option::kAuthentication;
      if (one[0] != option::kClientIdentifier) return;
      ++identifiers;
      out.client.identifier.assign(one.begin() + 2, one.end());
    });
    if (!is_well_formed) return std::nullopt;
  }
  if (identifiers > 1) return std::nullopt;
  return out;
}

std::size_t DhcpMessage::emit(ConstBytes original, MutableBytes to) const {
  const Ipv4Header ip = *Ipv4Header::parse(original);
  original = original.first(ip.total_length);
  const std::size_t headers = ip.header_size + kUdpHeader;
  if (to.size() < original.size()) return 0;
  to = to.first(std::min(to.size(), kMaxSize));
  std::ranges::copy(original.first(headers + kOptions), to.begin());

  const MutableBytes message = to.subspan(headers);
  message[kHtype] = client.htype;
  message[kHlen] = client.hlen;
  const auto flags = load_be<std::uint16_t>(message.data() + kFlags);
  store_be(
      message.data() + kFlags,
      static_cast<std::uint16_t>(broadcast ? flags | kBroadcastFlag : flags & ~kBroadcastFlag));
  std::ranges::copy(client.chaddr, message.begin() + kChaddr);

  const auto fields = option_fields(original.subspan(headers));
  for (const ConstBytes field : std::span(fields).subspan(1)) {
    const auto at = static_cast<std::size_t>(field.data() - original.data());
    ByteWriter rewritten(to.subspan(at, field.size()));
    copy_others(field, rewritten);
    if (rewritten.written() < field.size()) rewritten.u8(option::kEnd);
    rewritten.zeros(field.size() - rewritten.written());
  }
  ByteWriter options(message.subspan(kOptions));
  copy_others(fields.front(), options);
  if (!client.identifier.empty()) {
    options.u8(option::kClientIdentifier);
    options.u8(static_cast<std::uint8_t>(client.identifier.size()));
    options.bytes(client.identifier);
  }
  options.u8(option::kEnd);
  const std::size_t before = fields.front().size();
  if (options.written() < before) options.zeros(before - options.written());
  if (!options.ok()) return 0;
  const std::size_t size = headers + kOptions + options.written();
  update_lengths_and_checksums(to.first(size), ip);
  return size;
}

std::vector<std::uint8_t> dhcp_client_identifier(PKey pkey, Guid port) {
  constexpr std::uint8_t kRfc4361 = 255;
  constexpr std::uint16_t kLinkLayerDuid = 3;  // RFC 8415, 11.4
  std::vector<std::uint8_t> out(17);
  ByteWriter writer(out);
  writer.u8(kRfc4361);
  writer.u32(pkey.value());
  writer.u16(kLinkLayerDuid);
  writer.u16(DhcpClient::kInfiniBand);
  writer.u64(port.value());
  assert(writer.ok());
  return out;
}

std::vector<std::uint8_t> dhcp_client_identifier(MacAddress mac) {
  constexpr std::uint8_t kRfc4361 = 255;
  constexpr std::uint16_t kLinkLayerDuid = 3;
  constexpr std::uint16_t kEthernet = 1;
  std::vector<std::uint8_t> out(9 + MacAddress::kSize);
  ByteWriter writer(out);
  writer.u8(kRfc4361);
  writer.u32(static_cast<std::uint32_t>(mac.number()));
  writer.u16(kLinkLayerDuid);
  writer.u16(kEthernet);
  writer.bytes(mac.bytes());
  assert(writer.ok());
  return out;
}

}  // namespace ipoib::wire
