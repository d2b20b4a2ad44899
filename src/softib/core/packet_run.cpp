#include "softib/core/packet_run.hpp"

#include <algorithm>

namespace softib {

using ipoib::wire::ConnectedOpcode;
using ipoib::wire::ConnectedPacket;

namespace {

bool may_have_parts(ConnectedOpcode opcode) {
  return is_send(opcode) || is_write(opcode) || is_read_response(opcode);
}

}  // namespace

std::optional<PacketRun> PacketRun::parse(ConstBytes bytes, GsoInfo gso) {
  const auto whole = ConnectedPacket::parse_headers(bytes);
  if (!whole || !may_have_parts(whole->opcode) || gso.packets < 2) return std::nullopt;
  if (gso.size == 0 || gso.size % 4 != 0 || gso.size > kMaxMtu) return std::nullopt;
  const auto full = std::size_t{gso.size} * (gso.packets - 1U);
  const auto size = whole->payload.size();
  if (size > kRunBytes || size <= full || size > full + gso.size) return std::nullopt;
  PacketRun run(*whole, gso.size);
  run.whole_.packets = gso.packets;
  return run;
}

ConnectedPacket PacketRun::headers_of_part(const ConnectedPacket& whole, std::uint32_t packets,
                                           std::uint32_t index) {
  const bool is_last = index + 1 == packets;
  auto packet = whole;
  packet.packets = 1;
  packet.opcode = opcode_of_part(whole.opcode, index == 0, is_last);
  packet.bth.psn = whole.bth.psn + index;
  packet.bth.ack_request = is_last && whole.bth.ack_request;
  packet.bth.solicited = is_last && whole.bth.solicited;
  return packet;
}

ConnectedPacket PacketRun::packet(std::uint32_t index) const {
  auto packet = headers_of_part(whole_, whole_.packets, index);
  const auto offset = std::size_t{index} * mtu_;
  packet.payload =
      whole_.payload.subspan(offset, std::min<std::size_t>(mtu_, whole_.payload.size() - offset));
  return packet;
}

std::size_t PacketRun::segmented_size(const ConnectedPacket& headers, std::size_t payload,
                                      std::uint32_t mtu) {
  const auto header_size = [&](bool is_first, bool is_last) {
    auto packet = headers;
    packet.opcode = opcode_of_part(headers.opcode, is_first, is_last);
    return packet.header_size();
  };
  const auto between = (payload - 1) / mtu - 1;  // neither the first packet nor the last one
  return header_size(true, false) + between * header_size(false, false) + header_size(false, true) +
         padded(payload);
}

}  // namespace softib
