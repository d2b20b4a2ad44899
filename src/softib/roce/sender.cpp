#include "softib/roce/sender.hpp"

#include <netinet/udp.h>
#include <poll.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "softib/core/large_packet.hpp"
#include "softib/core/packet_run.hpp"
#include "softib/roce/socket_address.hpp"
#include "softib/roce/udp_socket.hpp"

namespace softib::roce {

using ipoib::wire::ConnectedPacket;

namespace {

/// Most datagrams of one call (UDP_MAX_SEGMENTS of older kernels), and their bytes.
constexpr std::size_t kMaxSegments = 64;
constexpr std::size_t kMaxMessageBytes = 65'000;
/// Pieces of one datagram: headers, payload, ICRC.
constexpr std::size_t kMaxIovs = 1024;
constexpr std::uint8_t kDefaultHopLimit = 64;

using HeaderBytes = std::array<std::uint8_t, kMaxPacketHeader>;

bool is_run(const OutgoingPacket& packet) {
  return packet.gso.size != 0 && packet.purpose != Purpose::datagram;
}

/// Whether the bytes to send are not those in the program's memory: those of a large packet have
/// headers of their own, others a checksum that the HCA has computed.
bool needs_copies(const OutgoingPacket& packet) {
  return (packet.gso.size != 0 && !is_run(packet)) || packet.patch_count != 0;
}

/// The payload of a packet as consecutive parts.
class PieceReader {
 public:
  explicit PieceReader(const OutgoingPacket& packet) : packet_(packet) {}

  /// Calls `visit` for the pieces of the next `bytes`.
  template <class Visit>
  void take(std::size_t bytes, Visit visit) {
    while (bytes != 0 && index_ < packet_.piece_count) {
      const auto left = packet_.pieces[index_].subspan(offset_);
      const auto part = left.first(std::min(bytes, left.size()));
      if (!part.empty()) visit(part);
      bytes -= part.size();
      offset_ += part.size();
      if (offset_ == packet_.pieces[index_].size()) ++index_, offset_ = 0;
    }
  }

 private:
  const OutgoingPacket& packet_;
  std::size_t index_ = 0;
  std::size_t offset_ = 0;
};

}  // namespace

struct Sender::Socket {
  Gid address;
  std::uint16_t wanted_port = 0;
  std::uint16_t port = 0;
  ipoib::FileDescriptor fd;
};

/// Datagrams to one receiver that one call sends. All but the last have the same size.
class Sender::Message {
 public:
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::size_t count() const { return count_; }
  /// Forgets everything. The socket may be of a sender that has gone.
  void reset() {
    forget();
    socket_.reset();
  }
  /// Requires that it is empty.
  void set_route(const Route& route, std::shared_ptr<Socket> socket) {
    route_ = route;
    route_.flow.source_port = socket->port;
    socket_ = std::move(socket);
  }
  [[nodiscard]] bool leads_to(const Route& route) const {
    return socket_ && route_.options == route.options && route_.flow.source == route.flow.source &&
           route_.flow.destination == route.flow.destination &&
           socket_->wanted_port == route.flow.source_port;
  }
  /// Whether a datagram of `size` bytes, in at most so many pieces, may follow. A shorter one
  /// closes the message: only if no others of its size follow.
  [[nodiscard]] bool admits(std::size_t size, std::size_t pieces, bool is_last) const {
    if (count_ == 0) return true;
    return !is_closed_ && (size == segment_ || (is_last && size < segment_)) &&
           count_ < kMaxSegments && bytes_ + size <= kMaxMessageBytes &&
           iov_count_ + pieces <= kMaxIovs;
  }
  /// Adds a datagram: the headers after the GRH, and its payload with padding, for whose pieces
  /// `payload` calls its argument.
  template <class Payload>
  void add(ConstBytes headers, std::size_t size, Payload payload) {
    Icrc icrc(route_.flow, size, static_cast<std::uint16_t>(count_), headers);
    add_copied(headers);
    payload([&](ConstBytes piece) {
      icrc.add(piece);
      add_piece(piece);
    });
    std::array<std::uint8_t, ipoib::wire::kIcrcSize> crc;
    for (unsigned i = 0; i < crc.size(); ++i) {
      crc[i] = static_cast<std::uint8_t>(icrc.value() >> (8 * i));
    }
    add_copied(crc);
    if (count_ == 0) segment_ = size;
    is_closed_ = size != segment_;
    ++count_;
    bytes_ += size;
  }
  /// A copy of a packet, which is valid until it has been sent.
  [[nodiscard]] ConstBytes copy(ConstBytes packet) {
    if (copies_.empty()) copies_.resize(kMaxSegments + 1);
    auto& bytes = copies_[next_copy_++ % copies_.size()];
    bytes.assign(packet.begin(), packet.end());
    return bytes;
  }
  /// The packet whose datagrams were added last is complete.
  void end_packet() { ++ended_; }

  /// Sends the datagrams, and forgets them. Returns 0, or an errno value.
  [[nodiscard]] int send(unsigned interface, bool may_wait);
  /// The packets that are complete.
  [[nodiscard]] std::size_t ended() const { return ended_; }
  void forget() {
    count_ = iov_count_ = copied_ = bytes_ = segment_ = ended_ = 0;
    is_closed_ = false;
  }

 private:
  void add_piece(ConstBytes piece) {
    iovs_[iov_count_++] = {const_cast<std::uint8_t*>(piece.data()), piece.size()};
  }
  /// The ICRC of a datagram and the headers of the next one are one piece.
  void add_copied(ConstBytes bytes) {
    auto* const to = copied_bytes_.data() + copied_;
    std::ranges::copy(bytes, to);
    copied_ += bytes.size();
    if (iov_count_ != 0) {
      auto& last = iovs_[iov_count_ - 1];
      if (static_cast<std::uint8_t*>(last.iov_base) + last.iov_len == to) {
        last.iov_len += bytes.size();
        return;
      }
    }
    add_piece({to, bytes.size()});
  }
  void add_option(msghdr& message, int level, int type, const void* value, std::size_t size);

  Route route_;
  std::shared_ptr<Socket> socket_;
  std::array<std::uint8_t, kMaxSegments*(kMaxPacketHeader + ipoib::wire::kIcrcSize)> copied_bytes_;
  std::array<iovec, kMaxIovs> iovs_;
  alignas(cmsghdr) std::array<char, 128> control_;
  std::vector<std::vector<std::uint8_t>> copies_;  ///< one more than datagrams; empty until needed
  std::size_t next_copy_ = 0;
  std::size_t count_ = 0;
  std::size_t iov_count_ = 0;
  std::size_t copied_ = 0;
  std::size_t bytes_ = 0;
  std::size_t segment_ = 0;  ///< size of all datagrams but the last
  std::size_t ended_ = 0;
  bool is_closed_ = false;  ///< the last datagram is shorter
};

void Sender::Message::add_option(msghdr& message, int level, int type, const void* value,
                                 std::size_t size) {
  auto* const header = reinterpret_cast<cmsghdr*>(control_.data() + message.msg_controllen);
  header->cmsg_level = level;
  header->cmsg_type = type;
  header->cmsg_len = CMSG_LEN(size);
  std::memcpy(CMSG_DATA(header), value, size);
  message.msg_controllen += CMSG_SPACE(size);
}

int Sender::Message::send(unsigned interface, bool may_wait) {
  SocketAddress to(route_.flow.destination, kUdpPort, interface);
  msghdr message{};
  message.msg_name = to.get();
  message.msg_namelen = to.size;
  message.msg_iov = iovs_.data();
  message.msg_iovlen = iov_count_;
  message.msg_control = control_.data();
  const bool is_v4 = route_.flow.is_ipv4();
  const int hops = route_.options.hop_limit == 0 ? kDefaultHopLimit : route_.options.hop_limit;
  add_option(message, is_v4 ? IPPROTO_IP : IPPROTO_IPV6, is_v4 ? IP_TTL : IPV6_HOPLIMIT, &hops,
             sizeof hops);
  if (const int traffic_class = route_.options.traffic_class; traffic_class != 0) {
    add_option(message, is_v4 ? IPPROTO_IP : IPPROTO_IPV6, is_v4 ? IP_TOS : IPV6_TCLASS,
               &traffic_class, sizeof traffic_class);
  }
  if (count_ > 1) {
    const auto segment = static_cast<std::uint16_t>(segment_);
    add_option(message, SOL_UDP, UDP_SEGMENT, &segment, sizeof segment);
  }
  for (;;) {
    if (::sendmsg(socket_->fd.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return 0;
    if (errno == EINTR) continue;
    if (errno != EAGAIN || !may_wait) return errno;
    pollfd room{socket_->fd.get(), POLLOUT, 0};
    if (::poll(&room, 1, kSendWaitMilliseconds) <= 0) return EAGAIN;
  }
}

Sender::Sender() = default;
Sender::~Sender() = default;

void Sender::set_interface(unsigned interface) {
  interface_ = interface;
  const std::lock_guard lock(mutex_);
  sockets_.clear();
}

/// The socket of a flow. If its port is taken, by another process of this host for example, it has
/// one of the next ports: any is right.
std::shared_ptr<Sender::Socket> Sender::socket_of(const Flow& flow) {
  constexpr unsigned kAttempts = 64;
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(sockets_, [&](const auto& each) {
    return each->wanted_port == flow.source_port && each->address == flow.source;
  });
  if (found != sockets_.end()) {
    sockets_.splice(sockets_.begin(), sockets_, found);
    return sockets_.front();
  }
  for (unsigned attempt = 0; attempt < kAttempts; ++attempt) {
    const auto port = static_cast<std::uint16_t>((flow.source_port + attempt * 257U) | 0xc000U);
    auto fd = open_send_socket(flow.source, interface_, port);
    if (!fd) {
      if (fd.error().code == EADDRINUSE) continue;
      return nullptr;
    }
    if (sockets_.size() >= kMaxSendSockets) sockets_.pop_back();
    sockets_.push_front(
        std::make_shared<Socket>(flow.source, flow.source_port, port, std::move(*fd)));
    return sockets_.front();
  }
  return nullptr;
}

SendFailure Sender::flush(Message& message, bool may_wait) {
  if (message.empty()) return SendFailure::none;
  const auto count = message.count();
  switch (const int error = message.send(interface_, may_wait); error) {
    case 0:
      return SendFailure::none;
    case EMSGSIZE:
      return SendFailure::too_long;
    case EINVAL:
      // A datagram of several that is longer than the path's MTU.
      return count == 1 ? SendFailure::unreachable : SendFailure::too_long;
    case EIO:
      if (count == 1) return SendFailure::unreachable;
      // The interface cannot have datagrams taken apart: from now on each is sent alone.
      segments_ = false;
      [[fallthrough]];
    case EAGAIN:
    case ENOBUFS:
      return SendFailure::no_room;
    default:
      return SendFailure::unreachable;
  }
}

/// Adds a packet to `message`, which is sent whenever it is full. Once a part of the packet has
/// been sent, waits for room, because a packet is not offered again in parts.
SendFailure Sender::add(const OutgoingPacket& packet, bool may_wait, Message& message,
                        std::size_t& sent) {
  const auto headers = packet.front();
  const auto route = route_of(headers);
  if (!route) return SendFailure::no_route;
  const auto flush_message = [&](bool wait) {
    const auto why = flush(message, wait);
    if (why == SendFailure::none) sent += message.ended();
    message.forget();
    return why;
  };
  if (!message.leads_to(*route)) {
    if (const auto why = flush_message(may_wait); why != SendFailure::none) return why;
    auto socket = socket_of(route->flow);
    if (!socket) return SendFailure::unreachable;
    message.set_route(*route, std::move(socket));
  }
  PieceReader pieces(packet);
  bool has_begun = false;
  const auto add_datagram = [&](ConstBytes transport, std::size_t payload, std::size_t padding,
                                bool is_last = true) {
    const auto size = transport.size() + payload + padding + ipoib::wire::kIcrcSize;
    if (!message.empty() &&
        (!segments_ || !message.admits(size, packet.piece_count + 3, is_last))) {
      if (const auto why = flush_message(may_wait || has_begun); why != SendFailure::none)
        return why;
    }
    has_begun = true;
    message.add(transport, size, [&](auto visit) {
      pieces.take(payload, visit);
      if (padding != 0) visit(ConstBytes(kPadding).first(padding));
    });
    return SendFailure::none;
  };
  if (!is_run(packet)) {
    // A packet that has come over a link with faults is in one piece, headers included.
    const bool is_one_piece = packet.header_size == 0;
    constexpr std::size_t kBth = ipoib::wire::Bth::kSize;
    const auto transport =
        is_one_piece ? headers.subspan(kRouteBytes, kBth) : headers.subspan(kRouteBytes);
    if (is_one_piece) pieces.take(kRouteBytes + kBth, [](ConstBytes) {});
    const auto why = add_datagram(transport, packet.size() - kRouteBytes - transport.size(), 0);
    if (why != SendFailure::none) return why;
  } else {
    const auto whole = ConnectedPacket::parse_headers(headers);
    if (!whole) return SendFailure::no_route;
    auto left = packet.payload_size;
    for (std::uint32_t i = 0; i < packet.gso.packets; ++i) {
      auto part = PacketRun::headers_of_part(*whole, packet.gso.packets, i);
      const auto payload = std::min<std::size_t>(left, packet.gso.size);
      left -= payload;
      HeaderBytes bytes;
      const auto size = part.emit_headers(payload, bytes);
      const auto why = add_datagram(ConstBytes(bytes).first(size).subspan(kRouteBytes), payload,
                                    part.bth.pad, left == 0);
      if (why != SendFailure::none) return why;
    }
  }
  return SendFailure::none;
}

std::size_t Sender::send(std::span<const OutgoingPacket* const> packets, bool may_wait,
                         SendFailure& why) {
  thread_local Message message;
  message.reset();
  why = SendFailure::none;
  std::size_t sent = 0;
  for (const auto* const packet : packets) {
    why = needs_copies(*packet) ? add_copies(*packet, may_wait, message, sent)
                                : add(*packet, may_wait, message, sent);
    if (why != SendFailure::none) break;
    message.end_packet();
  }
  const auto last = flush(message, may_wait);
  if (last == SendFailure::none) {
    sent += message.ended();
  } else if (why == SendFailure::none) {
    why = last;
  }
  return sent;
}

/// Adds the segments of a large packet, or a packet with its checksums. Once a part of it has been
/// sent, waits for room; those that there is none for are lost.
SendFailure Sender::add_copies(const OutgoingPacket& packet, bool may_wait, Message& message,
                               std::size_t& sent) {
  SendFailure first = SendFailure::none;
  bool has_begun = false;
  for_each_packet(packet, [&](ConstBytes bytes) {
    if (first != SendFailure::none) return;
    OutgoingPacket segment;
    segment.add(message.copy(bytes));
    const auto why = add(segment, may_wait || has_begun, message, sent);
    if (!std::exchange(has_begun, true)) first = why;
  });
  return first;
}

}  // namespace softib::roce
