#include "softib/hca/connection/headers.hpp"

#include "softib/hca/route.hpp"

namespace softib::hca {

void write_headers(ipoib::wire::ConnectedPacket& packet, const ConnectionAttributes& attributes,
                   const PortAttributes& port, std::uint16_t pkey_index, OutgoingPacket& out) {
  set_route(packet, attributes.path, port, pkey_index);
  packet.bth.destination = attributes.peer;
  auto payload = out.payload_size;
  if (packet.packets > 1) {
    payload = attributes.mtu();
    out.gso = {static_cast<std::uint16_t>(payload), static_cast<std::uint16_t>(packet.packets)};
  }
  out.header_size = packet.emit_headers(payload, out.header);
  if (packet.bth.pad != 0) out.add(ConstBytes(kPadding).first(packet.bth.pad));
  out.purpose = ipoib::wire::is_response(packet.opcode) ? Purpose::response : Purpose::request;
  out.dlid = packet.lrh.dlid;
  out.destination = attributes.peer;
}

}  // namespace softib::hca
