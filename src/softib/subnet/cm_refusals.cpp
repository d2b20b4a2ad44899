#include "softib/subnet/cm_refusals.hpp"

#include <optional>

#include "ipoib/overloaded.hpp"
#include "wire/cm_messages.hpp"

namespace softib::subnet {

namespace {

using namespace ipoib::wire;
using Answer = std::optional<CmMessage>;

/// The answer to a message. A connection that is not known has ended, which DREP tells the peer.
Answer answer_to(const CmMessage& message) {
  return std::visit(
      ipoib::Overloaded{
          [](const CmReq& req) {
            return Answer(CmRej{.remote_id = req.local_id,
                                .subject = CmSubject::req,
                                .reason = CmRejReason::invalid_service_id});
          },
          [](const CmRep& rep) {
            return Answer(CmRej{.local_id = rep.remote_id,
                                .remote_id = rep.local_id,
                                .subject = CmSubject::rep,
                                .reason = CmRejReason::invalid_comm_id});
          },
          [](const CmDreq& dreq) {
            return Answer(CmDrep{.local_id = dreq.remote_id, .remote_id = dreq.local_id});
          },
          [](const CmSidrReq& req) {
            return Answer(CmSidrRep{.request_id = req.request_id,
                                    .status = CmSidrStatus::unsupported_service,
                                    .service_id = req.service_id});
          },
          [](const CmLap& lap) {
            return Answer(CmApr{.local_id = lap.remote_id,
                                .remote_id = lap.local_id,
                                .status = CmApr::kInvalidCommId});
          },
          [](const ipoib::OneOf<CmMra, CmRej, CmRtu, CmDrep, CmSidrRep, CmApr> auto&) {
            return Answer();
          },
      },
      message);
}

}  // namespace

AgentResult refuse_cm(const MadPacket& packet, const SubnetManager& manager) {
  const auto mad = CmMad::parse(packet.mad);
  if (!mad) return {.outcome = AgentOutcome::malformed};
  const Node* const node = manager.node_of(packet);
  if (node == nullptr || node->port.state != PortState::active) {
    return {.outcome = AgentOutcome::unreachable};
  }
  if (!admits_route(node->port, packet.grh)) return {.outcome = AgentOutcome::wrong_gid};
  const auto answer = answer_to(mad->message);
  if (!answer) return {.outcome = AgentOutcome::unmatched_response};
  AgentResult result{.outcome = AgentOutcome::responded, .packet = packet};
  result.packet.reverse();
  CmMad{mad->transaction_id, *answer}.emit(result.packet.mad);
  return result;
}

}  // namespace softib::subnet
