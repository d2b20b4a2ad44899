#include "softib/verbs/attendance.hpp"

#include <fcntl.h>

#include "softib/verbs/objects.hpp"

namespace softib::verbs {

namespace {

std::uint32_t attendant_of(Channel& channel, endpoint::Endpoint& endpoint) {
  if ((::fcntl(channel.fd, F_GETFL) & O_NONBLOCK) == 0) return transport::Attendant::kEngine;
  if (channel.bell == transport::Attendant::kEngine) channel.bell = endpoint.add_bell(channel.fd);
  return channel.bell;
}

}  // namespace

void Attendance::add(Qpn qp, const Completions& receives) {
  endpoint_.attend(QpnLayout::index(qp), receives.attendant);
  appoint_for_multicast();
}

void Attendance::remove(Qpn qp) {
  endpoint_.attend(QpnLayout::index(qp), transport::Attendant::kEngine);
  appoint_for_multicast();
}

void Attendance::on_polled(Completions& cq) {
  if (!cq.model->is_armed()) appoint(cq, transport::Attendant::kNobody);
}

void Attendance::on_armed(Completions& cq) {
  if (cq.channel != nullptr) appoint(cq, attendant_of(of(cq.channel), endpoint_));
}

void Attendance::on_rung(const Channel& channel) {
  for (auto* const cq : all_) {
    if (cq->channel == &channel && cq->model->is_armed()) appoint(*cq, cq->attendant);
  }
}

void Attendance::on_doubt() {
  for (auto* const cq : all_) {
    if (cq->model->is_armed()) appoint(*cq, cq->attendant);
  }
}

void Attendance::appoint(Completions& cq, std::uint32_t attendant) {
  cq.attendant = attendant;
  for (const auto* const qp : cq.model->receivers) {
    endpoint_.attend(QpnLayout::index(qp->number()), attendant);
  }
  appoint_for_multicast();
}

/// A multicast packet may be for any queue pair. Whoever is woken for it takes it in for all, so it
/// has to be one who is sure to: the engine if it attends to any, else one who is armed.
void Attendance::appoint_for_multicast() {
  bool is_engine = true;
  std::uint32_t attendant = transport::Attendant::kNobody;
  for (const auto* const cq : all_) {
    if (cq->model->receivers.empty()) continue;
    is_engine = cq->attendant == transport::Attendant::kEngine;
    if (is_engine) break;
    if (cq->model->is_armed()) attendant = cq->attendant;
  }
  endpoint_.attend(transport::Door::kMulticast,
                   is_engine ? transport::Attendant::kEngine : attendant);
}

}  // namespace softib::verbs
