#include "softib/roce/receiver.hpp"

#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "ipoib/bytes.hpp"
#include "softib/roce/socket_address.hpp"

namespace softib::roce {
namespace {

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
bool receive_into(const AddressSocket& socket, std::span<iovec> places, Received& to) {
  SocketAddress from;
  alignas(cmsghdr) std::array<char, 256> control;
  msghdr message{};
  message.msg_name = from.get();
  message.msg_namelen = from.size;
  message.msg_iov = places.data();
  message.msg_iovlen = places.size();
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

std::size_t Receiver::poll(const AddressSocket& socket, Handler& handler) {
  std::size_t bytes = 0;
  bool may_have_more = true;
  for (std::size_t i = 0; i < kReceivesPerPoll && may_have_more; ++i) {
    Received received;
    auto& buffer = buffers_[i % kReceivesAtOnce];
    may_have_more = receive_into(socket, buffer.places(), received);
    if (may_have_more) {
      (void)check(received, buffer, handler);
      bytes += received.bytes;
      may_have_more = received.bytes >= kLeastOfStream || received.segment != 0;
    }
    if (!may_have_more || (i + 1) % kReceivesAtOnce == 0) deliver_checked(handler);
  }
  return bytes;
}

std::size_t Receiver::deliver(const Received& received, ConstBytes datagrams, Handler& handler) {
  assert(datagrams.size() == received.bytes && received.bytes <= ReceiveBuffer::kMaxReceive);
  auto& buffer = buffers_.front();
  for (const auto& place : buffer.places()) {
    const auto part = datagrams.first(std::min(place.iov_len, datagrams.size()));
    std::ranges::copy(part, static_cast<std::uint8_t*>(place.iov_base));
    datagrams = datagrams.subspan(part.size());
  }
  const auto count = check(received, buffer, handler);
  deliver_checked(handler);
  return count;
}

/// Checks the datagrams in a buffer. Returns their number, right or wrong.
std::size_t Receiver::check(const Received& received, ReceiveBuffer& buffer, Handler& handler) {
  if (received.bytes == 0) {
    handler.malformed();
    return 1;
  }
  const auto each = received.segment == 0 ? received.bytes : received.segment;
  if (each < kLeastPayload) {
    const auto count = (received.bytes + each - 1) / each;
    for (std::size_t i = 0; i < count; ++i) handler.malformed();
    return count;
  }
  buffer.arrange(received.bytes, each);
  for (std::size_t i = 0; i < buffer.count(); ++i) {
    const auto datagram = buffer.datagram(i);
    if (datagram.size() < kLeastPayload || datagram.size() > kMostPayload ||
        datagram.size() % 4 != 0) {
      handler.malformed();
    } else if (!is_valid(datagram, received.flow, i)) {
      handler.icrc_failed();
    } else {
      const auto size = datagram.size() - ipoib::wire::kIcrcSize;
      const std::span<std::uint8_t> packet(datagram.data() - kRouteBytes, kRouteBytes + size);
      write_route(received.flow, received.options, size, packet.first<kRouteBytes>());
      packets_.push_back({packet});
    }
  }
  return buffer.count();
}

/// Delivers what has been checked: packets to one queue pair together.
void Receiver::deliver_checked(Handler& handler) {
  const auto destination = [](const ArrivedPacket& packet) {
    return destination_of(packet.bytes.subspan(kRouteBytes));
  };
  std::span<const ArrivedPacket> left = packets_;
  while (!left.empty()) {
    const auto to = destination(left.front());
    const auto other =
        std::ranges::find_if(left, [&](const auto& each) { return destination(each) != to; });
    const auto same = left.first(static_cast<std::size_t>(other - left.begin()));
    handler.packets_arrived(same, to);
    left = left.subspan(same.size());
  }
  packets_.clear();
}

/// Checks the ICRC of the datagram with this index among those that the kernel has joined. A sender
/// that lets its kernel take them apart counts them in the identification.
bool Receiver::is_valid(ConstBytes datagram, const Flow& flow, std::size_t index) {
  const auto packet = datagram.first(datagram.size() - ipoib::wire::kIcrcSize);
  const auto* const stored = datagram.data() + packet.size();
  const auto sent = std::uint32_t{stored[0]} | std::uint32_t{stored[1]} << 8 |
                    std::uint32_t{stored[2]} << 16 | std::uint32_t{stored[3]} << 24;
  const Icrc icrc(flow, datagram.size(), static_cast<std::uint16_t>(index), packet);
  const auto difference = icrc.value() ^ sent;
  if (difference == 0) return true;
  return flow.is_ipv4() && identifications_.explains(difference, datagram.size());
}

}  // namespace softib::roce
