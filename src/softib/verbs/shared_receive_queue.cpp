// Shared receive queues: create, modify, query, post, destroy.
#include "softib/verbs/abi.hpp"
#include "softib/verbs/objects.hpp"

namespace softib::verbs {
namespace {

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* chain, ibv_recv_wr** bad) noexcept {
  const int error =
      of(srq->context).device.hca()->shared_receives().post(*of(srq).model, chain, bad);
  return post_result("ibv_post_srq_recv", error);
}

void describe(Srq& srq, ibv_pd& pd, void* context) {
  srq.context = pd.context;
  srq.srq_context = context;
  srq.pd = &pd;
  pthread_mutex_init(&srq.mutex, nullptr);
  pthread_cond_init(&srq.cond, nullptr);
}

/// Creates a queue. Its limit is set by ibv_modify_srq() only (ibv_create_srq(3)).
ipoib::Result<Srq*> create(ibv_pd& pd, void* user_context, hca::SharedReceiveQueueConfig config) {
  auto& context = of(pd.context);
  config.pd = of(&pd).model;
  config.attributes.srq_limit = 0;
  auto srq = std::make_unique<Srq>();
  {
    const auto hca = context.device.hca();
    const auto model = hca->shared_receives().create(config);
    if (!model) return model.error();
    srq->model = *model;
    srq->handle = (*model)->handle;
    srq->model->owner = srq.get();
  }
  describe(*srq, pd, user_context);
  track(context, context.srqs, srq.get());
  return srq.release();
}

ipoib::Result<void> destroy(Srq& srq) {
  auto& context = of(srq.context);
  if (auto may = context.device.hca()->shared_receives().may_destroy(*srq.model); !may) return may;
  context.async_events.withdraw([&](const ibv_async_event& event) { return is_of(event, srq); });
  pthread_mutex_lock(&srq.mutex);
  while (srq.events_completed != srq.async_events_taken) {
    pthread_cond_wait(&srq.cond, &srq.mutex);
  }
  pthread_mutex_unlock(&srq.mutex);
  if (auto destroyed = context.device.hca()->shared_receives().destroy(*srq.model); !destroyed)
    return destroyed;
  untrack(context, context.srqs, &srq);
  pthread_cond_destroy(&srq.cond);
  pthread_mutex_destroy(&srq.mutex);
  delete &srq;
  return {};
}

/// Implements ibv_create_srq_ex() for queues other than the basic ones.
ibv_srq* create_srq_ex(ibv_context* /*context*/, ibv_srq_init_attr_ex* attr) {
  constexpr std::uint32_t kNeeded =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  return verb([&]() -> ipoib::Result<ibv_srq*> {
    const bool has_type = (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0;
    if (!has_type || attr->srq_type == IBV_SRQT_BASIC) {
      return ipoib::Error{EINVAL,
                          "a basic shared receive queue is created with ibv_create_srq(), or "
                          "without other attributes than type and protection domain"};
    }
    if (attr->srq_type != IBV_SRQT_XRC || (attr->comp_mask & ~kNeeded) != 0) {
      return unsupported("such a shared receive queue");
    }
    if (attr->comp_mask != kNeeded) {
      return ipoib::Error{EINVAL,
                          "an XRC shared receive queue needs a protection domain, an XRC domain "
                          "and a completion queue"};
    }
    const auto srq = create(
        *attr->pd, attr->srq_context,
        {.attributes = attr->attr, .domain = of(attr->xrcd).model, .cq = of(attr->cq).model});
    if (!srq) return srq.error();
    return *srq;
  });
}

/// Implements ibv_get_srq_num(). Only queues of XRC have numbers.
int get_srq_num(ibv_srq* srq, std::uint32_t* number) {
  const auto& model = *of(srq).model;
  if (model.config().domain == nullptr) return EOPNOTSUPP;
  *number = model.number;
  return 0;
}

}  // namespace

void fill_in_shared_receive_verbs(Context& context) {
  context.context.ops.post_srq_recv = post_srq_recv;
  context.create_srq_ex = create_srq_ex;
  context.get_srq_num = get_srq_num;
}

SOFTIB_ABI ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* init) {
  return verb([&]() -> ipoib::Result<ibv_srq*> {
    const auto srq = create(*pd, init->srq_context, {.attributes = init->attr});
    if (!srq) return srq.error();
    return *srq;
  });
}

SOFTIB_ABI int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  return verb([&] {
    return of(srq->context).device.hca()->shared_receives().modify(*of(srq).model, *attr, mask);
  });
}

SOFTIB_ABI int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  return verb([&]() -> ipoib::Result<void> {
    const auto hca = of(srq->context).device.hca();
    *attr = of(srq).model->attributes();
    return {};
  });
}

SOFTIB_ABI int ibv_destroy_srq(ibv_srq* srq) {
  return verb([&] { return destroy(of(srq)); });
}

}  // namespace softib::verbs
