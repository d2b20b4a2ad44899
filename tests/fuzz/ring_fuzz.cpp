// Rings written by another process, and response lines of a subnet process.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "require.hpp"
#include "softib/flat_json.hpp"
#include "softib/ring.hpp"

using namespace ipoib;

namespace {

/// The memory of the writer.
struct Memory {
  FileDescriptor fd = softib::make_ring_memory().value();
  std::uint8_t* octets = static_cast<std::uint8_t*>(
      ::mmap(nullptr, 4096 + softib::kRingOctets, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
};

/// The first 8 bytes are the claimed write position; the others are the begin and the end of the
/// ring.
void read_ring(ConstBytes data) {
  static const Memory memory;
  std::uint64_t written = 0;
  if (data.size() < sizeof written) return;
  std::memcpy(&written, data.data(), sizeof written);
  data = data.subspan(sizeof written).first(std::min(data.size() - 8, softib::kRingOctets / 2));
  softib::RingReader reader(softib::RingMemory::map(memory.fd.get()).value());
  auto& header = *reinterpret_cast<softib::RingHeader*>(memory.octets);
  header.written = written;
  header.taken = 0;
  if (!data.empty()) {
    std::memcpy(memory.octets + 4096, data.data(), data.size());
    std::memcpy(memory.octets + 4096 + softib::kRingOctets - data.size(), data.data(), data.size());
  }
  std::vector<softib::ArrivedPacket> packets;
  bool whole = true;
  std::uint64_t octets = 0;
  while (whole && !reader.is_empty()) {
    packets.clear();
    whole = reader.read(packets, 64);
    for (const auto& packet : packets) {
      require(packet.octets.size() <= softib::kMaxLargeOctets);
      std::size_t made = 0;
      std::size_t sizes = 0;
      softib::for_each_packet(packet, [&](ConstBytes one) { ++made, sizes += one.size(); });
      const bool is_whole = packet.gso.size == 0 || softib::LargePacket(packet);
      require(made == (is_whole ? packet.gso.packets : 1));
      require(!is_whole || sizes == softib::octets_of(packet));
      for (const auto octet : packet.octets) octets += octet;  // all of it is readable
    }
    reader.release();
  }
  require(header.taken <= softib::kRingOctets && octets != 1ULL << 63);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  read_ring({data, size});
  const softib::FlatJson answer({reinterpret_cast<const char*>(data), size});
  for (const char* key : {"ok", "node", "error", ""}) {
    (void)answer.string(key);
    (void)answer.integer(key);
    (void)answer.boolean(key);
  }
  return 0;
}
