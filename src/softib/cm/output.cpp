#include "softib/cm/output.hpp"

#include "ipoib/ud_port.hpp"

namespace softib::cm {

Route Route::along(const wire::PathRecord& path, const PortAttributes& port) {
  Route route{path.slid, path.dlid, path.sl, path.pkey, std::nullopt, port.number};
  if (port.grh_required || path.hop_limit > ipoib::kSubnetHopLimit) {
    route.grh.emplace();
    route.grh->traffic_class = path.traffic_class;
    route.grh->flow_label = path.flow_label;
    route.grh->hop_limit = path.hop_limit;
    route.grh->sgid = path.sgid;
    route.grh->dgid = path.dgid;
  }
  return route;
}

Route Route::back(const MadPacket& received) {
  MadPacket reply = received;
  reply.reverse();
  return {reply.slid, reply.dlid, reply.sl, reply.pkey, reply.grh, reply.port};
}

MadPacket Route::packet(const wire::CmMad& mad) const {
  MadPacket packet;
  packet.slid = slid;
  packet.dlid = dlid;
  packet.sl = sl;
  packet.pkey = pkey;
  packet.source = packet.destination = wire::kGsiQpn;
  packet.qkey = wire::kGsiQKey;
  packet.grh = grh;
  packet.port = port;
  mad.emit(packet.mad);
  return packet;
}

const MadPacket& Output::send(const Route& route, std::uint64_t transaction_id,
                              const wire::CmMessage& message) {
  ++counters.sent[message.index()];
  return packets.emplace_back(route.packet({transaction_id, message}));
}

}  // namespace softib::cm
