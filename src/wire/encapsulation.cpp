#include "wire/encapsulation.hpp"

namespace ipoib::wire {

std::optional<EtherType> parse_encapsulation(ConstBytes frame) {
  if (frame.size() < kEncapsulationSize) return std::nullopt;
  const auto type = static_cast<EtherType>(load_be<std::uint16_t>(frame.data()));
  switch (type) {
    case EtherType::ipv4:
    case EtherType::arp:
    case EtherType::rarp:
    case EtherType::ipv6:
      return type;
  }
  return std::nullopt;
}

void emit_encapsulation(EtherType type, std::uint8_t* to) {
  store_be(to, static_cast<std::uint16_t>(type));
  store_be(to + 2, std::uint16_t{0});
}

}  // namespace ipoib::wire
