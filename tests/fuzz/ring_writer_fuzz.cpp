// The writer of a ring whose reader writes anything to it, and a reader of it while a hostile
// writer changes the ring under its hands.
#include <atomic>
#include <cstring>
#include <thread>

#include "hostile_peer.hpp"

using namespace softib::fuzz;
using namespace softib::transport;

namespace {

/// Copies one of two contents into a ring, alternately and without end.
class Changer {
 public:
  explicit Changer(HostileMemory& ring) : ring_(ring), thread_([this] { run(); }) {}
  Changer(const Changer&) = delete;
  Changer& operator=(const Changer&) = delete;
  ~Changer() {
    stopping_ = true;
    thread_.join();
  }

  /// Sets the two contents of the first records; waits until both have been there.
  void set(ConstBytes one, ConstBytes other) {
    const std::uint64_t before = changes_;
    is_set_ = false;
    while (is_busy_) std::this_thread::yield();
    std::copy(one.begin(), one.end(), one_.begin());
    std::copy(other.begin(), other.end(), other_.begin());
    size_ = std::min({one.size(), other.size(), one_.size()});
    is_set_ = true;
    while (changes_ == before) std::this_thread::yield();
  }

 private:
  void run() {
    while (!stopping_) {
      is_busy_ = true;
      if (is_set_) {
        std::memcpy(ring_.data() + 4096, one_.data(), size_);
        std::memcpy(ring_.data() + 4096, other_.data(), size_);
        ++changes_;
      }
      is_busy_ = false;
      if (!is_set_) std::this_thread::yield();
    }
  }
  HostileMemory& ring_;
  std::array<std::uint8_t, 2048> one_{};
  std::array<std::uint8_t, 2048> other_{};
  std::size_t size_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> is_set_ = false;
  std::atomic<bool> is_busy_ = false;
  std::atomic<std::uint64_t> changes_ = 0;
  std::thread thread_;
};

void write_ring(ByteReader in) {
  static HostileMemory memory(kRingMemory);
  static const std::array<std::uint8_t, 65536> payload{};
  auto& header = *reinterpret_cast<RingHeader*>(memory.data());
  header.taken = 0;
  header.writer_sleeps = 0;
  RingWriter writer(RingMemory::map(memory.descriptor.get()).value());
  std::uint64_t written = 0;
  while (in.left() > 0) {
    softib::OutgoingPacket packet;
    switch (in.u8() % 4) {
      case 0:
      case 1: {
        packet.header_size = 28;
        const std::size_t size = in.u16();
        packet.add(ConstBytes(payload).first(size));
        if (size > 4096) packet.gso = {4000, 17};
        const softib::OutgoingPacket* const alone = &packet;
        const auto fitted = writer.put({&alone, 1});
        require(fitted <= 1);
        // Only complete records are published, as many as there are, and no more than fit.
        const std::uint64_t grown = header.written - written;
        require(grown == 0 ? true : fitted == 1 && grown % 64 == 0);
        require(grown <= (size + 28 + 8 + 63) / 64 * 64);
        written = header.written;
        break;
      }
      case 2:
        header.taken = in.u8() % 2 == 0 ? written - in.u24() : in.u64();
        header.reader_state = in.u8();
        break;
      case 3:
        memory.write(4096 + in.u24() % kRingBytes,
                     in.take(std::min<std::size_t>(in.u8(), in.left())));
        break;
    }
    const auto left = writer.count_left();
    require(left.entries <= kRingBytes / 64);  // the cost
    require(written - writer.taken() <= kRingBytes && writer.taken() % 64 == 0);
    require(writer.is_empty() == (writer.taken() == written));
    writer.wait_for_room(writer.seen_taken(), {});
    writer.wait_until_closed({});
  }
}

/// Whatever the reader has checked may be different when it is used.
void read_changing_ring(ConstBytes data) {
  static HostileMemory memory(kRingMemory);
  static Changer changer(memory);
  changer.set(data.first(data.size() / 2), data.subspan(data.size() / 2));
  auto& header = *reinterpret_cast<RingHeader*>(memory.data());
  header.written = data.size() / 2 / 64 * 64;
  header.taken = 0;
  RingReader reader(RingMemory::map(memory.descriptor.get()).value());
  std::vector<softib::ArrivedPacket> packets;
  std::size_t turns = 0;
  std::uint64_t sum = 0;
  for (bool valid = true; valid && reader.taken() != reader.published(); ++turns) {
    packets.clear();
    valid = reader.read(packets, 4);
    for (const auto& packet : packets) {
      require(packet.bytes.size() <= softib::kMaxLargePacketBytes);
      std::size_t segments = 0;
      softib::for_each_packet(packet, [&](ConstBytes one) {
        ++segments;
        for (const auto byte : one) sum += byte;
      });
      require(segments <= softib::kMaxTsoSegments);
    }
    reader.release();
    require(turns <= data.size() / 64 + 1);  // the cost: each turn takes a record or is the last
  }
  require(sum != 1ULL << 63);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  if (data[0] % 2 == 0) {
    write_ring(ByteReader({data + 1, size - 1}));
  } else if (size <= 4096) {
    read_changing_ring({data + 1, size - 1});
  }
  return 0;
}
