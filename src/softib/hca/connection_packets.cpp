// The packets of a connection: responses that it owes, and requests. Their payload is read from the
// memory of the program when they are sent, each time.
#include <algorithm>

#include "softib/hca/connections.hpp"
#include "softib/hca/hca.hpp"
#include "softib/hca/route.hpp"

namespace softib::hca {

using ipoib::wire::Aeth;
using ipoib::wire::ConnectedOpcode;
using ipoib::wire::ConnectedPacket;

namespace {

/// Of a request that is one packet, or the packets of which are parts of it.
ConnectedOpcode opcode_of(const ConnectedRequest& request) {
  switch (request.opcode) {
    case IBV_WR_SEND:
      return ConnectedOpcode::send_only;
    case IBV_WR_SEND_WITH_IMM:
      return ConnectedOpcode::send_only_immediate;
    case IBV_WR_SEND_WITH_INV:
      return ConnectedOpcode::send_only_invalidate;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return ConnectedOpcode::write_only_immediate;
    case IBV_WR_RDMA_READ:
      return ConnectedOpcode::read_request;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return ConnectedOpcode::compare_swap;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return ConnectedOpcode::fetch_add;
    case IBV_WR_ATOMIC_WRITE:
      return ConnectedOpcode::atomic_write;
    default:
      return ConnectedOpcode::write_only;
  }
}

}  // namespace

Connections::Left Connections::send_responses(QueuePair& qp, ConnectedSink& sink) {
  auto& responder = qp.connection_->responder;
  const auto count = build_responses(qp);
  const auto sent = send(qp, count, sink);
  for (std::size_t i = 0; i < sent; ++i) responder.sent(batch_[i].gso.packets);
  if (sent < count) return Left::no_room;
  return responder.owes() ? Left::more : Left::nothing;
}

/// A repeated READ of memory that cannot be read any more is no error, and is not answered: the
/// peer may have the first response, and may have ended its own access. Otherwise it asks again.
std::size_t Connections::build_responses(QueuePair& qp) {
  auto& responder = qp.connection_->responder;
  std::size_t count = 0;
  std::size_t packets = 0;
  for (std::size_t entry = 0; entry < responder.responses().size(); ++entry) {
    const auto& response = responder.responses()[entry];
    for (auto index = response.sent; index < response.packets;) {
      if (packets >= kSendBatch) return count;
      const auto nak = build_response(qp, response, index, count);
      if (!nak) {
        const auto built = batch_[count++].gso.packets;
        index += built;
        packets += built;
        continue;
      }
      if (count != 0) return count;
      if (response.is_repeated) {
        responder.drop_repeated();
        return build_responses(qp);
      }
      responder.replace_responses(*nak);
      hca_.raise(AsyncEvent{event_of(*nak), nullptr, &qp});
      hca_.enter_error(qp);
      (void)build_response(qp, responder.responses().front(), 0, 0);
      return 1;
    }
  }
  return count;
}

/// Writes a packet of a response to a place of the batch. Returns the NAK to send instead if the
/// memory cannot be read: it has been deregistered since the READ was accepted, or pages are
/// missing.
Connections::Nak Connections::build_response(const QueuePair& qp, const Response& response,
                                             std::uint32_t index, std::size_t place) {
  auto& out = batch_[place];
  out.clear();
  const auto& attributes = qp.connection_->attributes;
  ConnectedPacket packet;
  packet.bth.psn = response.psn + index;
  packet.aeth = response.aeth;
  packet.original = response.original;
  if (response.kind == Response::Kind::atomic) packet.opcode = ConnectedOpcode::atomic_acknowledge;
  if (response.kind == Response::Kind::read) {
    const auto mtu = attributes.mtu();
    const auto offset = std::uint64_t{index} * mtu;
    packet.packets = std::min(response.packets - index, kRunBytes / mtu);
    const auto size = static_cast<std::uint32_t>(std::min<std::uint64_t>(
        std::uint64_t{packet.packets} * mtu, response.read.length - offset));
    packet.opcode = opcode_of_part(ConnectedOpcode::read_response_only, index == 0,
                                   index + packet.packets == response.packets);
    out.is_streamed = offset > 0 || qp.connection_->responder.responses().size() > 1;
    if (size != 0) {
      const auto memory =
          hca_.memory_.resolve(response.read.key, response.read.address + offset, size,
                               remote_user(qp, response.shared_queue), IBV_ACCESS_REMOTE_READ);
      if (!memory) return Aeth::kRemoteAccessError;
      if (!copies_.add(out, place, memory, size)) return Aeth::kRemoteOperationError;
    }
  }
  write_headers(qp, packet, out);
  return std::nullopt;
}

Connections::Left Connections::send_requests(QueuePair& qp, ConnectedSink& sink) {
  auto& requester = qp.connection_->requester;
  execute_local(qp);
  const auto count = build_requests(qp);
  const auto sent = send(qp, count, sink);
  for (std::size_t i = 0; i < sent && qp.state_ != IBV_QPS_ERR; ++i) {
    requester.sent(plan_[i]);
    if (qp.connection_->is_reliable()) continue;
    // Nobody acknowledges what an unreliable connection sends (IBA 9.8.1).
    requester.acknowledge(plan_[i].psn + (plan_[i].packets - 1));
    if (plan_[i].is_last) complete_oldest(qp);
  }
  if (sent < count) return Left::no_room;
  // A shorter batch was ended by the window, an error, or the last request.
  return sent == 0 ? Left::nothing : Left::more;
}

/// A request whose memory may not be used fails when those before it are complete.
std::size_t Connections::build_requests(QueuePair& qp) {
  auto& connection = *qp.connection_;
  const auto planned =
      connection.requester.plan(plan_, connection.attributes, qp.state_ == IBV_QPS_RTS);
  for (std::size_t count = 0; count < planned; ++count) {
    const auto status = build_request(qp, plan_[count], count);
    if (status == IBV_WC_SUCCESS) continue;
    if (count == 0 && plan_[0].position == qp.sends_.processed()) fail(qp, status);
    return count;
  }
  return planned;
}

ibv_wc_status Connections::build_request(QueuePair& qp, const RequestPacket& planned,
                                         std::size_t place) {
  auto& out = batch_[place];
  out.clear();
  const auto& send = qp.sends_.at(planned.position);
  const auto& request = qp.connection_->requester.at(planned.position);
  const auto mtu = qp.connection_->attributes.mtu();
  const auto offset = std::uint64_t{planned.index} * mtu;
  const auto size =
      std::min<std::uint64_t>(std::uint64_t{planned.packets} * mtu, send.length - offset);
  ConnectedPacket packet;
  packet.opcode = opcode_of(request);
  if (!request.has_response()) {
    packet.opcode = opcode_of_part(packet.opcode, planned.index == 0, planned.is_last);
    packet.packets = planned.packets;
  }
  packet.bth.psn = planned.psn;
  packet.bth.ack_request = planned.requests_ack && qp.connection_->is_reliable();
  packet.bth.solicited = planned.is_last && send.solicited;
  packet.immediate = send.immediate;
  packet.invalidated_key = request.invalidated_key;
  packet.shared_queue = request.shared_queue;
  packet.reth = {request.remote_address, request.remote_key, send.length};
  packet.atomic = {request.remote_address, request.remote_key, request.operand, request.compare};
  if (request.is_read()) {
    packet.reth.address += offset;
    packet.reth.length = static_cast<std::uint32_t>(size);
  } else if (!request.is_atomic()) {
    const auto before =
        static_cast<std::uint32_t>(planned.psn - qp.connection_->requester.unacked());
    out.is_streamed = before * mtu >= kStreamedAfter;
    const auto status = gather(qp, planned.position, offset, size, place);
    if (status != IBV_WC_SUCCESS) return status;
  }
  write_headers(qp, packet, out);
  return IBV_WC_SUCCESS;
}

/// Adds a part of the message of a request.
ibv_wc_status Connections::gather(QueuePair& qp, std::uint32_t position, std::uint64_t offset,
                                  std::size_t size, std::size_t place) {
  auto& out = batch_[place];
  const auto& send = qp.sends_.at(position);
  if (send.is_inline) {
    if (size != 0) out.add({qp.inline_data(position) + offset, size});
    return IBV_WC_SUCCESS;
  }
  for (const auto& element : qp.sends_.elements(position).first(send.element_count)) {
    if (size == 0) break;
    if (offset >= element.length) {
      offset -= element.length;
      continue;
    }
    const auto length = std::min<std::size_t>(element.length - offset, size);
    const auto memory = hca_.memory_.resolve(element, qp.config_.pd, false);
    if (!memory || !copies_.add(out, place, memory.from(offset), length)) {
      return IBV_WC_LOC_PROT_ERR;
    }
    size -= length;
    offset = 0;
  }
  return IBV_WC_SUCCESS;
}

void Connections::write_headers(const QueuePair& qp, ConnectedPacket& packet, OutgoingPacket& out) {
  const auto& attributes = qp.connection_->attributes;
  const auto& path = attributes.path;
  packet.service = qp.connection_->service;
  packet.lrh.sl = ServiceLevel(path.sl & kServiceLevelMask);
  packet.lrh.dlid = Lid(path.dlid);
  packet.lrh.slid = hca_.port_.source_lid(path.src_path_bits);
  if (path.is_global != 0) packet.grh = make_grh(path.grh, hca_.port_.gid());
  packet.bth.pkey = hca_.port_.pkeys[qp.pkey_index_];
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

/// Sends the first packets of the batch. Returns how many are done with. What the port cannot send
/// is lost; a reliable connection sends it again when no acknowledgement comes.
std::size_t Connections::send(const QueuePair& qp, std::size_t count, ConnectedSink& sink) {
  if (count == 0) return 0;
  auto& counters = hca_.counters_;
  const auto& port = hca_.port_;
  if (port.state != PortState::active || qp.port_ != port.number) {
    counters.send_drop_port += count_packets(std::span(batch_).first(count));
    return count;
  }
  if (!port.pkeys[qp.pkey_index_].is_valid()) {
    counters.send_drop_pkey += count_packets(std::span(batch_).first(count));
    return count;
  }
  const auto sent = sink.try_send(std::span(batch_).first(count));
  counters.sent_packets += count_packets(std::span(batch_).first(sent));
  for (std::size_t i = 0; i < sent; ++i) counters.sent_bytes += batch_[i].payload_size;
  return sent;
}

}  // namespace softib::hca
