// Builds DHCP messages for tests of the DHCP rewriter.
#pragma once

#include <cstdint>
#include <vector>

#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"
#include "wire/checksum.hpp"

namespace ipoib {

/// By default, the request of udhcpc and others on an interface without a hardware address.
struct DhcpPacket {
  using Bytes = std::vector<std::uint8_t>;

  static constexpr Ipv4Address kAnybody{0xffffffff};
  static constexpr std::uint32_t kXid = 0x11223344;

  /// A client identifier in Ethernet form, and the end option.
  [[nodiscard]] static Bytes ethernet_options() {
    return {53, 1, 1, 61, 7, 1, 0, 0, 0, 0, 0, 0, 255};
  }

  bool is_reply = false;
  Ipv4Address from;
  Ipv4Address to = kAnybody;
  std::uint32_t xid = kXid;
  std::uint8_t htype = 1;
  std::uint8_t hlen = 6;
  bool broadcast = false;
  Ipv4Address ciaddr;
  Ipv4Address giaddr;
  Bytes options = ethernet_options();
  std::size_t size = 300;  ///< of the message

  [[nodiscard]] static DhcpPacket without_identifier() {
    DhcpPacket out;
    out.options = {53, 1, 1, 255};
    return out;
  }
  /// A server's reply in the form of RFC 4390.
  [[nodiscard]] static DhcpPacket reply(Ipv4Address server) {
    DhcpPacket out;
    out.is_reply = true;
    out.from = server;
    out.htype = 32;
    out.hlen = 0;
    out.options = {53, 1, 2, 61, 2, 255, 1, 255};
    return out;
  }

  /// Returns the IPv4 packet.
  [[nodiscard]] Bytes bytes() const {
    constexpr std::size_t kHeaders = 28;
    Bytes packet(kHeaders + size);
    ByteWriter out(packet);
    out.u16(0x4510);
    out.u16(static_cast<std::uint16_t>(packet.size()));
    out.u32(0);
    out.u32(0x40110000);
    out.bytes(from.bytes());
    out.bytes(to.bytes());
    out.u16(is_reply ? 67 : 68);
    out.u16(is_reply ? 68 : 67);
    out.u16(static_cast<std::uint16_t>(8 + size));
    out.u16(0);
    out.bytes(Bytes{is_reply ? std::uint8_t{2} : std::uint8_t{1}, htype, hlen, 0});
    out.u32(xid);
    out.u16(0);
    out.u16(broadcast ? 0x8000 : 0);
    out.bytes(ciaddr.bytes());
    out.zeros(8);
    out.bytes(giaddr.bytes());
    out.u8(hlen == 0 ? 0 : 2);  // of "chaddr"
    out.zeros(15 + 192);
    out.u32(0x63825363);
    out.bytes(options);
    store_be(packet.data() + 10, wire::internet_checksum(ConstBytes(packet).first(20)));
    return packet;
  }
};

}  // namespace ipoib
