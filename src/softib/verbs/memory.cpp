// Protection domains, memory regions and address handles.
#include <algorithm>
#include <bit>
#include <span>

#include "softib/core/network_order.hpp"
#include "softib/hca/ip_header.hpp"
#include "softib/verbs/abi.hpp"
#include "softib/verbs/objects.hpp"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace softib::verbs {
namespace {

constexpr std::uint32_t kFlowLabelMask = 0xfffff;
constexpr unsigned kTrafficClassShift = 20;

/// The flags with which the kernel pins memory for writing (ib_access_writable() of Linux).
constexpr int kToWrite = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                         IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

ipoib::Error not_mapped(int code) {
  return {code, "the memory is not mapped, or not all of it: map it before"};
}

/// Makes the pages of a region present. Those of regions that are not on-demand must be there, and
/// permit the access of the region; the errors are those of pinning.
ipoib::Result<void> prepare(void* memory, std::size_t length, int access) {
  if ((access & IBV_ACCESS_ON_DEMAND) != 0 || length == 0) return {};
  if (!is_mapped(memory, length)) return not_mapped(EFAULT);
  const int error =
      prefetch_pages(static_cast<std::uint8_t*>(memory), length, (access & kToWrite) != 0);
  if (error != 0)
    return ipoib::Error{error, "the memory is protected, or beyond the end of a file"};
  return {};
}

/// Registers memory that is mapped. Unlike a physical HCA, this does not pin the pages: the engine
/// writes to the address. So the memory must stay mapped until its receives are flushed or the
/// region is deregistered, except that of on-demand regions.
ibv_mr* register_mapped(ibv_pd* pd, void* memory, std::size_t length, std::uint64_t address,
                        int access) {
  return verb([&]() -> ipoib::Result<ibv_mr*> {
    if (auto prepared = prepare(memory, length, access); !prepared) return prepared.error();
    if ((access & IBV_ACCESS_ZERO_BASED) != 0) address = 0;
    const auto region = register_memory(pd, memory, length, address, access);
    if (!region) return region.error();
    return *region;
  });
}

ipoib::Result<void> prepare_change(Mr& mr, const hca::RegionChange& change) {
  if (mr.device_memory != nullptr && (change.memory != nullptr || change.access)) {
    return unsupported("a change of a region of device memory, except of its domain,");
  }
  int access = change.access.value_or(0);
  if (!change.access) {
    const auto hca = of(mr.context).device.hca();
    const auto* const region = hca->memory().find(mr.lkey);
    if (region == nullptr) return ipoib::Error{EINVAL, "no memory region has this key"};
    access = region->access;
  }
  if (mr.device_memory != nullptr) return {};
  const bool moves = change.memory != nullptr;
  return prepare(moves ? change.memory : mr.addr, moves ? change.length : mr.length, access);
}

/// Whether an element of ibv_advise_mr() may be prefetched.
bool may_prefetch(const hca::MemoryRegion* region, const ibv_sge& element,
                  const hca::ProtectionDomain* pd, bool to_write) {
  return region != nullptr && region->pd == pd && (region->access & IBV_ACCESS_ON_DEMAND) != 0 &&
         (!to_write || (region->access & IBV_ACCESS_LOCAL_WRITE) != 0) &&
         element.addr >= region->address && element.addr - region->address <= region->length &&
         element.length <= region->length - (element.addr - region->address);
}

/// Implements ibv_advise_mr(). Prefetching is done at once, also if the program does not want to
/// wait.
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* elements,
              std::uint32_t count) {
  return verb([&]() -> ipoib::Result<void> {
    const bool to_write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    const bool may_fault = advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
    if (!to_write && may_fault && advice != IBV_ADVISE_MR_ADVICE_PREFETCH) {
      return unsupported("such advice");
    }
    if ((flags & ~std::uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) != 0 || count == 0) {
      return ipoib::Error{
          EINVAL, "the only flag is IBV_ADVISE_MR_FLAG_FLUSH, and at least one element is needed"};
    }
    for (const auto& element : std::span(elements, count)) {
      std::uint8_t* begin = nullptr;
      {
        const auto hca = of(pd->context).device.hca();
        const auto* const region = hca->memory().find(element.lkey);
        if (!may_prefetch(region, element, of(pd).model, to_write)) {
          return ipoib::Error{EINVAL,
                              "an element is not within an on-demand region (IBV_ACCESS_ON_DEMAND) "
                              "of the protection domain that permits the access"};
        }
        begin = region->at(element.addr - region->address);
      }
      const int error = may_fault ? prefetch_pages(begin, element.length, to_write) : 0;
      const bool waits = (flags & IBV_ADVISE_MR_FLAG_FLUSH) != 0;
      if (error != 0 && waits) return not_mapped(error);
    }
    return {};
  });
}

}  // namespace

ipoib::Result<Mr*> register_memory(ibv_pd* pd, void* memory, std::size_t length,
                                   std::uint64_t address, int access) {
  auto& context = of(pd->context);
  auto region = std::make_unique<Mr>();
  const auto model =
      context.device.hca()->register_memory(*of(pd).model, memory, length, address, access);
  if (!model) return model.error();
  static_cast<ibv_mr&>(*region) = {pd->context, pd,         memory,    length,
                                   model->key,  model->key, model->key};
  track(context, context.mrs, region.get());
  return region.release();
}

void fill_in_memory_verbs(Context& context) { context.advise_mr = advise_mr; }

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
    if (of(pd).is_parent_domain) return dealloc_parent_domain(of(pd));
    auto& context = of(pd->context);
    if (auto destroyed = context.device.hca()->destroy(*of(pd).model); !destroyed) return destroyed;
    untrack(context, context.pds, &of(pd));
    delete &of(pd);
    return {};
  });
}

SOFTIB_ABI ibv_mr* ibv_reg_mr(ibv_pd* pd, void* memory, std::size_t length, int access) {
  return register_mapped(pd, memory, length, std::bit_cast<std::uint64_t>(memory), access);
}

SOFTIB_ABI ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* memory, std::size_t length,
                                   std::uint64_t address, int access) {
  return register_mapped(pd, memory, length, address, access);
}

SOFTIB_ABI ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* memory, std::size_t length,
                                    std::uint64_t address, unsigned access) {
  return register_mapped(pd, memory, length, address, static_cast<int>(access));
}

SOFTIB_ABI int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* memory, std::size_t length,
                            int access) {
  const int error = verb([&]() -> ipoib::Result<void> {
    if (flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0) {
      return ipoib::Error{EINVAL,
                          "the flags name no change, or an unknown one: at least one of "
                          "IBV_REREG_MR_CHANGE_... is needed"};
    }
    hca::RegionChange change;
    if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) change.pd = of(pd).model;
    if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
      change.memory = memory;
      change.length = length;
    }
    if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) change.access = access;
    if (auto prepared = prepare_change(static_cast<Mr&>(*mr), change); !prepared) {
      return prepared;
    }
    auto changed = of(mr->context).device.hca()->memory().change(mr->lkey, change);
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
    auto* const device_memory = region->device_memory;
    if (auto destroyed = context.device.hca()->memory().remove(mr->lkey); !destroyed)
      return destroyed;
    untrack(context, context.mrs, region);
    delete region;
    if (device_memory != nullptr) --device_memory->regions;
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
  const auto ports = of(context).device.hca()->ports();
  if (!ports.has(port)) return -1;
  const PortAttributes& own = ports[port];
  const auto bytes = std::span<const std::uint8_t, ipoib::wire::Grh::kSize>(
      reinterpret_cast<const std::uint8_t*>(grh), ipoib::wire::Grh::kSize);
  const auto ipv4 = own.is_ethernet() ? hca::ipv4_route_of(bytes) : std::nullopt;
  // A reply uses a GID index, so the message must have been sent to a GID of this port.
  const Gid to = ipv4 ? ipv4->dgid : Gid(std::to_array(grh->dgid.raw));
  const auto index = own.gid_index(to);
  if (!index) return -1;
  attr->is_global = 1;
  attr->grh.sgid_index = static_cast<std::uint8_t>(*index);
  if (ipv4) {
    std::ranges::copy(ipv4->sgid.bytes(), attr->grh.dgid.raw);
    attr->grh.hop_limit = ipv4->hop_limit;
    attr->grh.traffic_class = ipv4->traffic_class;
    return 0;
  }
  const auto version_class_flow = from_network(grh->version_tclass_flow);
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
