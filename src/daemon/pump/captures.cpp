#include "daemon/pump/captures.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "control/protocol.hpp"
#include "ipoib/overloaded.hpp"
#include "offload/segmenter.hpp"
#include "wire/arp.hpp"
#include "wire/encapsulation.hpp"
#include "wire/neighbour_discovery.hpp"

namespace ipoib::daemon {

namespace {

constexpr int kNow = MSG_DONTWAIT | MSG_NOSIGNAL;

/// Whether the other side has closed the connection, on which it sends nothing.
bool has_ended(int connection) {
  std::array<char, 1> byte{};
  const auto size = ::recv(connection, byte.data(), byte.size(), MSG_PEEK | MSG_DONTWAIT);
  return size == 0 || (size < 0 && errno != EAGAIN);
}

bool names(const Ipv4Address& address, wire::EtherType type, ConstBytes packet) {
  constexpr std::size_t kSource = 12;
  constexpr std::size_t kDestination = 16;
  if (type == wire::EtherType::arp) {
    const auto arp = wire::Arp::parse(packet);
    return arp && (arp->sender_protocol == address || arp->target_protocol == address);
  }
  if (type != wire::EtherType::ipv4) return false;
  ByteReader reader(packet);
  reader.skip(kSource);
  const auto source = reader.array<Ipv4Address::kSize>();
  static_assert(kSource + Ipv4Address::kSize == kDestination);
  const auto destination = reader.array<Ipv4Address::kSize>();
  return reader.ok() && (Ipv4Address(source) == address || Ipv4Address(destination) == address);
}

bool names(const Ipv6Address& address, wire::EtherType type, ConstBytes packet) {
  constexpr std::size_t kSource = 8;
  if (type != wire::EtherType::ipv6) return false;
  ByteReader reader(packet);
  reader.skip(kSource);
  const auto source = reader.array<Ipv6Address::kSize>();
  const auto destination = reader.array<Ipv6Address::kSize>();
  if (!reader.ok()) return false;
  if (Ipv6Address(source) == address || Ipv6Address(destination) == address) return true;
  const auto message = wire::NdMessage::parse(packet);
  return message && message->target == address;
}

/// Whether the frame is from or to the IP address, or ARP or Neighbour Discovery about it.
bool names(const IpAddress& address, ConstBytes frame) {
  const auto type = wire::parse_encapsulation(frame);
  if (!type) return false;
  const auto packet = frame.subspan(wire::kEncapsulationSize);
  return std::visit([&](const auto& one) { return names(one, *type, packet); }, address);
}

/// The LID of a group that the port is a member of.
Lid lid_of(const std::vector<link::GroupInfo>& groups, const Gid& mgid) {
  const auto found = std::ranges::find(groups, mgid, &link::GroupInfo::mgid);
  return found == groups.end() ? Lid() : found->mlid;
}

/// The headers of a packet that the queue pair sends or receives, without addresses.
wire::UdPacket headers_of(const QueuePairView& view) {
  wire::UdPacket out;
  out.bth.pkey = view.pkey;
  out.deth.qkey = view.link.qkey();
  return out;
}

}  // namespace

// --- Who captures
// ---------------------------------------------------------------------------------

void Captures::add(const control::CaptureRequest& request, FileDescriptor connection) {
  remove_ended();
  const bool is_full = clients_.size() >= kMaxCaptures;
  const auto line = is_full ? emit(control::Response(Error(EBUSY, "too many captures; end one")))
                            : emit(control::Response(control::Reply(control::Done{})));
  const auto sent = ::send(connection.get(), line.data(), line.size(), kNow);
  if (is_full || sent < 0) return;
  clients_.push_back({std::move(connection), request.neighbour, {}, 0});
}

void Captures::remove_ended() {
  std::erase_if(clients_, [](const Client& client) {
    return !client.connection || has_ended(client.connection.get());
  });
}

// --- Packets
// --------------------------------------------------------------------------------------

void Captures::sending(std::span<const Outgoing> batch, const QueuePairView& from) {
  begin(from);
  const HwAddress own = from.link.hardware_address();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto& [to, qpn, frame] = batch[i];
    const auto& path = to->vector();
    const Gid dgid = path.global ? path.global->dgid : Gid();
    const auto takers = takers_of(frame.bytes(), {.flags = 0, .qpn = qpn, .gid = dgid}, path.dlid);
    if (takers == 0) continue;
    auto headers = headers_of(from);
    headers.lrh.sl = path.sl;
    headers.lrh.dlid = path.dlid;
    headers.lrh.slid = Lid(static_cast<std::uint16_t>(from.lid.value() + path.source_path_bits));
    if (path.global) {
      headers.grh.emplace();
      headers.grh->traffic_class = path.global->traffic_class;
      headers.grh->flow_label = path.global->flow_label;
      headers.grh->hop_limit = path.global->hop_limit;
      headers.grh->sgid = own.gid;
      headers.grh->dgid = dgid;
    }
    headers.bth.destination = qpn;
    headers.deth.source = own.qpn;
    add_frame(headers, frame, {.packet = i, .is_received = false, .takers = takers});
  }
}

void Captures::sent(std::size_t count) { deliver(count); }

void Captures::received(std::span<const Incoming> batch, const QueuePairView& by) {
  begin(by);
  const HwAddress own = by.link.hardware_address();
  std::optional<std::vector<link::GroupInfo>> groups;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto& datagram = batch[i];
    // A multicast that the device has looped back was captured when it was sent.
    if (datagram.source_qpn == own.qpn && datagram.source_gid == own.gid) continue;
    const HwAddress peer{.flags = 0, .qpn = datagram.source_qpn, .gid = datagram.source_gid};
    const auto takers = takers_of(datagram.frame.bytes(), peer, datagram.source_lid);
    if (takers == 0) continue;
    auto headers = headers_of(by);
    headers.lrh.sl = datagram.sl;
    headers.lrh.slid = datagram.source_lid;
    headers.lrh.dlid = by.lid;
    headers.bth.destination = own.qpn;
    headers.deth.source = datagram.source_qpn;
    if (datagram.has_grh) {
      headers.grh.emplace();
      headers.grh->sgid = datagram.source_gid;
      headers.grh->dgid = datagram.destination_gid;
      if (datagram.destination_gid.is_multicast()) {
        if (!groups) groups = by.link.groups();
        headers.lrh.dlid = lid_of(*groups, datagram.destination_gid);
        headers.bth.destination = kMulticastQpn;
      }
    }
    add_frame(headers, datagram.frame, {.packet = i, .is_received = true, .takers = takers});
  }
  deliver(batch.size());
}

void Captures::begin(const QueuePairView& view) {
  using std::chrono::duration_cast;
  using std::chrono::nanoseconds;
  records_.clear();
  pieces_.clear();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  now_ = duration_cast<nanoseconds>(now).count();
  known_.clear();
  for (const Client& client : clients_) {
    known_.push_back(client.neighbour ? view.link.get(*client.neighbour, TimePoint())
                                      : std::nullopt);
  }
}

/// A neighbour is known by its queue pair, and its port by LID or, if the path has one, GID.
std::uint32_t Captures::takers_of(ConstBytes frame, const HwAddress& peer, Lid lid) const {
  std::uint32_t out = 0;
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    const auto& known = known_[i];
    const bool is_peer = known && known->hardware && known->hardware->qpn == peer.qpn &&
                         (known->hardware->gid == peer.gid ||
                          (lid != Lid() && known->path && known->path->dlid == lid));
    const auto& wanted = clients_[i].neighbour;
    if (!wanted || is_peer || names(*wanted, frame)) out |= std::uint32_t{1} << i;
  }
  return out;
}

void Captures::add_frame(wire::UdPacket& headers, const Frame& frame, const Piece& piece) {
  if (!frame.is_large()) return add_datagram(headers, frame.bytes(), {}, piece);
  auto segmenter = offload::make_segmenter(frame, wire::kEncapsulationSize);
  std::array<std::uint8_t, wire::kEncapsulationSize + offload::kMaxHeaders> segment{};
  while (!segmenter.done()) {
    const auto payload = segmenter.next(segment.data());
    add_datagram(headers, ConstBytes(segment).first(segmenter.header_size()), payload, piece);
  }
}

void Captures::add_datagram(wire::UdPacket& headers, ConstBytes first, ConstBytes second,
                            Piece piece) {
  std::array<std::uint8_t, wire::UdPacket::kMaxHeaderSize> buffer{};
  const auto used = headers.emit_headers(first.size() + second.size(), buffer);
  const auto size = used + first.size() + second.size() + headers.bth.pad;
  const auto begin = records_.size();
  records_.resize(begin + erf::kCaptureRecordHeader);
  erf::CaptureRecord{piece.is_received, now_, {}}.emit_header(
      size, MutableBytes(records_).subspan(begin));
  records_.insert(records_.end(), buffer.begin(),
                  buffer.begin() + static_cast<std::ptrdiff_t>(used));
  records_.insert(records_.end(), first.begin(), first.end());
  records_.insert(records_.end(), second.begin(), second.end());
  records_.resize(records_.size() + headers.bth.pad);
  piece.end = records_.size();
  pieces_.push_back(piece);
}

/// Sends the records of the first `packets` of the batch.
void Captures::deliver(std::size_t packets) {
  std::size_t begin = 0;
  for (const Piece& piece : pieces_) {
    if (piece.packet >= packets) break;
    const auto record = ConstBytes(records_).subspan(begin, piece.end - begin);
    begin = piece.end;
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      Client& client = clients_[i];
      if ((piece.takers >> i & 1) == 0 || client.message.add(record)) continue;
      send(client);
      (void)client.message.add(record);
    }
  }
  for (Client& client : clients_) send(client);
  std::erase_if(clients_, [](const Client& client) { return !client.connection; });
}

void Captures::send(Client& client) {
  const auto count = client.message.records();
  if (count == 0 || !client.connection) return client.message.clear();
  const auto message = client.message.finish(client.lost);
  const auto sent = ::send(client.connection.get(), message.data(), message.size(), kNow);
  if (sent >= 0) {
    counters_.packets += count;
    client.lost = 0;
  } else if (errno == EAGAIN || errno == ENOBUFS) {
    counters_.lost += count;
    client.lost += count;
  } else {
    client.connection.reset();
  }
  client.message.clear();
}

}  // namespace ipoib::daemon
