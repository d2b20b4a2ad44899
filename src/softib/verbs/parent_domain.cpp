// Parent domains and thread domains (ibv_alloc_parent_domain(3)): hints by which a program says
// where a device may take memory from, and which objects one thread uses alone. The objects belong
// to the protection domain of the parent domain. The queues of this HCA are no memory that a device
// reads, so its allocators are never called; and its locks stay, because the engine is a thread,
// too.
#include <algorithm>

#include "softib/verbs/abi.hpp"
#include "softib/verbs/objects.hpp"

namespace softib::verbs {
namespace {

ibv_td* alloc_td(ibv_context* ibv, ibv_td_init_attr* attr) {
  return verb([&]() -> ipoib::Result<ibv_td*> {
    if (attr->comp_mask != 0)
      return ipoib::Error{EINVAL, "the thread domain has unknown attributes: comp_mask must be 0"};
    auto domain = std::make_unique<Td>();
    domain->context = ibv;
    track(of(ibv), of(ibv).tds, domain.get());
    return domain.release();
  });
}

bool has_parent_domain(Context& context, const ibv_td* td) {
  const std::lock_guard lock(context.mutex);
  return std::ranges::any_of(context.pds,
                             [&](const Pd* each) { return each->thread_domain == td; });
}

int dealloc_td(ibv_td* td) {
  return verb([&]() -> ipoib::Result<void> {
    auto& context = of(td->context);
    if (has_parent_domain(context, td)) {
      return ipoib::Error{EBUSY, "a parent domain uses the thread domain: deallocate it before"};
    }
    untrack(context, context.tds, static_cast<Td*>(td));
    delete static_cast<Td*>(td);
    return {};
  });
}

ibv_pd* alloc_parent_domain(ibv_context* ibv, ibv_parent_domain_init_attr* attr) {
  return verb([&]() -> ipoib::Result<ibv_pd*> {
    constexpr std::uint32_t kKnown =
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    if ((attr->comp_mask & ~kKnown) != 0)
      return unsupported("a parent domain with unknown attributes");
    if (attr->pd == nullptr || attr->pd->context != ibv || of(attr->pd).is_parent_domain) {
      return ipoib::Error{EINVAL,
                          "a parent domain needs a protection domain of its context, which is no "
                          "parent domain itself"};
    }
    const bool has_allocators = (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0;
    if (has_allocators && (attr->alloc == nullptr || attr->free == nullptr)) {
      return ipoib::Error{EINVAL, "an allocator needs both functions, alloc and free"};
    }
    auto& context = of(ibv);
    auto domain = std::make_unique<Pd>();
    domain->context = ibv;
    domain->handle = attr->pd->handle;
    domain->model = of(attr->pd).model;
    domain->is_parent_domain = true;
    domain->thread_domain = attr->td;
    track(context, context.pds, domain.get());
    const auto hca = context.device.hca();
    ++domain->model->users;
    return domain.release();
  });
}

template <class Objects>
bool has_object_of(const Objects& objects, const ibv_pd& pd) {
  return std::ranges::any_of(objects, [&](const auto* each) { return each->pd == &pd; });
}

bool is_used(Context& context, const ibv_pd& pd) {
  const std::lock_guard lock(context.mutex);
  return has_object_of(context.mrs, pd) || has_object_of(context.mws, pd) ||
         has_object_of(context.ahs, pd) || has_object_of(context.srqs, pd) ||
         std::ranges::any_of(context.qps, [&](const Qp* qp) { return qp->qp_base.pd == &pd; });
}

}  // namespace

ipoib::Result<void> dealloc_parent_domain(Pd& domain) {
  auto& context = of(domain.context);
  if (is_used(context, domain))
    return ipoib::Error{EBUSY, "objects use the parent domain: destroy them before"};
  {
    const auto hca = context.device.hca();
    --domain.model->users;
  }
  untrack(context, context.pds, &domain);
  delete &domain;
  return {};
}

void fill_in_parent_domain_verbs(Context& context) {
  context.alloc_td = alloc_td;
  context.dealloc_td = dealloc_td;
  context.alloc_parent_domain = alloc_parent_domain;
}

}  // namespace softib::verbs
