// Protection domains, memory regions and address handles.
#include <algorithm>
#include <bit>

#include "softib/hca/network_order.hpp"
#include "softib/verbs/abi.hpp"
#include "softib/verbs/objects.hpp"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace softib::verbs {
namespace {

constexpr std::uint32_t kFlowLabelMask = 0xfffff;
constexpr unsigned kTrafficClassShift = 20;

/// Unlike a physical HCA, this does not pin the pages: the engine writes to the address. So the
/// memory must stay mapped until its receives are flushed or the region is deregistered.
ibv_mr* register_memory(ibv_pd* pd, void* memory, std::size_t length, std::uint64_t address,
                        int access) {
  return verb([&]() -> ipoib::Result<ibv_mr*> {
    auto& context = of(pd->context);
    auto region = std::make_unique<Mr>();
    const auto model =
        context.device.hca()->register_memory(*of(pd).model, memory, length, address, access);
    if (!model) return model.error();
    static_cast<ibv_mr&>(*region) = {pd->context, pd,         memory,    length,
                                     model->key,  model->key, model->key};
    track(context, context.mrs, region.get());
    return region.release();
  });
}

}  // namespace

SOFTIB_ABI ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return verb([&]() -> ipoib::Result<ibv_pd*> {
    auto domain = std::make_unique<Pd>();
    const auto model = of(context).device.hca()->create_protection_domain();
    if (!model) return model.error();
    domain->context = context;
    domain->handle = (*model)->handle;
    domain->model = *model;
    track(of(context), of(context).pds, domain.get());
    return domain.release();
  });
}

SOFTIB_ABI int ibv_dealloc_pd(ibv_pd* pd) {
  return verb([&]() -> ipoib::Result<void> {
    auto& context = of(pd->context);
    if (auto destroyed = context.device.hca()->destroy(*of(pd).model); !destroyed) return destroyed;
    untrack(context, context.pds, &of(pd));
    delete &of(pd);
    return {};
  });
}

SOFTIB_ABI ibv_mr* ibv_reg_mr(ibv_pd* pd, void* memory, std::size_t length, int access) {
  return register_memory(pd, memory, length, std::bit_cast<std::uint64_t>(memory), access);
}

SOFTIB_ABI ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* memory, std::size_t length,
                                   std::uint64_t address, int access) {
  return register_memory(pd, memory, length, address, access);
}

SOFTIB_ABI ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* memory, std::size_t length,
                                    std::uint64_t address, unsigned access) {
  return register_memory(pd, memory, length, address, static_cast<int>(access));
}

SOFTIB_ABI int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* memory, std::size_t length,
                            int access) {
  const int error = verb([&]() -> ipoib::Result<void> {
    if (flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0) {
      return ipoib::Error{EINVAL, "invalid flags"};
    }
    hca::RegionChange change;
    if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) change.pd = of(pd).model;
    if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
      change.memory = memory;
      change.length = length;
    }
    if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) change.access = access;
    auto changed = of(mr->context).device.hca()->reregister_memory(mr->lkey, change);
    if (!changed) return changed;
    if (change.pd != nullptr) mr->pd = pd;
    if (change.memory != nullptr) {
      mr->addr = memory;
      mr->length = length;
    }
    return {};
  });
  return error == 0 ? 0 : int{IBV_REREG_MR_ERR_INPUT};
}

SOFTIB_ABI int ibv_dereg_mr(ibv_mr* mr) {
  return verb([&]() -> ipoib::Result<void> {
    auto& context = of(mr->context);
    auto* const region = static_cast<Mr*>(mr);
    if (auto destroyed = context.device.hca()->deregister_memory(mr->lkey); !destroyed)
      return destroyed;
    untrack(context, context.mrs, region);
    delete region;
    return {};
  });
}

SOFTIB_ABI ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  return verb([&]() -> ipoib::Result<ibv_ah*> {
    auto& context = of(pd->context);
    const auto ah = context.device.hca()->create_address_handle(*of(pd).model, *attr);
    if (!ah) return ah.error();
    (*ah)->context = pd->context;
    (*ah)->pd = pd;
    track(context, context.ahs, *ah);
    return *ah;
  });
}

SOFTIB_ABI int ibv_destroy_ah(ibv_ah* ah) {
  return verb([&]() -> ipoib::Result<void> {
    auto& context = of(ah->context);
    auto& model = static_cast<hca::AddressHandle&>(*ah);
    untrack(context, context.ahs, &model);
    return context.device.hca()->destroy(model);
  });
}

/// The address of the sender of a message: the reversed path (IBA 13.5.4.4).
SOFTIB_ABI int ibv_init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* wc,
                                   ibv_grh* grh, ibv_ah_attr* attr) {
  *attr = {};
  attr->dlid = wc->slid;
  attr->sl = wc->sl;
  attr->src_path_bits = wc->dlid_path_bits;
  attr->port_num = port;
  if ((wc->wc_flags & IBV_WC_GRH) == 0) return 0;
  // A reply uses a GID index, so the message must have been sent to a GID of this port.
  const Gid to(std::to_array(grh->dgid.raw));
  if (to != of(context).device.hca()->port().gid()) return -1;
  const auto version_class_flow = hca::from_network(grh->version_tclass_flow);
  attr->is_global = 1;
  attr->grh.dgid = grh->sgid;
  attr->grh.flow_label = version_class_flow & kFlowLabelMask;
  attr->grh.hop_limit = grh->hop_limit;
  attr->grh.traffic_class = static_cast<std::uint8_t>(version_class_flow >> kTrafficClassShift);
  return 0;
}

SOFTIB_ABI ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port) {
  ibv_ah_attr attr;
  if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) != 0) return nullptr;
  return ibv_create_ah(pd, &attr);
}

}  // namespace softib::verbs
