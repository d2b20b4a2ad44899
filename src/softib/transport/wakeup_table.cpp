#include "softib/transport/wakeup_table.hpp"

namespace softib::transport {

using ipoib::Result;

Result<ipoib::FileDescriptor> make_wakeup_table_memory() {
  return make_shared_memory("softib-wakeup", WakeupTable::kBytes);
}

Result<WakeupTable> WakeupTable::map(int memory) {
  auto mapping = SharedMapping::map(memory, kBytes);
  if (!mapping) return mapping.error();
  return WakeupTable(std::move(*mapping));
}

}  // namespace softib::transport
