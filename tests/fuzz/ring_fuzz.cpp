// Reads rings that another process has written.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "require.hpp"
#include "softib/core/packet_run.hpp"
#include "softib/transport/ring.hpp"

using namespace ipoib;

namespace {

/// A writer's mapping of a ring.
struct Memory {
  FileDescriptor fd = softib::transport::make_ring_memory().value();
  std::uint8_t* bytes =
      static_cast<std::uint8_t*>(::mmap(nullptr, 4096 + softib::transport::kRingBytes,
                                        PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
};

/// The first 8 bytes are `written`; the others are copied to the beginning and the end of the ring.
void read_ring(ConstBytes data) {
  static const Memory memory;
  std::uint64_t written = 0;
  if (data.size() < sizeof written) return;
  std::memcpy(&written, data.data(), sizeof written);
  data = data.subspan(sizeof written)
             .first(std::min(data.size() - 8, softib::transport::kRingBytes / 2));
  softib::transport::RingReader reader(softib::transport::RingMemory::map(memory.fd.get()).value());
  auto& header = *reinterpret_cast<softib::transport::RingHeader*>(memory.bytes);
  header.written = written;
  header.taken = 0;
  if (!data.empty()) {
    std::memcpy(memory.bytes + 4096, data.data(), data.size());
    std::memcpy(memory.bytes + 4096 + softib::transport::kRingBytes - data.size(), data.data(),
                data.size());
  }
  std::vector<softib::ArrivedPacket> packets;
  bool valid = true;
  std::uint64_t bytes = 0;
  while (valid && reader.taken() != reader.published()) {
    packets.clear();
    valid = reader.read(packets, 64);
    for (const auto& packet : packets) {
      require(packet.bytes.size() <= softib::kMaxLargePacketBytes);
      std::size_t made = 0;
      std::size_t sizes = 0;
      softib::for_each_packet(packet, [&](ConstBytes one) { ++made, sizes += one.size(); });
      const bool is_whole = packet.gso.size == 0 || softib::LargePacket(packet) ||
                            softib::PacketRun::parse(packet.bytes, packet.gso);
      require(made == (is_whole ? packet.gso.packets : 1));
      require(!is_whole || sizes == softib::segmented_size(packet));
      for (const auto byte : packet.bytes) bytes += byte;  // all of it can be read
    }
    reader.release();
  }
  require(header.taken <= softib::transport::kRingBytes && bytes != 1ULL << 63);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  read_ring({data, size});
  return 0;
}
