#include "ipoib/trace.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>

namespace ipoib {

namespace {

// Writes text to a descriptor with write(2) only: in the handler of a crash, the heap and stdio may
// be corrupted.
class SignalSafeText {
 public:
  explicit SignalSafeText(int fd) : fd_(fd) {}
  SignalSafeText(const SignalSafeText&) = delete;
  SignalSafeText& operator=(const SignalSafeText&) = delete;
  ~SignalSafeText() { flush(); }

  SignalSafeText& operator<<(const char* text) {
    for (; *text != '\0'; ++text) put(*text);
    return *this;
  }
  SignalSafeText& hexadecimal(std::uint64_t value) {
    *this << "0x";
    int digits = 1;
    while (digits < 16 && value >> (4 * digits) != 0) ++digits;
    while (digits-- > 0) put("0123456789abcdef"[value >> (4 * digits) & 0xf]);
    return *this;
  }
  SignalSafeText& seconds(Duration::rep nanoseconds) {
    constexpr std::uint64_t kNanoPerSecond = 1'000'000'000;
    auto value = static_cast<std::uint64_t>(nanoseconds);
    if (nanoseconds < 0) {
      put('-');
      value = std::uint64_t{0} - value;
    }
    decimal(value / kNanoPerSecond, 1);
    put('.');
    decimal(value % kNanoPerSecond, 9);
    return *this;
  }

 private:
  void decimal(std::uint64_t value, std::size_t width) {
    std::array<char, 20> digits{};
    std::size_t count = 0;
    for (; value != 0 || count < width; value /= 10) {
      digits[count++] = static_cast<char>('0' + value % 10);
    }
    while (count > 0) put(digits[--count]);
  }
  void put(char c) {
    if (used_ == buffer_.size()) flush();
    buffer_[used_++] = c;
  }
  void flush() {
    std::size_t done = 0;
    while (done < used_) {
      const ssize_t n = ::write(fd_, buffer_.data() + done, used_ - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;  // no way to report it
      done += static_cast<std::size_t>(n);
    }
    used_ = 0;
  }

  int fd_;
  std::size_t used_ = 0;
  std::array<char, 1024> buffer_;
};

}  // namespace

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
