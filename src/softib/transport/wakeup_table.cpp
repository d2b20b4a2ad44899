#include "softib/transport/wakeup_table.hpp"

namespace softib::transport {

using ipoib::Result;

Result<ipoib::FileDescriptor> make_door_memory() {
  return make_shared_memory("softib-door", Door::kOctets);
}

Result<Door> Door::map(int memory) {
  auto mapping = SharedMapping::map(memory, kOctets);
  if (!mapping) return mapping.error();
  return Door(std::move(*mapping));
}

}  // namespace softib::transport
