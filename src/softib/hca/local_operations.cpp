// Local operations of a connection's send queue, which bind and invalidate memory windows. They
// begin when all requests before them have been sent, so that a key that is sent afterwards is
// valid; and complete in order (IBA 10.8.3.3).
#include "softib/hca/connections.hpp"
#include "softib/hca/hca.hpp"

namespace softib::hca {

/// Executes those that come next. One that may not be executed fails when those before it are
/// complete.
void Connections::execute_local(QueuePair& qp) {
  auto& requester = qp.connection_->requester;
  while (qp.state_ == IBV_QPS_RTS && requester.may_start_local()) {
    const auto position = requester.next_to_start();
    const bool is_oldest = position == qp.sends_.processed();
    if (execute_local(qp, position)) {
      requester.start_local();
      if (is_oldest) complete_oldest(qp);
    } else {
      if (is_oldest) {
        requester.start_local();
        fail(qp, IBV_WC_MW_BIND_ERR);
      }
      return;
    }
  }
}

bool Connections::execute_local(QueuePair& qp, std::uint32_t position) {
  const auto& request = qp.connection_->requester.at(position);
  auto& memory = hca_.memory_;
  if (request.opcode == IBV_WR_BIND_MW) return memory.bind(request.binding, qp.key_user());
  if (!memory.may_invalidate(request.invalidated_key, qp.key_user())) return false;
  memory.invalidate(request.invalidated_key);
  return true;
}

/// Completes the oldest request, and local operations that waited for it.
void Connections::complete_oldest(QueuePair& qp) {
  auto& requester = qp.connection_->requester;
  hca_.complete_send(qp, IBV_WC_SUCCESS);
  while (qp.state_ != IBV_QPS_ERR && requester.has_started() && requester.oldest().is_local()) {
    hca_.complete_send(qp, IBV_WC_SUCCESS);
  }
}

}  // namespace softib::hca
