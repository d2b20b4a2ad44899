#include "softib/transport/wakeup_table.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

namespace softib::transport {

using ipoib::Error;
using ipoib::Result;

namespace {
constexpr std::size_t kWakeupTableBytes = (sizeof(WakeupLayout) + 4095) / 4096 * 4096;
}

Result<WakeupTable> WakeupTable::make() {
  auto memory = make_shared_memory("softib-wakeup", kWakeupTableBytes);
  if (!memory) return memory.error();
  auto mapping = SharedMapping::map(memory->get(), kWakeupTableBytes);
  if (!mapping) return mapping.error();
  // From now on nobody else can map the memory writable, or write to it.
  if (::fcntl(memory->get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0) {
    return Error{errno, std::string("F_SEAL_FUTURE_WRITE: ") + std::strerror(errno)};
  }
  return WakeupTable(std::move(*memory), std::move(*mapping));
}

void WakeupTable::set_waiter(std::size_t entry, std::uint32_t waiter) {
  const bool sleeps = waiter >= Waiter::kFirstWakeupFd;
  const std::uint64_t time = sleeps ? time_.fetch_add(1, std::memory_order_relaxed) + 1 : 0;
  layout().waiters[entry].store(time << 24 | waiter);
}

Result<WakeupView> WakeupView::map(int memory) {
  auto mapping = SharedMapping::map_readonly(memory, kWakeupTableBytes);
  if (!mapping) return mapping.error();
  return WakeupView(std::move(*mapping));
}

bool WakeupView::must_wake_engine() {
  const auto word = layout().engine.load();
  return (word & WakeupLayout::kAsleep) != 0 && std::exchange(engine_woken_, word) != word;
}

}  // namespace softib::transport
