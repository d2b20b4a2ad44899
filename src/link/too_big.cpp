#include "link/too_big.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "wire/icmp_error.hpp"

namespace ipoib::link {

void reject_too_big(Frame&& packet, std::uint32_t mtu, Counter why, Output& out) {
  Frame frame = std::move(packet);
  out.counters.add(why);
  std::array<std::uint8_t, wire::kMaxIcmpError> message;
  const std::size_t size = wire::emit_too_big(std::as_const(frame).bytes(), mtu, message);
  if (size == 0 || size > frame.capacity()) return;
  frame.window(0, size);
  std::copy_n(message.begin(), size, frame.bytes().begin());
  out.counters.add(Counter::too_big_answers);
  out.to_host.push_back(std::move(frame));
}

}  // namespace ipoib::link
