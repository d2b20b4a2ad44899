// Packets through UDP sockets of the loopback interface, at addresses of this test process alone.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "softib/roce/receiver.hpp"
#include "softib/roce/sender.hpp"
#include "softib/roce/socket_address.hpp"
#include "softib/roce/udp_socket.hpp"
#include "wire/connected_packet.hpp"

namespace softib::roce {
namespace {

using ipoib::wire::ConnectedOpcode;
using ipoib::wire::ConnectedPacket;
using ipoib::wire::Psn;

/// 127/8 is local, also without an interface that has the address.
Gid own_address(std::uint8_t last) {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  return gid_of_ipv4(127U << 24 | (pid & 0xffff) << 8 | last);
}

constexpr std::size_t kMaxPayload = 4096;

struct Arrivals final : Receiver::Handler {
  struct Arrival {
    std::vector<std::uint8_t> bytes;
    Qpn destination;
  };
  void packets_arrived(std::span<const ArrivedPacket> arrived, Qpn destination) override {
    for (const auto& each : arrived) {
      packets.push_back({{each.bytes.begin(), each.bytes.end()}, destination});
    }
  }
  void icrc_failed() override { ++wrong; }
  void malformed() override { ++bad; }
  [[nodiscard]] std::size_t count() const { return packets.size() + wrong + bad; }

  std::vector<Arrival> packets;
  std::size_t wrong = 0;
  std::size_t bad = 0;
};

struct Reader {
  Receiver receiver;
  AddressSocket socket;
};

class UdpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = ReceiveSockets::open(theirs_, 0);
    ASSERT_TRUE(opened) << opened.error().message;
    sockets_.emplace(std::move(*opened));
    ASSERT_TRUE(sockets_->lend(2));
    payload_.reserve(kMaxPayload);  // packets refer to it
    use(own_, sockets_->own().front());
    use(first_, sockets_->lend(0)->others);
    use(responses_, sockets_->lend(0)->responses);
    use(third_, sockets_->lend(2)->others);
  }

  void use(Reader& reader, int fd) const {
    reader.socket = {theirs_, ipoib::FileDescriptor(::dup(fd))};
  }

  ConnectedPacket headers(ConnectedOpcode opcode, Qpn to) const {
    ConnectedPacket packet;
    packet.opcode = opcode;
    packet.bth.destination = to;
    packet.bth.pkey = ipoib::kDefaultPKey;
    packet.bth.psn = Psn(100);
    packet.reth = {0x1000, 0x77, static_cast<std::uint32_t>(payload_.size())};
    auto& grh = packet.grh.emplace();
    grh.sgid = ours_;
    grh.dgid = theirs_;
    grh.hop_limit = 64;
    return packet;
  }

  /// A WRITE of so many bytes, in one packet, or in a run of packets with this MTU.
  OutgoingPacket write(std::size_t bytes, std::uint16_t mtu, Qpn to) {
    payload_.resize(bytes);
    for (std::size_t i = 0; i < bytes; ++i) payload_[i] = static_cast<std::uint8_t>(i * 7);
    OutgoingPacket out;
    out.clear();
    auto packet = headers(ConnectedOpcode::write_only, to);
    out.add(payload_);
    const auto packets = (bytes + mtu - 1) / mtu;
    if (packets > 1) out.gso = {mtu, static_cast<std::uint16_t>(packets)};
    out.header_size = packet.emit_headers(packets > 1 ? mtu : bytes, out.header);
    if (packets == 1) out.add(ConstBytes(kPadding).first(packet.bth.pad));
    out.purpose = Purpose::request;
    out.destination = to;
    return out;
  }

  std::size_t send(const OutgoingPacket& packet) {
    const auto* const one = &packet;
    SendFailure why = SendFailure::none;
    const auto sent = sender_.send({&one, 1}, true, why);
    EXPECT_EQ(why, SendFailure::none);
    return sent;
  }

  /// Sends bytes as they are.
  void send_raw(ConstBytes bytes) {
    const int family = AF_INET;
    const ipoib::FileDescriptor socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const SocketAddress from(ours_, 0, 0);
    ASSERT_EQ(::bind(socket.get(), from.get(), from.size), 0);
    const SocketAddress to(theirs_, kUdpPort, 0);
    SocketAddress bound;
    ASSERT_EQ(::getsockname(socket.get(), bound.get(), &bound.size), 0);
    std::vector<std::uint8_t> all(bytes.begin(), bytes.end());
    const Icrc icrc({ours_, theirs_, bound.port()}, all.size() + 4, identification_, all);
    for (unsigned i = 0; i < 4; ++i) {
      all.push_back(static_cast<std::uint8_t>((icrc.value() ^ flipped_) >> (8 * i)));
    }
    ASSERT_EQ(::sendto(socket.get(), all.data(), all.size(), 0, to.get(), to.size),
              static_cast<ssize_t>(all.size()));
  }

  /// Polls until so many datagrams have come: delivery through the loopback interface may take a
  /// moment. Returns how many have.
  static std::size_t poll(Reader& reader, Arrivals& to, std::size_t least) {
    const auto before = to.count();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (to.count() - before < least && std::chrono::steady_clock::now() < end) {
      if (reader.receiver.poll(reader.socket, to) == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    return to.count() - before;
  }

  const Gid ours_ = own_address(1);
  const Gid theirs_ = own_address(2);
  const Qpn in_first_ = QpnLayout::make(1, 0, 5);
  const Qpn in_third_ = QpnLayout::make(9, 2, 5);
  std::vector<std::uint8_t> payload_;
  std::uint32_t flipped_ = 0;         ///< bits of the ICRC that send_raw() sends wrong
  std::uint16_t identification_ = 0;  ///< that its ICRC covers
  std::optional<ReceiveSockets> sockets_;
  Sender sender_;
  Reader own_;
  Reader first_;
  Reader responses_;
  Reader third_;
  Arrivals arrivals_;
};

TEST_F(UdpTest, TheKernelHandsAPacketToTheSlotOfItsQpn) {
  ASSERT_EQ(send(write(64, 1024, in_third_)), 1U);
  ASSERT_EQ(poll(third_, arrivals_, 1), 1U);
  ASSERT_EQ(send(write(64, 1024, in_first_)), 1U);
  ASSERT_EQ(poll(first_, arrivals_, 1), 1U);
  ASSERT_EQ(send(write(64, 1024, Qpn(1))), 1U);
  ASSERT_EQ(poll(own_, arrivals_, 1), 1U);
  ASSERT_EQ(arrivals_.packets.size(), 3U);
  EXPECT_EQ(arrivals_.packets[0].destination, in_third_);
  EXPECT_EQ(arrivals_.packets[1].destination, in_first_);
  EXPECT_EQ(arrivals_.packets[2].destination, Qpn(1));
}

TEST_F(UdpTest, WhatWasNotLentIsOwn) {
  EXPECT_EQ(sockets_->own().size(), 3U) << "that of QP0 and QP1, and those of slot 1";
  ASSERT_TRUE(sockets_->lend(1));
  EXPECT_EQ(sockets_->own().size(), 1U);
  ASSERT_TRUE(sockets_->lend(3));
  EXPECT_EQ(sockets_->own().size(), 1U);
}

// IBA 9.2.1: the low five bits of an opcode are the operation.
TEST_F(UdpTest, TheKernelHandsResponsesToASocketOfTheirOwn) {
  for (unsigned opcode = 0; opcode <= 0xff; ++opcode) {
    std::vector<std::uint8_t> bytes(32, 0);
    bytes[0] = static_cast<std::uint8_t>(opcode);
    for (std::size_t i = 0; i < 3; ++i) {
      bytes[5 + i] = static_cast<std::uint8_t>(in_first_.value() >> (8 * (2 - i)));
    }
    send_raw(bytes);
    const unsigned operation = opcode & 0x1f;
    const bool is_response = operation >= 0x0d && operation <= 0x12;
    auto& reader = is_response ? responses_ : first_;
    ASSERT_EQ(poll(reader, arrivals_, 1), 1U) << opcode;
    EXPECT_EQ(arrivals_.packets.at(opcode).bytes.at(kRouteBytes), opcode);
  }
}

TEST_F(UdpTest, SocketsThatAreLeftOverMakeThoseOfTheNextProcessMixed) {
  EXPECT_FALSE(sockets_->is_mixed());
  sockets_.reset();  // first_ and the others are still open
  const auto next = ReceiveSockets::open(theirs_, 0);
  ASSERT_TRUE(next) << next.error().message;
  EXPECT_TRUE(next->is_mixed());
}

TEST_F(UdpTest, APacketArrivesAsItWasSent) {
  ASSERT_EQ(send(write(61, 1024, in_first_)), 1U);
  ASSERT_EQ(poll(first_, arrivals_, 1), 1U);
  const auto packet = ConnectedPacket::parse(arrivals_.packets.at(0).bytes);
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->opcode, ConnectedOpcode::write_only);
  EXPECT_EQ(packet->bth.psn, Psn(100));
  EXPECT_EQ(packet->reth.length, 61U);
  EXPECT_TRUE(std::ranges::equal(packet->payload, payload_));
  EXPECT_EQ(packet->grh->sgid, ours_);
  EXPECT_EQ(packet->grh->dgid, theirs_);
  EXPECT_EQ(packet->grh->hop_limit, 64);
}

TEST_F(UdpTest, ARunArrivesPacketByPacket) {
  ASSERT_EQ(send(write(4 * 256 + 3, 256, in_first_)), 1U);
  ASSERT_EQ(poll(first_, arrivals_, 5), 5U);
  std::vector<std::uint8_t> whole;
  for (std::size_t i = 0; i < 5; ++i) {
    const auto packet = ConnectedPacket::parse(arrivals_.packets.at(i).bytes);
    ASSERT_TRUE(packet) << i;
    EXPECT_EQ(packet->bth.psn, Psn(100) + static_cast<int>(i));
    EXPECT_EQ(ipoib::wire::begins_message(packet->opcode), i == 0);
    EXPECT_EQ(ipoib::wire::ends_message(packet->opcode), i == 4);
    whole.insert(whole.end(), packet->payload.begin(), packet->payload.end());
  }
  EXPECT_EQ(whole, payload_);
  EXPECT_EQ(arrivals_.wrong, 0U);
}

TEST_F(UdpTest, PacketsOfSeveralSizesKeepTheirOrder) {
  std::vector<OutgoingPacket> packets;
  for (const std::size_t bytes : {64U, 64U, 32U, 64U, 128U}) {
    packets.push_back(write(bytes, 1024, in_first_));
    packets.back().header[kRouteBytes + 11] = static_cast<std::uint8_t>(packets.size());
  }
  std::vector<const OutgoingPacket*> all;
  for (const auto& each : packets) all.push_back(&each);
  SendFailure why = SendFailure::none;
  ASSERT_EQ(sender_.send(all, true, why), 5U);
  ASSERT_EQ(poll(first_, arrivals_, 5), 5U);
  for (std::uint8_t i = 0; i < 5; ++i) {
    EXPECT_EQ(arrivals_.packets.at(i).bytes.at(kRouteBytes + 11), i + 1);
  }
  EXPECT_EQ(arrivals_.wrong, 0U);
}

// The HCA computes checksums of datagrams, which replace bytes of the program's memory.
TEST_F(UdpTest, ComputedChecksumsAreSent) {
  std::vector<OutgoingPacket> packets;
  for (std::uint16_t i = 0; i < 3; ++i) {
    packets.push_back(write(64, 1024, in_first_));
    packets.back().patches[0] = {10, static_cast<std::uint16_t>(0xabc0 + i)};
    packets.back().patch_count = 1;
  }
  std::vector<const OutgoingPacket*> all;
  for (const auto& each : packets) all.push_back(&each);
  SendFailure why = SendFailure::none;
  ASSERT_EQ(sender_.send(all, true, why), 3U);
  ASSERT_EQ(poll(first_, arrivals_, 3), 3U);
  for (std::uint8_t i = 0; i < 3; ++i) {
    const auto packet = ConnectedPacket::parse(arrivals_.packets.at(i).bytes);
    ASSERT_TRUE(packet);
    EXPECT_EQ(packet->payload[10], 0xab);
    EXPECT_EQ(packet->payload[11], 0xc0 + i);
    EXPECT_TRUE(std::ranges::equal(packet->payload.subspan(12), ConstBytes(payload_).subspan(12)));
  }
  EXPECT_EQ(arrivals_.wrong, 0U);
}

TEST_F(UdpTest, AWrongIcrcIsRefused) {
  auto packet = write(64, 1024, in_first_);
  std::vector<std::uint8_t> bytes(packet.size());
  write_packet(packet, bytes.data());
  flipped_ = 0x00010000;
  send_raw(ConstBytes(bytes).subspan(kRouteBytes));
  ASSERT_EQ(poll(first_, arrivals_, 1), 1U);
  EXPECT_EQ(arrivals_.wrong, 1U);
  EXPECT_TRUE(arrivals_.packets.empty());
}

// The receiver does not see it.
TEST_F(UdpTest, AnyIdentificationOfIpv4IsRight) {
  auto packet = write(64, 1024, in_first_);
  std::vector<std::uint8_t> bytes(packet.size());
  write_packet(packet, bytes.data());
  identification_ = 0xbeef;
  send_raw(ConstBytes(bytes).subspan(kRouteBytes));
  ASSERT_EQ(poll(first_, arrivals_, 1), 1U);
  EXPECT_EQ(arrivals_.packets.size(), 1U);
  EXPECT_EQ(arrivals_.wrong, 0U);
}

TEST_F(UdpTest, DatagramsThatAreNoPacketsAreRefused) {
  for (const std::size_t bytes : {8U, 11U, 13U, 27U}) {
    const ipoib::FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const SocketAddress to(theirs_, kUdpPort, 0);
    const std::vector<std::uint8_t> content(bytes, 0);  // for QP0
    ASSERT_GT(::sendto(socket.get(), content.data(), bytes, 0, to.get(), to.size), 0);
  }
  ASSERT_EQ(poll(own_, arrivals_, 4), 4U);
  EXPECT_EQ(arrivals_.bad, 4U);
  EXPECT_TRUE(arrivals_.packets.empty());
}

TEST_F(UdpTest, APacketWithoutGrhIsNotSent) {
  auto packet = write(64, 1024, in_first_);
  packet.header[1] = 0x02;  // LNH: local
  const auto* const one = &packet;
  SendFailure why = SendFailure::none;
  EXPECT_EQ(sender_.send({&one, 1}, true, why), 0U);
  EXPECT_EQ(why, SendFailure::no_route);
}

}  // namespace
}  // namespace softib::roce
