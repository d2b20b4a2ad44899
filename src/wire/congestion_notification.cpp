#include "wire/congestion_notification.hpp"

#include "ipoib/bytes.hpp"

namespace ipoib::wire {

std::optional<CongestionNotification> CongestionNotification::parse(ConstBytes packet) {
  if (opcode_of(packet) != kOpcode) return std::nullopt;
  CongestionNotification parsed;
  ByteReader reader(packet);
  if (!parsed.read_route(reader) || !parsed.bth.becn) return {};
  if (!parsed.read_payload(packet, reader.rest())) return {};
  return parsed.payload.size() == kReserved ? std::optional(parsed) : std::nullopt;
}

std::size_t CongestionNotification::emit(MutableBytes to) {
  bth.opcode = kOpcode;
  bth.becn = true;
  set_lengths(0, kReserved);
  const auto headers = emit_route(to);
  ByteWriter(to.subspan(headers)).zeros(kReserved);
  return headers + kReserved;
}

}  // namespace ipoib::wire
