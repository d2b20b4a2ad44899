#include "link/icmp_errors.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "link/host_addresses.hpp"
#include "wire/encapsulation.hpp"
#include "wire/icmp_error.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"

namespace ipoib::link {

IcmpErrors::IcmpErrors(const Config& config, const HostAddresses& host, Output& out)
    : host_(host),
      out_(out),
      own_(config.limits.icmp_errors),
      forwarded_(config.limits.icmp_errors) {}

void IcmpErrors::too_big(Frame&& packet, std::uint32_t mtu, Counter why, TimePoint now) {
  out_.counters.add(why);
  std::array<std::uint8_t, wire::kMaxIcmpError> message;
  const auto size = wire::emit_too_big(std::as_const(packet).bytes(), mtu, message);
  send(std::move(packet), ConstBytes(message).first(size), Counter::too_big_answers, now);
}

void IcmpErrors::unreachable(Frame&& frame, Counter why, TimePoint now) {
  out_.counters.add(why);
  const ConstBytes bytes = std::as_const(frame).bytes();
  std::array<std::uint8_t, wire::kMaxIcmpError> message;
  std::size_t size = 0;
  if (wire::parse_encapsulation(bytes) != wire::EtherType::arp) {
    size = wire::emit_unreachable(bytes.subspan(wire::kEncapsulationSize), message);
  }
  send(std::move(frame), ConstBytes(message).first(size), Counter::unreachable_answers, now);
}

void IcmpErrors::no_route(Frame&& packet, TimePoint now) {
  out_.counters.add(Counter::drop_no_route);
  std::array<std::uint8_t, wire::kMaxIcmpError> message;
  const auto size = wire::emit_no_route(std::as_const(packet).bytes(), message);
  send(std::move(packet), ConstBytes(message).first(size), Counter::unreachable_answers, now);
}

/// Sends a message; takes the frame even if there is none.
void IcmpErrors::send(Frame&& frame, ConstBytes message, Counter kind, TimePoint now) {
  Frame taken = std::move(frame);
  if (message.empty() || kHostHeadroom + message.size() > taken.capacity()) return;
  if (!admits(message, now)) return out_.counters.add(Counter::icmp_errors_withheld);
  taken.window(kHostHeadroom, message.size());
  std::ranges::copy(message, taken.bytes().begin());
  out_.counters.add(kind);
  out_.to_host.push_back(std::move(taken));
}

/// Whether the rate limit admits the message, which is for the sender of the packet. With IPv6,
/// only the addresses of the interface are known as those of the host.
bool IcmpErrors::admits(ConstBytes message, TimePoint now) {
  const auto ipv4 = wire::Ipv4Header::parse(message);
  const auto ipv6 = wire::Ipv6Header::parse(message);
  const bool is_own =
      (ipv4 && host_.is_local(ipv4->destination)) || (ipv6 && host_.is_own(ipv6->destination));
  return (is_own ? own_ : forwarded_).take(now);
}

}  // namespace ipoib::link
