#include "echo.hpp"

#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "command.hpp"
#include "route_findings.hpp"

namespace ipoib::ibarp {

namespace {

using Clock = std::chrono::steady_clock;

//  0                   1                   2                   3
//  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
// |     Type      |     Code      |          Checksum             |
// |           Identifier          |        Sequence Number        |
// |     Data ...
constexpr std::size_t kHeader = 8;
constexpr std::size_t kPayload = 56;  ///< bytes, as of ping(8)
constexpr std::uint8_t kRequest4 = 8;
constexpr std::uint8_t kReply4 = 0;
constexpr std::uint8_t kRequest6 = 128;
constexpr std::uint8_t kReply6 = 129;

using Request = std::array<std::uint8_t, kHeader + kPayload>;

void put16(Request& to, std::size_t at, unsigned value) {
  to.at(at) = static_cast<std::uint8_t>(value >> 8U);
  to.at(at + 1) = static_cast<std::uint8_t>(value & 0xffU);
}

/// The checksum of RFC 1071.
std::uint16_t internet_checksum(const Request& packet) {
  unsigned sum = 0;
  for (std::size_t i = 0; i < packet.size(); i += 2) sum += packet[i] * 256U + packet[i + 1];
  while (sum > 0xffffU) sum = (sum & 0xffffU) + (sum >> 16U);
  return static_cast<std::uint16_t>(~sum);
}

/// The kernel computes the checksum of ICMPv6.
Request request_of(bool is_ipv4, std::uint16_t id, std::uint16_t sequence) {
  Request out{};
  out[0] = is_ipv4 ? kRequest4 : kRequest6;
  put16(out, 4, id);
  put16(out, 6, sequence);
  if (is_ipv4) put16(out, 2, internet_checksum(out));
  return out;
}

constexpr std::size_t kAddressAt4 = offsetof(sockaddr_in, sin_addr);
constexpr std::size_t kAddressAt6 = offsetof(sockaddr_in6, sin6_addr);

sockaddr_storage socket_address(const ibarp_address& of, const std::string& device) {
  sockaddr_storage out{};
  out.ss_family = static_cast<sa_family_t>(of.family);
  auto* const bytes = reinterpret_cast<std::uint8_t*>(&out);
  if (of.family == AF_INET) {
    std::memcpy(bytes + kAddressAt4, of.bytes, sizeof(in_addr));
    return out;
  }
  std::memcpy(bytes + kAddressAt6, of.bytes, sizeof(in6_addr));
  if (is_of_one_link(of)) {
    reinterpret_cast<sockaddr_in6*>(bytes)->sin6_scope_id = ::if_nametoindex(device.c_str());
  }
  return out;
}

}  // namespace

Echo::Echo(const ibarp_address& to, const HostRoute& route)
    : is_ipv4_(to.family == AF_INET),
      is_group_(route.type == "broadcast" || is_multicast(to)),
      own_(route.source),
      to_(socket_address(to, route.device)),
      id_(static_cast<std::uint16_t>(::getpid())) {
  const int protocol = is_ipv4_ ? static_cast<int>(IPPROTO_ICMP) : static_cast<int>(IPPROTO_ICMPV6);
  socket_ = ::socket(to.family, SOCK_DGRAM | SOCK_CLOEXEC, protocol);
  if (socket_ < 0) {
    socket_ = ::socket(to.family, SOCK_RAW | SOCK_CLOEXEC, protocol);
    is_raw_ = true;
  }
  if (socket_ < 0) {
    throw Failure(
        kFailed,
        std::string("an echo request needs root, or a group of net.ipv4.ping_group_range: ") +
            std::strerror(errno));
  }
}

Echo::~Echo() { ::close(socket_); }

/// A socket that is connected to a group would get no reply, since none is from its address.
bool Echo::send(std::span<const std::uint8_t> request) const {
  const int on = 1;
  const auto* const to = reinterpret_cast<const sockaddr*>(&to_);
  const bool is_ready = is_group_
                            ? ::setsockopt(socket_, SOL_SOCKET, SO_BROADCAST, &on, sizeof on) == 0
                            : ::connect(socket_, to, sizeof to_) == 0;
  return is_ready && ::sendto(socket_, request.data(), request.size(), 0, to, sizeof to_) >= 0;
}

std::optional<std::chrono::nanoseconds> Echo::exchange(std::uint16_t sequence,
                                                       std::chrono::milliseconds patience) const {
  const Request request = request_of(is_ipv4_, id_, sequence);
  const auto sent = Clock::now();
  if (!send(request)) {
    throw Failure(kFailed, std::string("an echo request cannot be sent: ") + std::strerror(errno));
  }
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(sent + patience - Clock::now());
    pollfd polled{socket_, POLLIN, 0};
    const auto wait = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
    if (::poll(&polled, 1, wait) <= 0) return std::nullopt;
    std::array<std::uint8_t, 2048> packet{};
    sockaddr_storage source{};
    socklen_t source_size = sizeof source;
    const auto size = ::recvfrom(socket_, packet.data(), packet.size(), 0,
                                 reinterpret_cast<sockaddr*>(&source), &source_size);
    const auto received = Clock::now();
    // An error of the socket is that of an ICMP message, such as "host unreachable".
    if (size < 0) return std::nullopt;
    if (is_group_ && is_own(source)) continue;
    if (is_reply({packet.data(), static_cast<std::size_t>(size)}, sequence)) return received - sent;
  }
}

bool Echo::is_own(const sockaddr_storage& source) const {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&source);
  return own_ && std::memcmp(bytes + (is_ipv4_ ? kAddressAt4 : kAddressAt6), own_->bytes,
                             is_ipv4_ ? sizeof(in_addr) : sizeof(in6_addr)) == 0;
}

/// A raw socket of IPv4 passes on the IP header, and the replies to other programs.
bool Echo::is_reply(std::span<const std::uint8_t> packet, std::uint16_t sequence) const {
  if (is_raw_ && is_ipv4_) {
    if (packet.empty()) return false;
    packet = packet.subspan(std::min<std::size_t>(std::size_t{packet[0]} % 16 * 4, packet.size()));
  }
  if (packet.size() < kHeader || packet[0] != (is_ipv4_ ? kReply4 : kReply6)) return false;
  const auto number_at = [&](std::size_t at) { return packet[at] * 256U + packet[at + 1]; };
  return (!is_raw_ || number_at(4) == id_) && number_at(6) == sequence;
}

}  // namespace ipoib::ibarp
