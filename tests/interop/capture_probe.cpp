// Writes a capture with one packet of each kind on an IPoIB subnet, for tshark to read.
//
// Usage: capture_probe FILE
#include <array>
#include <cstdio>
#include <vector>

#include "softib/core/mad_packet.hpp"
#include "softib/endpoint/capture.hpp"
#include "wire/arp.hpp"
#include "wire/checksum.hpp"
#include "wire/encapsulation.hpp"
#include "wire/ipv4.hpp"
#include "wire/mgid.hpp"

namespace {

using namespace ipoib;
using softib::endpoint::CaptureFile;
using softib::endpoint::Direction;

constexpr Guid kGuid{0x0002'c903'0000'0001};

/// Returns a UD packet, with or without a GRH.
std::vector<std::uint8_t> make_packet(Lid dlid, Qpn destination, const std::optional<Gid>& dgid,
                                      const std::vector<std::uint8_t>& payload) {
  wire::UdPacket packet;
  packet.lrh.slid = Lid(2);
  packet.lrh.dlid = dlid;
  packet.bth.pkey = kDefaultPKey;
  packet.bth.destination = destination;
  packet.bth.psn = ipoib::wire::Psn(77);
  packet.deth.qkey = QKey(0x0b1b);
  packet.deth.source = Qpn(0x010401);
  if (dgid) {
    packet.grh.emplace();
    packet.grh->sgid = Gid(Gid::kLinkLocalPrefix, kGuid);
    packet.grh->dgid = *dgid;
  }
  std::array<std::uint8_t, wire::UdPacket::kMaxHeaderSize> header;
  const std::size_t size = packet.emit_headers(payload.size(), header);
  std::vector<std::uint8_t> bytes(header.begin(), header.begin() + static_cast<long>(size));
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  bytes.resize(bytes.size() + packet.bth.pad);
  return bytes;
}

std::vector<std::uint8_t> make_arp() {
  std::vector<std::uint8_t> frame(wire::kEncapsulationSize + wire::Arp::kSize);
  wire::emit_encapsulation(wire::EtherType::arp, frame.data());
  wire::Arp arp;
  arp.sender_hardware = {0, Qpn(0x010401), Gid(Gid::kLinkLocalPrefix, kGuid)};
  arp.sender_protocol = Ipv4Address(0x0a2c0001);
  arp.target_protocol = Ipv4Address(0x0a2c0002);
  arp.emit(MutableBytes(frame).subspan(wire::kEncapsulationSize));
  return frame;
}

/// An echo request (RFC 792) with three bytes of data, so that the packet needs padding.
std::vector<std::uint8_t> make_ping() {
  constexpr std::size_t kIpSize = 20;
  constexpr std::size_t kIcmpSize = 8 + 3;
  std::vector<std::uint8_t> frame(wire::kEncapsulationSize + kIpSize + kIcmpSize);
  wire::emit_encapsulation(wire::EtherType::ipv4, frame.data());
  const auto ip = MutableBytes(frame).subspan(wire::kEncapsulationSize);
  ByteWriter writer(ip);
  writer.u16(0x4500);
  writer.u16(kIpSize + kIcmpSize);
  writer.u32(0);
  writer.u16(0x4001);  // TTL 64, ICMP
  writer.u16(0);
  writer.bytes(Ipv4Address(0x0a2c0001).bytes());
  writer.bytes(Ipv4Address(0x0a2c0002).bytes());
  store_be(ip.data() + 10, wire::internet_checksum(ip.first(kIpSize)));
  writer.u16(0x0800);
  writer.u16(0);
  writer.u32(0x0001'0002);
  writer.u24(0x616263);
  store_be(ip.data() + kIpSize + 2, wire::internet_checksum(ip.subspan(kIpSize)));
  return frame;
}

std::vector<std::uint8_t> make_query() {
  softib::MadPacket packet;
  packet.slid = Lid(2);
  packet.dlid = Lid(1);
  packet.source = packet.destination = wire::kGsiQpn;
  packet.qkey = wire::kGsiQKey;
  wire::SaHeader header;
  header.mad.management_class = wire::mgmt_class::kSubnAdm;
  header.mad.class_version = 2;
  header.mad.method = wire::method::kGet;
  header.mad.attribute_id = wire::attribute::kPathRecord;
  header.emit(packet.mad);
  std::array<std::uint8_t, softib::MadPacket::kMaxPacketSize> bytes;
  const auto emitted = packet.emit(bytes);
  return {emitted.begin(), emitted.end()};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto file = CaptureFile::open(argv[1]);
  if (!file) {
    std::fprintf(stderr, "%s\n", file.error().message.c_str());
    return 1;
  }
  const auto when = CaptureFile::WallTime(std::chrono::milliseconds(1'700'000'000'250));
  const Gid group = wire::broadcast_gid(kDefaultPKey);
  const Gid host(Gid::kLinkLocalPrefix, Guid(kGuid.value() + 1));
  file->add(make_packet(kFirstMulticastLid, kMulticastQpn, group, make_arp()), Direction::sent,
            when);
  file->add(make_packet(Lid(3), Qpn(0x010402), std::nullopt, make_ping()), Direction::sent, when);
  file->add(make_packet(Lid(3), Qpn(0x010402), host, make_ping()), Direction::received, when);
  file->add(make_query(), Direction::sent, when);
  file->flush();
  return 0;
}
