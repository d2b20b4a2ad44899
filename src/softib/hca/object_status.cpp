// What an HCA tells of its objects.
#include "softib/hca/hca.hpp"

namespace softib::hca {
namespace {

std::uint32_t index_of(const ProtectionDomain* pd) { return pd != nullptr ? pd->handle : 0; }

ObjectStatus status_of(const ProtectionDomain& pd) {
  return {.number = pd.handle, .users = pd.users};
}

ObjectStatus status_of(const CompletionQueue& cq) {
  return {.number = cq.handle, .users = cq.users, .capacity = cq.capacity()};
}

ObjectStatus status_of(const SharedReceiveQueue& queue) {
  const auto type = queue.config().domain != nullptr ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
  return {.number = queue.number,
          .domain = index_of(queue.pd()),
          .users = queue.users,
          .type = static_cast<std::uint8_t>(type)};
}

ObjectStatus status_of(const QueuePair& qp) {
  const auto attributes = qp.attributes();
  return {.number = qp.number().value(),
          .domain = index_of(qp.config().pd),
          .remote_qpn = attributes.dest_qp_num,
          .receive_psn = attributes.rq_psn,
          .send_psn = attributes.sq_psn,
          .type = static_cast<std::uint8_t>(qp.config().type),
          .state = static_cast<std::uint8_t>(attributes.qp_state),
          .migration = static_cast<std::uint8_t>(attributes.path_mig_state),
          .port = qp.port()};
}

template <class Object>
std::optional<ObjectStatus> status_of(const Object* object) {
  return object != nullptr ? std::optional(status_of(*object)) : std::nullopt;
}

}  // namespace

ObjectPage Hca::objects(const ObjectRequest& request) const {
  const auto page = [&](std::size_t end, auto describe) {
    return ObjectPage::from(request.first, end, describe);
  };
  const auto of_table = [&](const auto& table) {
    return page(table.end(), [&](std::size_t handle) { return status_of(table.find(handle)); });
  };
  switch (request.kind) {
    case ObjectKind::protection_domain:
      return of_table(pds_);
    case ObjectKind::completion_queue:
      return of_table(cqs_);
    case ObjectKind::shared_receive_queue:
      return of_table(shared_receives_.queues());
    case ObjectKind::queue_pair:
      return page(kMaxQueuePairs, [&](std::size_t index) { return status_of(qps_.at(index)); });
    case ObjectKind::memory_region:
      return page(memory_.slots(), [&](std::size_t slot) -> std::optional<ObjectStatus> {
        const auto* const region = memory_.at(slot);
        if (region == nullptr) return std::nullopt;
        return ObjectStatus{.number = static_cast<std::uint32_t>(slot),
                            .domain = index_of(region->pd),
                            .users = region->windows,
                            .length = region->length};
      });
    default:
      return {};
  }
}

}  // namespace softib::hca
