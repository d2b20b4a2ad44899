#include "softib/roce/receiver.hpp"

#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "ipoib/bytes.hpp"
#include "softib/roce/socket_address.hpp"

namespace softib::roce {
namespace {

/// The kernel joins datagrams up to this size (UDP_GRO).
constexpr std::size_t kMaxReceive = 65'536;

/// A control message holds an int, or one byte in the case of IP_TOS.
std::uint32_t value_of(const cmsghdr& header) {
  const std::size_t size = header.cmsg_len - CMSG_LEN(0);
  std::uint32_t value = 0;
  std::memcpy(&value, CMSG_DATA(&header), std::min(size, sizeof value));
  return value;
}

void read_options(msghdr& message, Received& to) {
  for (auto* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    const auto is = [&](int level, int type) {
      return header->cmsg_level == level && header->cmsg_type == type;
    };
    const auto value = value_of(*header);
    if (is(SOL_UDP, UDP_GRO)) to.segment = value;
    if (is(IPPROTO_IP, IP_TOS) || is(IPPROTO_IPV6, IPV6_TCLASS)) {
      to.options.traffic_class = static_cast<std::uint8_t>(value);
    }
    if (is(IPPROTO_IP, IP_TTL) || is(IPPROTO_IPV6, IPV6_HOPLIMIT)) {
      to.options.hop_limit = static_cast<std::uint8_t>(value);
    }
  }
}

/// Returns false if nothing is there.
bool receive_into(const AddressSocket& socket, std::span<std::uint8_t> buffer, Received& to) {
  SocketAddress from;
  iovec iov{buffer.data(), buffer.size()};
  alignas(cmsghdr) std::array<char, 256> control;
  msghdr message{};
  message.msg_name = from.get();
  message.msg_namelen = from.size;
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t bytes = 0;
  do {
    bytes = ::recvmsg(socket.fd.get(), &message, MSG_DONTWAIT);
  } while (bytes < 0 && errno == EINTR);
  if (bytes < 0) return false;
  to.bytes = static_cast<std::size_t>(bytes);
  to.flow = {from.gid(), socket.address, from.port()};
  read_options(message, to);
  return true;
}

}  // namespace

Receiver::Receiver() : buffer_(new std::uint8_t[kRouteBytes + kMaxReceive]) {}

std::size_t Receiver::poll(const AddressSocket& socket, Handler& handler) {
  std::size_t packets = 0;
  for (std::size_t i = 0; i < kReceivesPerPoll; ++i) {
    const auto received = receive(socket, handler);
    packets += received;
    if (received <= 1) break;
  }
  return packets;
}

/// Receives once. Returns the number of datagrams, right or wrong.
std::size_t Receiver::receive(const AddressSocket& from, Handler& handler) {
  Received received;
  const std::span<std::uint8_t> buffer(buffer_.get(), kRouteBytes + kMaxReceive);
  if (!receive_into(from, buffer.subspan(kRouteBytes), received)) return 0;
  return deliver(received, buffer.first(kRouteBytes + received.bytes), handler);
}

std::size_t Receiver::deliver(const Received& received, std::span<std::uint8_t> buffer,
                              Handler& handler) {
  const auto datagrams = buffer.subspan(kRouteBytes);
  const auto each = received.segment == 0 ? datagrams.size() : received.segment;
  if (each == 0) {
    handler.malformed();
    return 1;
  }
  const auto datagram = [&](std::size_t index) {
    const auto rest = datagrams.subspan(index * each);
    return rest.first(std::min(each, rest.size()));
  };
  const auto count = (datagrams.size() + each - 1) / each;
  // All are checked before the first is delivered: the route of a packet is written in front of it,
  // over the end of the one before.
  valid_.assign(count, false);
  for (std::size_t i = 0; i < count; ++i) {
    const auto bytes = datagram(i);
    const bool fits =
        bytes.size() >= kLeastPayload && bytes.size() <= kMostPayload && bytes.size() % 4 == 0;
    valid_[i] = fits && is_valid(bytes, received.flow, i);
    if (!fits) {
      handler.malformed();
    } else if (!valid_[i]) {
      handler.icrc_failed();
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!valid_[i]) continue;
    const auto bytes = datagram(i);
    const auto size = bytes.size() - ipoib::wire::kIcrcSize;
    const auto destination = destination_of(bytes);
    const std::span<std::uint8_t> packet(bytes.data() - kRouteBytes, kRouteBytes + size);
    write_route(received.flow, received.options, size, packet.first<kRouteBytes>());
    handler.packet_arrived(packet, destination);
  }
  return count;
}

/// Checks the ICRC of the datagram with this index among those that the kernel has joined. A sender
/// that lets its kernel take them apart counts them in the identification.
bool Receiver::is_valid(ConstBytes datagram, const Flow& flow, std::size_t index) {
  const auto packet = datagram.first(datagram.size() - ipoib::wire::kIcrcSize);
  const auto* const stored = datagram.data() + packet.size();
  const auto sent = std::uint32_t{stored[0]} | std::uint32_t{stored[1]} << 8 |
                    std::uint32_t{stored[2]} << 16 | std::uint32_t{stored[3]} << 24;
  Icrc icrc(flow, datagram.size(), static_cast<std::uint16_t>(index));
  icrc.add_headers(packet);
  const auto difference = icrc.value() ^ sent;
  if (difference == 0) return true;
  return flow.is_ipv4() && identifications_.explains(difference, datagram.size());
}

}  // namespace softib::roce
