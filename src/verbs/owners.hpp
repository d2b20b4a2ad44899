// Owning pointers to verbs objects. Classes declare them in the order of creation, so that they are
// destroyed in reverse, as the verbs require.
#pragma once

#include <infiniband/verbs.h>

#include <memory>

namespace ipoib::verbs {

template <auto destroy>
struct Destroy {
  template <class T>
  void operator()(T* object) const {
    (void)destroy(object);
  }
};

using DeviceList = std::unique_ptr<ibv_device*[], Destroy<&ibv_free_device_list>>;
using Context = std::unique_ptr<ibv_context, Destroy<&ibv_close_device>>;
using ProtectionDomain = std::unique_ptr<ibv_pd, Destroy<&ibv_dealloc_pd>>;
using MemoryRegion = std::unique_ptr<ibv_mr, Destroy<&ibv_dereg_mr>>;
using CompletionChannel = std::unique_ptr<ibv_comp_channel, Destroy<&ibv_destroy_comp_channel>>;
using CompletionQueue = std::unique_ptr<ibv_cq, Destroy<&ibv_destroy_cq>>;
using QueuePair = std::unique_ptr<ibv_qp, Destroy<&ibv_destroy_qp>>;
using RawAddressHandle = std::unique_ptr<ibv_ah, Destroy<&ibv_destroy_ah>>;

}  // namespace ipoib::verbs
