#include "ipoib/trace.hpp"

#include <algorithm>
#include <stdexcept>

#include "ipoib/signal_safe_text.hpp"

namespace ipoib {

void TraceRing::assign(std::string_view thread) noexcept {
  // The last byte stays zero, so a crash at this moment prints at worst a mixture of both names.
  std::fill_n(name_.data(), kMaxName, '\0');
  std::copy_n(thread.data(), std::min(thread.size(), kMaxName), name_.data());
  first_.store(count(), std::memory_order_release);
}

bool TraceRing::read(std::uint64_t sequence, TraceRecord& out) const noexcept {
  if (sequence < first_.load(std::memory_order_acquire) || sequence >= count()) return false;
  const Slot& slot = slots_[sequence % kRecords];
  out.sequence = sequence;
  out.keyword = slot.keyword.load(std::memory_order_acquire);
  out.when = TimePoint(Duration(slot.when.load(std::memory_order_acquire)));
  out.first = slot.first.load(std::memory_order_acquire);
  out.second = slot.second.load(std::memory_order_acquire);
  // Once kRecords more are counted, this slot is being overwritten.
  return count() - sequence < kRecords;
}

TraceRing& TraceRings::add(std::string_view thread) {
  const std::size_t index = size();
  if (index == kMax) {
    if (released_.empty()) throw std::length_error("too many threads to trace");
    TraceRing& ring = *released_.front();
    released_.pop_front();
    ring.assign(thread);
    return ring;
  }
  rings_[index] = std::make_unique<TraceRing>(thread);
  size_.store(index + 1, std::memory_order_release);
  return *rings_[index];
}

void TraceRings::write_text(int fd) const noexcept {
  SignalSafeText text(fd);
  for (std::size_t i = 0; i < size(); ++i) {
    const TraceRing& from = ring(i);
    const std::uint64_t end = from.count();
    TraceRecord record;
    for (std::uint64_t n = end - std::min<std::uint64_t>(end, TraceRing::kRecords); n < end; ++n) {
      if (!from.read(n, record)) continue;
      text << "trace " << from.thread() << " ";
      text.seconds(record.when.time_since_epoch().count()) << " " << record.keyword << " ";
      text.hexadecimal(record.first) << " ";
      text.hexadecimal(record.second) << "\n";
    }
  }
}

}  // namespace ipoib
