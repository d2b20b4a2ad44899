// What an agent of a node (subnet management, performance management) makes of a MAD.
#pragma once

#include "softib/core/mad_packet.hpp"

namespace softib::subnet {

enum class AgentVerdict : std::uint8_t {
  answered,
  malformed,     ///< none of its class, or a route that makes no sense
  response,      ///< not a request
  acknowledged,  ///< the answer to something of ours
  passed_on,     ///< for the processes of a node
  no_sender,     ///< from no node
  no_key,        ///< without the M_Key that it needs
  unreachable    ///< nothing at that LID, or at the end of that route
};

struct AgentAnswer {
  AgentVerdict verdict = AgentVerdict::malformed;
  std::uint16_t status = 0;  ///< IBA 13.4.7
  MadPacket packet;          ///< if answered, or passed on
  NodeIndex to = 0;          ///< if passed on
};

/// The request sent back as a response with a status; what it says else is the caller's to write.
[[nodiscard]] inline AgentAnswer answer_to(const MadPacket& request,
                                           const ipoib::wire::MadHeader& header,
                                           std::uint16_t status) {
  AgentAnswer answer{AgentVerdict::answered, status, request, 0};
  std::swap(answer.packet.slid, answer.packet.dlid);
  std::swap(answer.packet.source, answer.packet.destination);
  auto reply = header;
  reply.method = ipoib::wire::method::kGetResp;
  reply.status = status;
  reply.emit(answer.packet.mad);
  return answer;
}

}  // namespace softib::subnet
