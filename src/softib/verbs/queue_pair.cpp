// Queue pairs: create, modify, post, attach to multicast groups.
#include <infiniband/softibdv.h>

#include <array>
#include <optional>

#include "ipoib/segmentation.hpp"
#include "softib/verbs/abi.hpp"
#include "softib/verbs/objects.hpp"

namespace softib::verbs {
namespace {

constexpr std::uint32_t kSupportedMask =
    IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
    IBV_QP_INIT_ATTR_MAX_TSO_HEADER | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
constexpr std::uint64_t kUdSendOps =
    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_TSO;
constexpr std::uint64_t kUcSendOps =
    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
    IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
constexpr std::uint64_t kRcSendOps = kUcSendOps | IBV_QP_EX_WITH_RDMA_READ |
                                     IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_ATOMIC_WRITE |
                                     IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

// The values are documented in softibdv.h.
static_assert(SOFTIBDV_LARGE_RECV_SIZE == hca::kLargeReceive);
static_assert(SOFTIBDV_MAX_LARGE_RECVS == hca::kMaxLargeReceives);
static_assert(ipoib::kMaxSegments == 64);

/// The send operations of queue pairs of this type; nullopt if it is not supported.
std::optional<std::uint64_t> send_operations(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_UD:
      return kUdSendOps;
    case IBV_QPT_UC:
      return kUcSendOps;
    case IBV_QPT_RC:
    case IBV_QPT_XRC_SEND:
      return kRcSendOps;
    case IBV_QPT_XRC_RECV:
      return 0;
    default:
      return std::nullopt;
  }
}

bool is_supported(const ibv_qp_init_attr_ex& attr) {
  const auto flags = (attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 ? attr.create_flags : 0;
  const auto sends =
      (attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 ? attr.send_ops_flags : 0;
  const auto operations = send_operations(attr.qp_type);
  const bool is_ud = attr.qp_type == IBV_QPT_UD;
  if (!is_ud && (attr.comp_mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER) != 0 &&
      attr.max_tso_header != 0) {
    return false;
  }
  const std::uint32_t known_flags = is_ud ? std::uint32_t{IBV_QP_CREATE_BLOCK_SELF_MCAST_LB} : 0U;
  return operations && (attr.comp_mask & ~kSupportedMask) == 0 && (flags & ~known_flags) == 0 &&
         (sends & ~*operations) == 0;
}

hca::QueuePairConfig configuration(const ibv_qp_init_attr_ex& attr) {
  hca::QueuePairConfig config;
  config.type = attr.qp_type;
  if (attr.qp_type == IBV_QPT_XRC_RECV) {
    if ((attr.comp_mask & IBV_QP_INIT_ATTR_XRCD) != 0) config.domain = of(attr.xrcd).model;
    return config;
  }
  const bool is_xrc_send = attr.qp_type == IBV_QPT_XRC_SEND;
  config.pd = of(attr.pd).model;
  if (attr.send_cq != nullptr) config.send_cq = of(attr.send_cq).model;
  if (attr.recv_cq != nullptr && !is_xrc_send) config.receive_cq = of(attr.recv_cq).model;
  if (attr.srq != nullptr && !is_xrc_send) config.shared = of(attr.srq).model;
  config.cap = attr.cap;
  if (is_xrc_send || config.shared != nullptr) {
    config.cap.max_recv_wr = config.cap.max_recv_sge = 0;
  }
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER) != 0) {
    config.max_tso_header = attr.max_tso_header;
  }
  config.signal_all = attr.sq_sig_all != 0;
  config.block_self_multicast = (attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 &&
                                (attr.create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) != 0;
  return config;
}

void describe(ibv_qp& qp, ibv_context* context, const ibv_qp_init_attr_ex& attr,
              const hca::QueuePair& model) {
  qp.context = context;
  qp.qp_context = attr.qp_context;
  qp.pd = attr.pd;
  qp.send_cq = attr.send_cq;
  qp.recv_cq = attr.recv_cq;
  qp.srq = attr.srq;
  qp.handle = model.number().value();
  qp.qp_num = model.number().value();
  qp.state = IBV_QPS_RESET;
  qp.qp_type = attr.qp_type;
}

/// Writes the capabilities that it has to `attr`.
ipoib::Result<Qp*> create(ibv_context* ibv, ibv_qp_init_attr_ex& attr) {
  if (!is_supported(attr)) return unsupported("such a queue pair");
  if (attr.pd == nullptr && attr.qp_type != IBV_QPT_XRC_RECV) {
    return ipoib::Error{EINVAL, "a queue pair needs a protection domain"};
  }
  auto& context = of(ibv);
  auto qp = std::make_unique<Qp>();
  {
    const auto hca = context.device.hca();
    const auto model = hca->create_queue_pair(configuration(attr));
    if (!model) return model.error();
    qp->model = *model;
    qp->model->owner = qp.get();
    if ((*model)->is_connected()) {
      hca.wakeups().add_connection();
    } else {
      hca.wakeups().add_receiver((*model)->number(), of(attr.recv_cq).wakeups);
    }
  }
  describe(qp->qp_base, ibv, attr, *qp->model);
  pthread_mutex_init(&qp->qp_base.mutex, nullptr);
  pthread_cond_init(&qp->qp_base.cond, nullptr);
  qp->extended = (attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  if (qp->extended) fill_in_qp_ex(*qp);
  track(context, context.qps, qp.get());
  attr.cap = qp->model->config().cap;
  return qp.release();
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) {
  return verb([&]() -> ipoib::Result<ibv_qp*> {
    const auto qp = create(context, *attr);
    if (!qp) return qp.error();
    return &(*qp)->qp_base;
  });
}

int post_send(ibv_qp* ibv, ibv_send_wr* chain, ibv_send_wr** bad) noexcept {
  auto& qp = of(ibv);
  const std::lock_guard sending(qp.sending);
  const int error = of(ibv->context).device.post(*qp.model, [&](hca::Hca& hca) {
    return hca.post_send(*qp.model, chain, bad);
  });
  return post_result("ibv_post_send", error);
}

int post_recv(ibv_qp* ibv, ibv_recv_wr* chain, ibv_recv_wr** bad) noexcept {
  const int error = of(ibv->context).device.change([&](hca::Hca& hca) {
    return hca.post_receive(*of(ibv).model, chain, bad);
  });
  return post_result("ibv_post_recv", error);
}

Gid group_of(const ibv_gid* gid) { return Gid(std::to_array(gid->raw)); }

}  // namespace

ipoib::Result<void> destroy(Qp& qp) {
  auto& context = of(qp.qp_base.context);
  if (auto retired = context.device.retire(*qp.model); !retired) return retired;
  context.async_events.withdraw([&](const ibv_async_event& event) { return is_of(event, qp); });
  pthread_mutex_lock(&qp.qp_base.mutex);
  while (qp.qp_base.events_completed != qp.async_events_taken) {
    pthread_cond_wait(&qp.qp_base.cond, &qp.qp_base.mutex);
  }
  pthread_mutex_unlock(&qp.qp_base.mutex);
  if (auto destroyed = context.device.destroy(*qp.model); !destroyed) return destroyed;
  untrack(context, context.qps, &qp);
  pthread_cond_destroy(&qp.qp_base.cond);
  pthread_mutex_destroy(&qp.qp_base.mutex);
  delete &qp;
  return {};
}

void fill_in_queue_pair_verbs(Context& context) {
  context.create_qp_ex = create_qp_ex;
  context.context.ops.post_send = post_send;
  context.context.ops.post_recv = post_recv;
}

SOFTIB_ABI ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
  return verb([&]() -> ipoib::Result<ibv_qp*> {
    ibv_qp_init_attr_ex attr{};
    attr.qp_context = init->qp_context;
    attr.send_cq = init->send_cq;
    attr.recv_cq = init->recv_cq;
    attr.srq = init->srq;
    attr.cap = init->cap;
    attr.qp_type = init->qp_type;
    attr.sq_sig_all = init->sq_sig_all;
    attr.pd = pd;
    const auto qp = create(pd->context, attr);
    if (!qp) return qp.error();
    init->cap = attr.cap;
    return &(*qp)->qp_base;
  });
}

SOFTIB_ABI int softibdv_post_large_recv(ibv_qp* ibv, ibv_recv_wr* chain, ibv_recv_wr** bad) {
  auto* failed = chain;
  const int error = verb([&]() -> ipoib::Result<void> {
    const int code = of(ibv->context).device.change([&](hca::Hca& hca) {
      return hca.post_receive(*of(ibv).model, chain, &failed, hca::ReceiveKind::large);
    });
    if (code != 0) {
      return ipoib::Error{
          code,
          "the large receive cannot be posted: it needs a queue pair of datagrams after RESET with "
          "room in its receive queue, and one element of SOFTIBDV_LARGE_RECV_SIZE bytes"};
    }
    return {};
  });
  if (error != 0) *bad = failed;
  return error;
}

SOFTIB_ABI ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) { return of(qp).extended ? &of(qp) : nullptr; }

SOFTIB_ABI int ibv_modify_qp(ibv_qp* ibv, ibv_qp_attr* attr, int mask) {
  return verb([&]() -> ipoib::Result<void> {
    auto& qp = of(ibv);
    auto& device = of(ibv->context).device;
    const std::lock_guard sending(qp.sending);
    auto modified =
        device.change([&](hca::Hca& hca) { return hca.modify(*qp.model, *attr, mask); });
    if (!modified) return modified;
    if ((mask & IBV_QP_STATE) != 0) ibv->state = attr->qp_state;
    device.transmit(*qp.model);
    return {};
  });
}

SOFTIB_ABI int ibv_query_qp(ibv_qp* ibv, ibv_qp_attr* attr, int /*mask*/, ibv_qp_init_attr* init) {
  return verb([&]() -> ipoib::Result<void> {
    of(ibv->context).device.receive_pending();
    const auto hca = of(ibv->context).device.hca();
    const auto& model = *of(ibv).model;
    *attr = model.attributes();
    *init = {};
    init->qp_context = ibv->qp_context;
    init->send_cq = ibv->send_cq;
    init->recv_cq = ibv->recv_cq;
    init->srq = ibv->srq;
    init->cap = attr->cap;
    init->qp_type = ibv->qp_type;
    init->sq_sig_all = model.config().signal_all ? 1 : 0;
    ibv->state = attr->qp_state;
    return {};
  });
}

/// Returns 0: the data of a message may be written out of order.
SOFTIB_ABI int ibv_query_qp_data_in_order(ibv_qp* /*qp*/, ibv_wr_opcode /*opcode*/,
                                          std::uint32_t /*flags*/) {
  return 0;
}

SOFTIB_ABI int ibv_destroy_qp(ibv_qp* qp) {
  return verb([&] { return destroy(of(qp)); });
}

SOFTIB_ABI int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  return verb(
      [&] { return of(qp->context).device.attach(*of(qp).model, group_of(gid), Lid(lid)); });
}

SOFTIB_ABI int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  return verb(
      [&] { return of(qp->context).device.detach(*of(qp).model, group_of(gid), Lid(lid)); });
}

}  // namespace softib::verbs
