// Device memory (ibv_alloc_dm(3)): memory that programs reach by copies and by regions only. This
// HCA takes it from the heap of the process.
#include <cstring>

#include "softib/verbs/abi.hpp"
#include "softib/verbs/objects.hpp"

#undef ibv_reg_mr

namespace softib::verbs {
namespace {

/// The unit of offsets and lengths of copies, as on devices that access words.
constexpr std::uint64_t kWord = 4;

bool is_part(const Dm& memory, std::uint64_t offset, std::uint64_t length) {
  return offset <= memory.length && length <= memory.length - offset;
}

bool may_copy(const Dm& memory, std::uint64_t offset, std::uint64_t length) {
  return offset % kWord == 0 && length % kWord == 0 && is_part(memory, offset, length);
}

int copy_to(ibv_dm* dm, std::uint64_t offset, const void* from, std::size_t length) {
  if (!may_copy(of(dm), offset, length)) return errno = EINVAL;
  std::memcpy(of(dm).begin() + offset, from, length);
  return 0;
}

int copy_from(void* to, ibv_dm* dm, std::uint64_t offset, std::size_t length) {
  if (!may_copy(of(dm), offset, length)) return errno = EINVAL;
  std::memcpy(to, of(dm).begin() + offset, length);
  return 0;
}

ibv_dm* alloc_dm(ibv_context* ibv, ibv_alloc_dm_attr* attr) {
  return verb([&]() -> ipoib::Result<ibv_dm*> {
    auto& context = of(ibv);
    if (attr->comp_mask != 0)
      return ipoib::Error{EINVAL, "the device memory has unknown attributes: comp_mask must be 0"};
    if (attr->length == 0 || attr->log_align_req > hca::kMaxDeviceMemoryAlignment) {
      return ipoib::Error{EINVAL, "the length is 0, or the alignment is too large"};
    }
    if (!context.device.take_device_memory(attr->length)) {
      return ipoib::Error{ENOMEM, "not that much device memory is left"};
    }
    auto memory = std::make_unique<Dm>(context.device, attr->length, attr->log_align_req);
    memory->context = ibv;
    memory->memcpy_to_dm = copy_to;
    memory->memcpy_from_dm = copy_from;
    track(context, context.dms, memory.get());
    return memory.release();
  });
}

int free_dm(ibv_dm* dm) {
  return verb([&]() -> ipoib::Result<void> {
    auto& context = of(dm->context);
    if (of(dm).regions != 0)
      return ipoib::Error{EBUSY, "memory regions are on the device memory: deregister them before"};
    untrack(context, context.dms, &of(dm));
    delete &of(dm);
    return {};
  });
}

ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, std::uint64_t offset, std::size_t length,
                  unsigned access) {
  return verb([&]() -> ipoib::Result<ibv_mr*> {
    auto& memory = of(dm);
    if ((access & IBV_ACCESS_ZERO_BASED) == 0 || !is_part(memory, offset, length)) {
      return ipoib::Error{EINVAL,
                          "a region of device memory must be zero-based (IBV_ACCESS_ZERO_BASED) "
                          "and within that memory"};
    }
    if ((access & IBV_ACCESS_ON_DEMAND) != 0) {
      return ipoib::Error{EINVAL,
                          "device memory is always present: leave out IBV_ACCESS_ON_DEMAND"};
    }
    auto region = register_memory(pd, memory.begin() + offset, length, 0, static_cast<int>(access));
    if (!region) return region.error();
    (*region)->device_memory = &memory;
    (*region)->addr = nullptr;
    ++memory.regions;
    return *region;
  });
}

}  // namespace

Dm::Dm(Device& of, std::size_t size, std::uint32_t log_alignment)
    : ibv_dm{},
      length(size),
      device_(of),
      alignment_(std::align_val_t{std::size_t{1} << log_alignment}),
      begin_(static_cast<std::uint8_t*>(::operator new(size, alignment_))) {
  std::memset(begin_, 0, size);
}

Dm::~Dm() {
  ::operator delete(begin_, alignment_);
  device_.return_device_memory(length);
}

void fill_in_device_memory_verbs(Context& context) {
  context.alloc_dm = alloc_dm;
  context.free_dm = free_dm;
  context.reg_dm_mr = reg_dm_mr;
}

}  // namespace softib::verbs
