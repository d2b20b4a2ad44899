#include "softib/transport/ring.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "softib/transport/ring_order.hpp"

namespace softib::transport {

namespace {

constexpr std::size_t kPrefixBytes = 8;
constexpr std::uint32_t kChecksumsRight = 1U << 31;
constexpr std::uint32_t kHasIcrc = 1U << 30;
constexpr std::uint32_t kSecondPort = 1U << 29;
static_assert(kMaxHcaPorts == 2);
constexpr std::size_t kAlignment = 64;  ///< a cache line, so no two records share one
constexpr std::size_t kPrefetch = 4;    ///< records ahead
constexpr std::size_t kPublishBytes = 1U << 14;

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(int), "a futex");

constexpr std::size_t record_size(std::size_t packet_bytes) {
  return (kPrefixBytes + packet_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::uint32_t load_once(const std::uint8_t* at) {
  // One atomic load, since the other process may change the word at any time.
  return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(const_cast<std::uint8_t*>(at)))
      .load(std::memory_order_relaxed);
}

constexpr std::size_t max_bytes(const GsoInfo& gso, bool has_icrc) {
  if (gso.size != 0) return kMaxLargePacketBytes;
  return kMaxPacketBytes + (has_icrc ? ipoib::wire::kIcrcSize : 0);
}

struct Prefix {
  explicit Prefix(const std::uint8_t* record) {
    const auto first = load_once(record);
    const auto second = load_once(record + sizeof first);
    bytes = first & ~(kChecksumsRight | kHasIcrc | kSecondPort);
    checksums_valid = (first & kChecksumsRight) != 0;
    has_icrc = (first & kHasIcrc) != 0;
    port = (first & kSecondPort) != 0 ? 2 : 1;
    gso = {static_cast<std::uint16_t>(second), static_cast<std::uint16_t>(second >> 16)};
  }
  /// Whether a correct writer could have written the prefix.
  [[nodiscard]] bool is_possible() const {
    if (bytes > max_bytes(gso, has_icrc) || gso.packets == 0) return false;
    if (has_icrc && gso.size != 0) return false;
    return gso.packets <= (gso.size == 0 ? 1 : kMaxTsoSegments);
  }
  [[nodiscard]] std::size_t record_size() const { return transport::record_size(bytes); }

  std::size_t bytes;
  bool checksums_valid;
  bool has_icrc;
  std::uint8_t port;
  GsoInfo gso;
};

void write_record(std::uint8_t* to, const OutgoingPacket& packet, std::size_t bytes,
                  std::uint8_t port) {
  const std::array prefix{static_cast<std::uint32_t>(bytes) | (port > 1 ? kSecondPort : 0) |
                              (packet.checksums_valid ? kChecksumsRight : 0) |
                              (packet.has_icrc ? kHasIcrc : 0),
                          packet.gso.size | std::uint32_t{packet.gso.packets} << 16};
  static_assert(sizeof prefix == kPrefixBytes);
  std::memcpy(to, prefix.data(), sizeof prefix);
  write_packet(packet, to + kPrefixBytes);
}

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* timeout) {
  return ::syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

/// Sleeps until the reader changes the futex from 1, or until `deadline`.
void sleep(std::atomic<std::uint32_t>& sleeps, std::chrono::steady_clock::time_point deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  if (left.count() <= 0) return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  const timespec timeout{seconds.count(), std::chrono::nanoseconds(left - seconds).count()};
  (void)futex(sleeps, FUTEX_WAIT, 1, &timeout);
}

}  // namespace

std::uint64_t RingWriter::taken() const {
  const auto taken = header().taken.load(std::memory_order_acquire);
  const bool is_possible = written_ - taken <= kRingBytes && taken % kAlignment == 0;
  // An impossible value counts as a full ring.
  return is_possible ? taken : written_ - kRingBytes;
}

std::size_t RingWriter::put(std::span<const OutgoingPacket* const> packets, std::uint8_t port) {
  before_publishing();
  std::size_t count = 0;
  auto published = written_;
  for (; count < packets.size(); ++count) {
    const auto bytes = packets[count]->size();
    if (bytes > max_bytes(packets[count]->gso, packets[count]->has_icrc)) continue;
    const auto after = written_ + record_size(bytes);
    if (after > room_until_) {
      room_until_ = taken() + kRingBytes;
      if (after > room_until_) break;
    }
    write_record(memory_.at(written_), *packets[count], bytes, port);
    written_ = after;
    // Records are published meanwhile, so that a reader that polls works on them while the next are
    // written.
    if (written_ - published >= kPublishBytes) {
      header().written.store(published = written_, std::memory_order_release);
    }
  }
  // seq_cst orders this before the caller's loads of the WakeupTable and of `reader_state`.
  header().written.store(written_, std::memory_order_seq_cst);
  return count;
}

void RingWriter::wait_for_room(std::uint64_t seen,
                               std::chrono::steady_clock::time_point deadline) const {
  auto& sleeps = header().writer_sleeps;
  sleeps.store(1, std::memory_order_seq_cst);
  if (header().taken.load(std::memory_order_seq_cst) == seen) sleep(sleeps, deadline);
}

void RingWriter::wait_until_closed(std::chrono::steady_clock::time_point deadline) const {
  auto& sleeps = header().writer_sleeps;
  while (std::chrono::steady_clock::now() < deadline) {
    sleeps.store(1, std::memory_order_seq_cst);
    if (reader_state() == ReaderState::closed) return;
    sleep(sleeps, deadline);
  }
}

ReaderState RingWriter::reader_state() const {
  return static_cast<ReaderState>(header().reader_state.load(std::memory_order_seq_cst));
}

RingWriter::Left RingWriter::count_left() const {
  Left left;
  for (auto at = taken(); at < written_;) {
    const Prefix prefix(memory_.at(at));
    if (!prefix.is_possible()) break;
    ++left.entries;
    left.packets += prefix.gso.packets;
    at += prefix.record_size();
  }
  return left;
}

bool RingReader::read(std::vector<ArrivedPacket>& out, std::size_t limit) {
  if (broken_) return true;
  const auto written = published();
  after_reading();
  broken_ = written - read_ > kRingBytes;
  for (std::size_t count = 0; !broken_ && read_ != written && count < limit;) {
    const auto* const record = memory_.at(read_);
    const Prefix prefix(record);
    broken_ = !prefix.is_possible() || prefix.record_size() > written - read_;
    if (broken_) break;
    // The lengths are in the writer's cache, so the guess is that the next records have the same
    // size.
    __builtin_prefetch(record + kPrefetch * prefix.record_size());
    out.emplace_back(ConstBytes(record + kPrefixBytes, prefix.bytes), prefix.checksums_valid,
                     prefix.gso, prefix.has_icrc, prefix.port);
    count += prefix.gso.packets;
    read_ += prefix.record_size();
  }
  return !broken_;
}

void RingReader::release() {
  if (taken_ == read_) return;
  taken_ = read_;
  header().taken.store(taken_, std::memory_order_seq_cst);
  // The writer is woken only when half of the ring is free, so that it does not sleep again at
  // once.
  auto& sleeps = header().writer_sleeps;
  if (sleeps.load(std::memory_order_seq_cst) == 0) return;
  if (header().written.load(std::memory_order_relaxed) - taken_ > kRingBytes / 2) return;
  sleeps.store(0, std::memory_order_seq_cst);
  (void)futex(sleeps, FUTEX_WAKE, INT_MAX, nullptr);
}

void RingReader::set_state(ReaderState state) {
  header().reader_state.store(static_cast<std::uint32_t>(state), std::memory_order_seq_cst);
  auto& sleeps = header().writer_sleeps;
  if (sleeps.exchange(0) != 0) (void)futex(sleeps, FUTEX_WAKE, INT_MAX, nullptr);
}

}  // namespace softib::transport
