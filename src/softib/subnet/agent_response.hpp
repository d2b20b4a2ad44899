// The result of a MAD at a management agent (subnet management, performance management).
#pragma once

#include "softib/core/mad_packet.hpp"

namespace softib::subnet {

enum class AgentOutcome : std::uint8_t {
  responded,
  malformed,           ///< not of the agent's class, or an invalid directed route
  unmatched_response,  ///< a response to no request of ours
  acknowledged,        ///< a response to a trap of ours
  forwarded,           ///< to the processes of a node
  unknown_sender,      ///< from a node that does not exist
  wrong_m_key,         ///< without the required M_Key
  unreachable,         ///< no node at that LID or route
  wrong_gid            ///< GRH of another port, or none although required
};

struct AgentResult {
  AgentOutcome outcome = AgentOutcome::malformed;
  std::uint16_t status = 0;  ///< of the response, IBA 13.4.7
  MadPacket packet{};        ///< if responded or forwarded
  NodeIndex to = 0;          ///< if forwarded
};

/// Turns a request into a response with `status`. The caller writes the attribute.
[[nodiscard]] inline AgentResult make_response(const MadPacket& request,
                                               const ipoib::wire::MadHeader& header,
                                               std::uint16_t status) {
  AgentResult result{.outcome = AgentOutcome::responded, .status = status, .packet = request};
  result.packet.reverse();
  auto response = header;
  response.method = ipoib::wire::method::kGetResp;
  response.status = status;
  response.emit(result.packet.mad);
  return result;
}

}  // namespace softib::subnet
