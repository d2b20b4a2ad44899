#include "echo.hpp"

#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "command.hpp"

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

int connect_to(int socket, const ibarp_address& to, const std::string& device) {
  if (to.family == AF_INET) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    std::memcpy(&address.sin_addr, to.bytes, sizeof(address.sin_addr));
    return ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  }
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  std::memcpy(&address.sin6_addr, to.bytes, sizeof(address.sin6_addr));
  if (IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr)) {
    address.sin6_scope_id = ::if_nametoindex(device.c_str());
  }
  return ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

}  // namespace

Echo::Echo(const ibarp_address& to, const std::string& device)
    : is_ipv4_(to.family == AF_INET), id_(static_cast<std::uint16_t>(::getpid())) {
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
  if (connect_to(socket_, to, device) == 0) return;
  const int error = errno;
  ::close(socket_);
  throw Failure(kFailed, std::string("an echo request cannot be sent: ") + std::strerror(error));
}

Echo::~Echo() { ::close(socket_); }

std::optional<std::chrono::nanoseconds> Echo::exchange(std::uint16_t sequence,
                                                       std::chrono::milliseconds patience) const {
  const Request request = request_of(is_ipv4_, id_, sequence);
  const auto sent = Clock::now();
  if (::send(socket_, request.data(), request.size(), 0) < 0) {
    throw Failure(kFailed, std::string("an echo request cannot be sent: ") + std::strerror(errno));
  }
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(sent + patience - Clock::now());
    pollfd polled{socket_, POLLIN, 0};
    const auto wait = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
    if (::poll(&polled, 1, wait) <= 0) return std::nullopt;
    std::array<std::uint8_t, 2048> packet{};
    const auto size = ::recv(socket_, packet.data(), packet.size(), 0);
    const auto received = Clock::now();
    // An error of the socket is that of an ICMP message, such as "host unreachable".
    if (size < 0) return std::nullopt;
    if (is_reply({packet.data(), static_cast<std::size_t>(size)}, sequence)) return received - sent;
  }
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
