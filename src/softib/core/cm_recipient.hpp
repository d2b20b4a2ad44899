// The process that a message of class 7 is for. All of these have method Send, so no transaction ID
// names it.
#pragma once

#include <variant>

#include "ipoib/overloaded.hpp"
#include "softib/core/comm_id.hpp"

namespace softib {

/// The listener of a service, or the process that a communication ID names. CommId() names no
/// process: any process of the node may be meant.
using CmRecipient = std::variant<ipoib::wire::ServiceId, CommId>;

[[nodiscard]] inline CmRecipient recipient_of(const ipoib::wire::CmMessage& message) {
  using namespace ipoib::wire;
  return std::visit(
      ipoib::Overloaded{
          [](const ipoib::OneOf<CmReq, CmSidrReq> auto& request) {
            return CmRecipient(request.service_id);
          },
          [](const CmSidrRep& reply) { return CmRecipient(reply.request_id); },
          [](const ipoib::OneOf<CmMra, CmRej, CmRep, CmRtu, CmDreq, CmDrep, CmLap, CmApr> auto&
                 other) { return CmRecipient(other.remote_id); },
      },
      message);
}

}  // namespace softib
