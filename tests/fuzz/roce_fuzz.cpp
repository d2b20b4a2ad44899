// Arbitrary datagrams at a RoCE port: of what is delivered, each is a whole packet with a GRH whose
// ICRC was right, and the parsers of packets and MADs take it.
#include <algorithm>
#include <vector>

#include "cost.hpp"
#include "ipoib/bytes.hpp"
#include "softib/core/mad_packet.hpp"
#include "softib/roce/receiver.hpp"
#include "wire/connected_packet.hpp"

namespace {

using namespace softib;
using ipoib::require;

constexpr std::uint64_t kMaxCost = 5'000'000;

struct Handler final : roce::Receiver::Handler {
  void packets_arrived(std::span<const ArrivedPacket> arrived, Qpn destination) override {
    for (const auto& each : arrived) packet_arrived(each.bytes, destination);
  }
  void packet_arrived(ConstBytes packet, Qpn destination) {
    ++packets;
    const auto lrh = ipoib::wire::Lrh::parse(packet);
    require(lrh && lrh->next_header == ipoib::wire::Lrh::kLnhGlobal);
    require(ipoib::wire::Grh::parse(packet.subspan(ipoib::wire::Lrh::kSize)).has_value());
    require(roce::route_of(packet).has_value());
    const auto datagram = ipoib::wire::UdPacket::parse(packet);
    const auto connected = ipoib::wire::ConnectedPacket::parse(packet);
    require(!datagram || !connected);
    if (datagram) require(datagram->bth.destination == destination);
    if (connected) require(connected->bth.destination == destination);
    (void)MadPacket::parse(packet);
  }
  void icrc_failed() override { ++wrong; }
  void malformed() override { ++bad; }

  std::size_t packets = 0;
  std::size_t wrong = 0;
  std::size_t bad = 0;
};

/// Writes right ICRCs into datagrams, or else hardly any would be delivered.
void repair(std::span<std::uint8_t> datagrams, std::size_t each, const roce::Flow& flow) {
  std::uint16_t index = 0;
  for (std::size_t at = 0; at < datagrams.size(); at += each, ++index) {
    const auto one = datagrams.subspan(at, std::min(each, datagrams.size() - at));
    if (one.size() < roce::kLeastPayload) continue;
    const roce::Icrc icrc(flow, one.size(), index, one.first(one.size() - 4));
    for (unsigned i = 0; i < 4; ++i) {
      one[one.size() - 4 + i] = static_cast<std::uint8_t>(icrc.value() >> (8 * i));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ipoib::CostLimit limit(kMaxCost);
  ipoib::ByteReader in(ipoib::ConstBytes(data, size));
  const bool is_v4 = (in.u8() & 1) != 0;
  const bool has_right_icrcs = (in.u8() & 3) != 0;
  const std::size_t segment = in.u8() * 4U;
  const auto rest = in.rest();
  if (!in.ok()) return 0;
  const Gid ours = is_v4 ? gid_of_ipv4(0x0a000001) : Gid(0xfd00'0000'0000'0000, Guid(1));
  const Gid theirs = is_v4 ? gid_of_ipv4(0x0a000002) : Gid(0xfd00'0000'0000'0000, Guid(2));
  const roce::Received received{rest.size(), segment, {theirs, ours, 0xc000}, {1, 2}};
  std::vector<std::uint8_t> datagrams(rest.begin(), rest.end());
  const auto each = segment == 0 ? rest.size() : segment;
  if (has_right_icrcs && each != 0) repair(datagrams, each, received.flow);
  Handler handler;
  roce::Receiver receiver;
  const auto count = receiver.deliver(received, datagrams, handler);
  require(count == handler.packets + handler.wrong + handler.bad);
  return 0;
}
