// The devices that ibv_get_device_list() lists.
#pragma once

#include <infiniband/verbs.h>

namespace softib::verbs {

class Device;

/// An ibv_device followed by null pointers. A provider library that a program links checks fields
/// there to find out whether the device is its own; it must find nothing.
struct ListedDevice : ibv_device {
  void* no_provider[64] = {};
  Device* device = nullptr;
  int index = 0;  ///< as the kernel's RDMA family of netlink numbers devices
};

}  // namespace softib::verbs
