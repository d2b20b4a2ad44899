// Packets of the fabric: each header, complete packets of datagrams and of connections, runs of the
// latter, management packets, and the CRCs of arbitrary bytes.
#include <algorithm>

#include "cost.hpp"
#include "require.hpp"
#include "softib/core/large_packet.hpp"
#include "softib/core/mad_packet.hpp"
#include "softib/core/packet_run.hpp"
#include "wire/congestion_notification.hpp"
#include "wire/connected_packet.hpp"
#include "wire/packet.hpp"

using namespace ipoib;
using softib::MadPacket;
using softib::PacketRun;
using wire::CongestionNotification;
using wire::ConnectedPacket;
using wire::UdPacket;

namespace {

constexpr std::uint64_t kMaxCost = 20'000;
constexpr std::size_t kMaxSize = 1024;

void fuzz_packet(ConstBytes bytes) {
  const auto packet = UdPacket::parse(bytes);
  if (!packet) return;
  UdPacket copy = *packet;
  std::array<std::uint8_t, UdPacket::kMaxHeaderSize> headers;
  const std::size_t header_size = copy.emit_headers(copy.payload.size(), headers);
  const MutableBytes emitted = scratch(header_size + copy.payload.size() + copy.bth.pad);
  std::copy_n(headers.begin(), header_size, emitted.begin());
  std::ranges::copy(copy.payload, emitted.begin() + static_cast<std::ptrdiff_t>(header_size));

  const auto again = UdPacket::parse(emitted);
  require(again.has_value());
  require(again->grh == copy.grh && again->deth == copy.deth);
  require(again->lrh == copy.lrh && again->bth == copy.bth && again->immediate == copy.immediate);
  require(std::ranges::equal(again->payload, packet->payload));
  require(emitted.size() == bytes.size());
}

void fuzz_notification(ConstBytes bytes) {
  auto packet = CongestionNotification::parse(bytes);
  if (!packet) return;
  const MutableBytes emitted = scratch(CongestionNotification::kSize);
  const auto again = CongestionNotification::parse(emitted.first(packet->emit(emitted)));
  require(again.has_value() && again->bth == packet->bth && again->grh == packet->grh);
}

void fuzz_connected_packet(ConstBytes bytes) {
  const auto packet = ConnectedPacket::parse(bytes);
  if (!packet) return;
  ConnectedPacket copy = *packet;
  std::array<std::uint8_t, ConnectedPacket::kMaxHeaderSize> headers;
  const std::size_t header_size = copy.emit_headers(copy.payload.size(), headers);
  const MutableBytes emitted = scratch(header_size + copy.payload.size() + copy.bth.pad);
  std::copy_n(headers.begin(), header_size, emitted.begin());
  std::ranges::copy(copy.payload, emitted.begin() + static_cast<std::ptrdiff_t>(header_size));

  const auto again = ConnectedPacket::parse(emitted);
  require(again.has_value() && again->service == copy.service && again->opcode == copy.opcode);
  require(again->lrh == copy.lrh && again->grh == copy.grh && again->bth == copy.bth);
  require(again->reth == copy.reth && again->aeth == copy.aeth);
  require(again->atomic == copy.atomic && again->original == copy.original);
  require(again->immediate == copy.immediate && again->shared_queue == copy.shared_queue);
  require(again->invalidated_key == copy.invalidated_key);
  require(std::ranges::equal(again->payload, packet->payload));
  require(emitted.size() == bytes.size());
}

/// The same bytes as a run of packets: of its payload, nothing is lost or repeated.
void fuzz_run(ConstBytes bytes) {
  constexpr std::uint16_t kMtu = 64;
  const auto packet = ConnectedPacket::parse_headers(bytes);
  if (!packet) return;
  const auto packets = static_cast<std::uint16_t>((packet->payload.size() + kMtu - 1) / kMtu);
  const softib::ArrivedPacket arrived{bytes, false, {kMtu, packets}};
  if (!PacketRun::parse(bytes, arrived.gso)) return;
  auto left = packet->payload;
  std::size_t size = 0;
  softib::for_each_packet(arrived, [&](ConstBytes one) {
    const auto parsed = ConnectedPacket::parse(one);
    require(parsed && parsed->payload.size() <= kMtu);
    require(std::ranges::equal(parsed->payload, left.first(parsed->payload.size())));
    left = left.subspan(parsed->payload.size());
    size += one.size();
  });
  require(left.empty() && size == softib::segmented_size(arrived));
}

/// An opcode of a connection service; a few of these are reserved.
std::uint8_t connected_opcode(std::uint8_t random) {
  using enum wire::ConnectedService;
  constexpr std::array kServices{reliable, unreliable, extended};
  constexpr unsigned kOperations = static_cast<unsigned>(wire::ConnectedOpcode::atomic_write) + 1;
  const auto service = static_cast<unsigned>(kServices[(random >> 5) % kServices.size()]);
  return static_cast<std::uint8_t>(service << 5 | (random & 0x1fU) % kOperations);
}

void fuzz_mad(ConstBytes bytes) {
  const auto packet = MadPacket::parse(bytes);
  if (!packet) return;
  require(packet->destination.value() <= 1);
  std::array<std::uint8_t, MadPacket::kMaxPacketSize> room;
  const auto again = MadPacket::parse(packet->emit(room));
  require(again && again->slid == packet->slid && again->dlid == packet->dlid);
  require(again->source == packet->source && again->destination == packet->destination);
  require(again->qkey == packet->qkey && again->pkey == packet->pkey);
  require(again->grh == packet->grh && again->mad == packet->mad);
}

/// The same bytes with consistent lengths, versions and an opcode of the service, which random
/// bytes rarely have.
ConstBytes with_valid_headers(ConstBytes bytes, bool is_connected) {
  static std::array<std::uint8_t, kMaxSize> room;
  const std::size_t size =
      std::clamp<std::size_t>(bytes.size() / 4 * 4, UdPacket::kMaxHeaderSize, room.size());
  const MutableBytes out = MutableBytes(room).last(size);
  std::ranges::fill(out, std::uint8_t{0});
  std::copy_n(bytes.begin(), std::min(bytes.size(), size), out.begin());
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
  out[bth] = is_connected ? connected_opcode(out[bth])
                          : static_cast<std::uint8_t>(wire::Bth::kUdSendOnly | (out[bth] & 1));
  out[bth + 1] &= 0xf0;
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConstBytes bytes(data, std::min(size, kMaxSize));
  const CostLimit limit(kMaxCost);
  require_stable<wire::Lrh>(bytes);
  require_stable<wire::Grh>(bytes);
  require_stable<wire::Bth>(bytes);
  require_stable<wire::Deth>(bytes);
  fuzz_packet(bytes);
  fuzz_notification(bytes);
  fuzz_connected_packet(bytes);
  fuzz_connected_packet(with_valid_headers(bytes, true));
  fuzz_run(with_valid_headers(bytes, true));
  const ConstBytes valid = with_valid_headers(bytes, false);
  fuzz_packet(valid);
  fuzz_mad(bytes);
  fuzz_mad(valid);
  (void)wire::invariant_crc(bytes);
  (void)wire::variant_crc(bytes);
  return 0;
}
