#include "packets.hpp"

#include <stdexcept>
#include <utility>

#include "datagrams.hpp"
#include "softib/core/mad_route.hpp"
#include "wire/mad.hpp"
#include "wire/node_record.hpp"

namespace softib::test {

using ipoib::wire::UdPacket;

namespace {
constexpr std::array<std::uint8_t, 3> kPadding{};

ConstBytes bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}
}  // namespace

TextPacket::TextPacket(Lid slid, Lid dlid, Qpn destination, std::string text)
    : slid_(slid), dlid_(dlid), destination_(destination), text_(std::move(text)) {}

OutgoingPacket TextPacket::outgoing() const {
  UdPacket packet;
  packet.lrh.slid = slid_;
  packet.lrh.dlid = dlid_;
  packet.bth.pkey = ipoib::kDefaultPKey;
  packet.bth.destination = destination_;
  packet.deth.source = QpnLayout::make(1, 0, 7);
  OutgoingPacket out;
  out.header_size = packet.emit_headers(text_.size(), out.header);
  // Two pieces, to test gathering.
  out.add(bytes_of(text_).first(text_.size() / 2));
  out.add(bytes_of(text_).subspan(text_.size() / 2));
  out.add(ConstBytes(kPadding).first(packet.bth.pad));
  out.dlid = dlid_;
  out.destination = destination_;
  return out;
}

LargeUdpPacket::LargeUdpPacket(Lid slid, Lid dlid, Qpn destination, std::uint16_t packets)
    : front_(datagram({"", 4, kUdp, 0})),
      payload_(std::size_t{packets} * 1000, 'x'),
      packet_(TextPacket(slid, dlid, destination, "").outgoing()) {
  packet_.piece_count = packet_.payload_size = 0;
  packet_.add(front_);
  packet_.add(payload_);
  packet_.gso = {1000, packets};
}

void send_text(endpoint::Endpoint& from, Lid dlid, Qpn destination, const std::string& text) {
  const TextPacket packet(from.first_port().lid, dlid, destination, text);
  const OutgoingPacket out = packet.outgoing();
  from.send({&out, 1});
}

MadPacket node_request(const endpoint::Endpoint& from) {
  ipoib::wire::SaHeader header;
  header.mad.management_class = ipoib::wire::mgmt_class::kSubnAdm;
  header.mad.class_version = 2;
  header.mad.method = ipoib::wire::method::kGet;
  header.mad.attribute_id = ipoib::wire::attribute::kNodeRecord;
  const MadRoute route{from.node(), from.slot(), from.epoch(), 1};
  header.mad.transaction_id = std::uint64_t{route.high_half()} << 32 | 1;
  header.component_mask = ipoib::wire::NodeRecord::kLid;
  ipoib::wire::NodeRecord wanted;
  wanted.lid = from.first_port().sm_lid;
  MadPacket packet;
  packet.slid = from.first_port().lid;
  packet.dlid = from.first_port().sm_lid;
  packet.source = packet.destination = ipoib::wire::kGsiQpn;
  packet.qkey = ipoib::wire::kGsiQKey;
  header.emit(packet.mad);
  wanted.emit(std::span(packet.mad).subspan(ipoib::wire::kSaHeaderSize));
  return packet;
}

void Mailbox::receive(std::span<const ArrivedPacket> batch) {
  const std::lock_guard lock(mutex_);
  for (const auto& arrived : batch) {
    const auto packet = UdPacket::parse(arrived.bytes);
    texts_.push_back(packet ? std::string(packet->payload.begin(), packet->payload.end())
                            : "no packet");
  }
  changed_.notify_all();
}

void Mailbox::port_changed(const PortAttributes& now) {
  const std::lock_guard lock(mutex_);
  ports_.push_back(now);
  changed_.notify_all();
}

bool Mailbox::receive_mad(const MadPacket& packet) {
  std::array<std::uint8_t, MadPacket::kMaxPacketSize> to;
  const auto bytes = packet.emit(to);
  const std::lock_guard lock(mutex_);
  mads_.emplace_back(bytes.begin(), bytes.end());
  changed_.notify_all();
  return true;
}

void Mailbox::mad_deadline(ipoib::TimePoint now) {
  const std::lock_guard lock(mutex_);
  deadlines_.push_back(now);
  changed_.notify_all();
}

void Mailbox::device_lost() { device_lost_ = true; }

template <class T>
T Mailbox::take(std::deque<T>& from) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, kTimeout, [&] { return !from.empty(); })) {
    throw std::runtime_error("nothing was received");
  }
  T first = std::move(from.front());
  from.pop_front();
  return first;
}

std::string Mailbox::next_text() { return take(texts_); }
std::vector<std::uint8_t> Mailbox::next_mad() { return take(mads_); }
PortAttributes Mailbox::next_port() { return take(ports_); }
ipoib::TimePoint Mailbox::next_deadline() { return take(deadlines_); }

std::size_t Mailbox::count_until(const std::string& last) {
  std::size_t count = 1;
  while (next_text() != last) ++count;
  return count;
}

}  // namespace softib::test
