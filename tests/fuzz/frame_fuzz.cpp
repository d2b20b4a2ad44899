// Frames of a link: encapsulation, and the ARP or IPv4 packet inside.
#include "require.hpp"
#include "wire/arp.hpp"
#include "wire/encapsulation.hpp"
#include "wire/ipv4.hpp"

using namespace ipoib;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConstBytes frame(data, size);
  const auto type = wire::parse_encapsulation(frame);
  if (!type) return 0;
  std::array<std::uint8_t, wire::kEncapsulationSize> header;
  wire::emit_encapsulation(*type, header.data());
  require(wire::parse_encapsulation(header) == type);

  const ConstBytes packet = frame.subspan(wire::kEncapsulationSize);
  require_stable<wire::Arp>(packet);
  if (const auto ip = wire::Ipv4Header::parse(packet)) {
    require(wire::ip_version(packet) == 4);
    require(ip->header_size >= wire::Ipv4Header::kMinimumSize);
    require(ip->header_size <= ip->total_length && ip->total_length <= packet.size());
  }
  (void)wire::internet_checksum(packet);
  return 0;
}
