// Packets of the fabric: each header, complete UD packets, and the CRCs of arbitrary bytes.
#include "require.hpp"
#include "wire/packet.hpp"

using namespace ipoib;
using wire::UdPacket;

namespace {

void fuzz_packet(ConstBytes bytes) {
  const auto packet = UdPacket::parse(bytes);
  if (!packet) return;
  UdPacket copy = *packet;
  std::vector<std::uint8_t> emitted(UdPacket::kMaxHeaderSize);
  emitted.resize(copy.emit_headers(copy.payload.size(), emitted));
  emitted.insert(emitted.end(), copy.payload.begin(), copy.payload.end());
  emitted.resize(emitted.size() + copy.bth.pad);

  const auto again = UdPacket::parse(emitted);
  require(again.has_value());
  require(again->grh == copy.grh && again->deth == copy.deth);
  require(again->lrh == copy.lrh && again->bth == copy.bth && again->immediate == copy.immediate);
  require(std::ranges::equal(again->payload, packet->payload));
  require(emitted.size() == bytes.size());
}

/// The same bytes with consistent lengths, versions and opcode, which random bytes rarely have.
std::vector<std::uint8_t> with_valid_headers(ConstBytes bytes) {
  std::vector<std::uint8_t> out(bytes.begin(), bytes.end());
  out.resize(std::clamp<std::size_t>(out.size() / 4 * 4, UdPacket::kMaxHeaderSize, 8000));
  const bool is_global = (out[1] & 1) != 0;
  const std::size_t bth = wire::Lrh::kSize + (is_global ? wire::Grh::kSize : 0);
  out[0] &= 0xf0;
  out[1] |= wire::Lrh::kLnhLocal;
  store_be(&out[4], static_cast<std::uint16_t>(out.size() / 4 + 1));
  if (is_global) {
    const std::size_t payload = out.size() - bth + 4;
    out[8] = static_cast<std::uint8_t>(0x60 | (out[8] & 0x0f));
    store_be(&out[12], static_cast<std::uint16_t>(payload));
    out[14] = wire::Grh::kNextHeaderIba;
  }
  out[bth] = static_cast<std::uint8_t>(wire::Bth::kUdSendOnly | (out[bth] & 1));
  out[bth + 1] &= 0xf0;
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConstBytes bytes(data, size);
  require_stable<wire::Lrh>(bytes);
  require_stable<wire::Grh>(bytes);
  require_stable<wire::Bth>(bytes);
  require_stable<wire::Deth>(bytes);
  fuzz_packet(bytes);
  fuzz_packet(with_valid_headers(bytes));
  (void)wire::invariant_crc(bytes);
  (void)wire::variant_crc(bytes);
  return 0;
}
