#include "softib/view/resources.hpp"

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>

#include "softib/rdma_cm/socket_addresses.hpp"

namespace softib::view {

namespace {

/// The low bits of a number that is unique on an HCA; the others are the process slot.
constexpr unsigned kIndexBits = 20;

std::uint32_t unique(const Owner& owner, std::uint32_t index) {
  return owner.slot << kIndexBits | index;
}

/// States of an ID as the kernel numbers them (rdma_cm_state), by rdma_cm::IdState.
std::uint8_t kernel_state(rdma_cm::IdState state) {
  switch (state) {
    case rdma_cm::IdState::idle:
      return 0;
    case rdma_cm::IdState::address_query:
      return 1;
    case rdma_cm::IdState::address_resolved:
      return 2;
    case rdma_cm::IdState::route_query:
      return 3;
    case rdma_cm::IdState::route_resolved:
      return 4;
    case rdma_cm::IdState::connect:
      return 5;
    case rdma_cm::IdState::disconnected:
      return 6;
    case rdma_cm::IdState::address_bound:
      return 7;
    case rdma_cm::IdState::listen:
      return 8;
  }
  return 0;
}

/// Of AF_IB, the status has no more than the GID, so it is left out.
void write_address(AttributeWriter& out, std::uint16_t type, const rdma_cm::Address& address) {
  if (!std::holds_alternative<rdma_cm::IpEndpoint>(address)) return;
  sockaddr_storage storage;
  rdma_cm::write_address(address, storage);
  out.attribute(type, storage);
}

void write_queue_pair(AttributeWriter& out, const Owner& owner, const ObjectStatus& qp) {
  const bool is_connected = qp.type == IB_UVERBS_QPT_RC || qp.type == IB_UVERBS_QPT_UC;
  if (qp.port != 0) out.attribute(RDMA_NLDEV_ATTR_PORT_INDEX, std::uint32_t{qp.port});
  if (qp.type != IB_UVERBS_QPT_XRC_TGT) {
    out.attribute(RDMA_NLDEV_ATTR_RES_PDN, unique(owner, qp.domain));
  }
  if (is_connected) {
    out.attribute(RDMA_NLDEV_ATTR_RES_RQPN, qp.remote_qpn);
    out.attribute(RDMA_NLDEV_ATTR_RES_RQ_PSN, qp.receive_psn);
  }
  out.attribute(RDMA_NLDEV_ATTR_RES_SQ_PSN, qp.send_psn);
  if (qp.type != IB_UVERBS_QPT_UD) {
    out.attribute(RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, qp.migration);
  }
  out.attribute(RDMA_NLDEV_ATTR_RES_TYPE, qp.type);
  out.attribute(RDMA_NLDEV_ATTR_RES_STATE, qp.state);
}

void write_object(AttributeWriter& out, ObjectKind kind, const Owner& owner,
                  const ObjectStatus& object) {
  switch (kind) {
    case ObjectKind::protection_domain:
      out.attribute(RDMA_NLDEV_ATTR_RES_USECNT, std::uint64_t{object.users});
      break;
    case ObjectKind::completion_queue:
      out.attribute(RDMA_NLDEV_ATTR_RES_CQE, object.capacity);
      out.attribute(RDMA_NLDEV_ATTR_RES_USECNT, std::uint64_t{object.users});
      break;
    case ObjectKind::memory_region:
      out.attribute(RDMA_NLDEV_ATTR_RES_MRLEN, object.length);
      out.attribute(RDMA_NLDEV_ATTR_RES_PDN, unique(owner, object.domain));
      break;
    case ObjectKind::shared_receive_queue:
      out.attribute(RDMA_NLDEV_ATTR_RES_TYPE, object.type);
      out.attribute(RDMA_NLDEV_ATTR_RES_PDN, unique(owner, object.domain));
      break;
    case ObjectKind::queue_pair:
      return write_queue_pair(out, owner, object);
    case ObjectKind::context:
    case ObjectKind::count_:
      break;
  }
}

void write_id(AttributeWriter& out, const rdma_cm::IdStatus& id) {
  if (id.qpn != Qpn()) out.attribute(RDMA_NLDEV_ATTR_RES_LQPN, id.qpn.value());
  out.attribute(RDMA_NLDEV_ATTR_RES_PS, std::uint32_t{static_cast<std::uint16_t>(id.space)});
  out.attribute(RDMA_NLDEV_ATTR_RES_STATE, kernel_state(id.state));
  write_address(out, RDMA_NLDEV_ATTR_RES_SRC_ADDR, id.source);
  write_address(out, RDMA_NLDEV_ATTR_RES_DST_ADDR, id.destination);
}

}  // namespace

const std::array<ResourceKind, 7> kResourceKinds{{
    {"pd", RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_ATTR_RES_PD, RDMA_NLDEV_ATTR_RES_PD_ENTRY,
     RDMA_NLDEV_ATTR_RES_PDN, ObjectKind::protection_domain},
    {"cq", RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_ATTR_RES_CQ, RDMA_NLDEV_ATTR_RES_CQ_ENTRY,
     RDMA_NLDEV_ATTR_RES_CQN, ObjectKind::completion_queue},
    {"qp", RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_QP, RDMA_NLDEV_ATTR_RES_QP_ENTRY,
     RDMA_NLDEV_ATTR_RES_LQPN, ObjectKind::queue_pair},
    {"cm_id", RDMA_NLDEV_CMD_RES_CM_ID_GET, RDMA_NLDEV_ATTR_RES_CM_ID,
     RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY, RDMA_NLDEV_ATTR_RES_CM_IDN, std::nullopt},
    {"mr", RDMA_NLDEV_CMD_RES_MR_GET, RDMA_NLDEV_ATTR_RES_MR, RDMA_NLDEV_ATTR_RES_MR_ENTRY,
     RDMA_NLDEV_ATTR_RES_MRN, ObjectKind::memory_region},
    {"ctx", RDMA_NLDEV_CMD_RES_CTX_GET, RDMA_NLDEV_ATTR_RES_CTX, RDMA_NLDEV_ATTR_RES_CTX_ENTRY,
     RDMA_NLDEV_ATTR_RES_CTXN, ObjectKind::context},
    {"srq", RDMA_NLDEV_CMD_RES_SRQ_GET, RDMA_NLDEV_ATTR_RES_SRQ, RDMA_NLDEV_ATTR_RES_SRQ_ENTRY,
     RDMA_NLDEV_ATTR_RES_SRQN, ObjectKind::shared_receive_queue},
}};

std::vector<Resource> list_resources(const ResourceKind& kind, const ShownHca& hca,
                                     ResourceSource& source) {
  std::vector<Resource> all;
  const auto add = [&](const Owner& owner, std::uint32_t number, std::uint32_t port, auto write) {
    AttributeWriter out;
    out.attribute(kind.number, number);
    write(out);
    out.attribute(RDMA_NLDEV_ATTR_RES_PID, static_cast<std::uint32_t>(owner.pid));
    all.push_back({number, port, std::move(out).take()});
  };
  if (!kind.object) {
    for (const auto& [owner, id] : source.ids(hca)) {
      add(owner, unique(owner, id.handle.value()), 0,
          [&](AttributeWriter& out) { write_id(out, id); });
    }
    return all;
  }
  const bool is_named =
      *kind.object == ObjectKind::queue_pair || *kind.object == ObjectKind::shared_receive_queue;
  for (const auto& [owner, object] : source.objects(hca, *kind.object)) {
    add(owner, is_named ? object.number : unique(owner, object.number), object.port,
        [&](AttributeWriter& out) { write_object(out, *kind.object, owner, object); });
  }
  return all;
}

}  // namespace softib::view
