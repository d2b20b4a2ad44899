// Packets through UDP sockets of the loopback interface, at addresses of this test process alone.
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <utility>

#include "softib/roce/sender.hpp"
#include "softib/roce/socket_address.hpp"
#include "softib/roce/udp_socket.hpp"
#include "tests/support/softib/datagrams.hpp"
#include "tests/unit/linux/namespace_fixture.hpp"
#include "udp_fixture.hpp"
#include "wire/packet.hpp"

namespace softib::roce {
namespace {

using ipoib::wire::UdPacket;

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
    use(own_, sockets_->own().front());
    use(first_, sockets_->lend(0)->others);
    use(responses_, sockets_->lend(0)->responses);
    use(third_, sockets_->lend(2)->others);
  }

  void use(Reader& reader, int fd) const {
    reader.socket = {theirs_, ipoib::FileDescriptor(::dup(fd))};
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

  static std::size_t poll(Reader& reader, Arrivals& to, std::size_t least) {
    return poll_until(to, least, [&] { return reader.receiver.poll(reader.socket, to); });
  }
  OutgoingPacket write(std::size_t bytes, std::uint16_t mtu, Qpn to) {
    return packets_.write(bytes, mtu, to);
  }
  /// Sends all of them at once.
  std::size_t send(const std::vector<OutgoingPacket>& packets,
                   SendFailure expected = SendFailure::none) {
    std::vector<const OutgoingPacket*> all;
    for (const auto& each : packets) all.push_back(&each);
    SendFailure why = SendFailure::none;
    const auto sent = sender_.send(all, true, why);
    EXPECT_EQ(why, expected);
    return sent;
  }
  [[nodiscard]] ConnectedPacket arrived(std::size_t index) const {
    const auto packet = ConnectedPacket::parse(arrivals_.packets.at(index).bytes);
    EXPECT_TRUE(packet) << index;
    return packet.value_or(ConnectedPacket{});
  }

  const Gid ours_ = own_address(1);
  const Gid theirs_ = own_address(2);
  const Qpn in_first_ = QpnLayout::make(1, 0, 5);
  const Qpn in_third_ = QpnLayout::make(9, 2, 5);
  PacketMaker packets_{ours_, theirs_};
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
  ASSERT_EQ(send({write(64, 1024, in_third_)}), 1U);
  ASSERT_EQ(poll(third_, arrivals_, 1), 1U);
  ASSERT_EQ(send({write(64, 1024, in_first_)}), 1U);
  ASSERT_EQ(poll(first_, arrivals_, 1), 1U);
  ASSERT_EQ(send({write(64, 1024, Qpn(1))}), 1U);
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
  EXPECT_EQ(first_.receiver.poll(first_.socket, arrivals_), 0U);
  ASSERT_EQ(send({write(61, 1024, in_first_)}), 1U);
  std::size_t bytes = 0;
  ASSERT_EQ(poll_until(arrivals_, 1,
                       [&] { return bytes = first_.receiver.poll(first_.socket, arrivals_); }),
            1U);
  EXPECT_EQ(bytes, 12U + 16 + 61 + 3 + 4) << "BTH, RETH, payload, pad, ICRC";
  const auto packet = arrived(0);
  EXPECT_EQ(packet.opcode, ConnectedOpcode::write_only);
  EXPECT_EQ(packet.bth.psn, Psn(100));
  EXPECT_EQ(packet.reth.length, 61U);
  EXPECT_TRUE(std::ranges::equal(packet.payload, packets_.payload()));
  EXPECT_EQ(packet.grh->sgid, ours_);
  EXPECT_EQ(packet.grh->dgid, theirs_);
  EXPECT_EQ(packet.grh->hop_limit, 64);
  EXPECT_EQ(packet.grh->traffic_class, 0);
}

TEST_F(UdpTest, ARunArrivesPacketByPacket) {
  ASSERT_EQ(send({write(4 * 256 + 3, 256, in_first_)}), 1U);
  ASSERT_EQ(poll(first_, arrivals_, 5), 5U);
  std::vector<std::uint8_t> whole;
  for (std::size_t i = 0; i < 5; ++i) {
    const auto packet = arrived(i);
    EXPECT_EQ(packet.bth.psn, Psn(100) + static_cast<int>(i));
    EXPECT_EQ(ipoib::wire::begins_message(packet.opcode), i == 0);
    EXPECT_EQ(ipoib::wire::ends_message(packet.opcode), i == 4);
    whole.insert(whole.end(), packet.payload.begin(), packet.payload.end());
  }
  EXPECT_EQ(whole, packets_.payload());
  EXPECT_EQ(arrivals_.wrong, 0U);
}

TEST_F(UdpTest, PacketsOfSeveralSizesKeepTheirOrder) {
  std::vector<OutgoingPacket> packets;
  for (const std::size_t bytes : {64U, 64U, 32U, 64U, 128U}) {
    packets.push_back(write(bytes, 1024, in_first_));
    packets.back().header[kRouteBytes + 11] = static_cast<std::uint8_t>(packets.size());
  }
  ASSERT_EQ(send(packets), 5U);
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
  ASSERT_EQ(send(packets), 3U);
  ASSERT_EQ(poll(first_, arrivals_, 3), 3U);
  for (std::uint8_t i = 0; i < 3; ++i) {
    const auto packet = arrived(i);
    EXPECT_EQ(packet.payload[10], 0xab);
    EXPECT_EQ(packet.payload[11], 0xc0 + i);
    EXPECT_TRUE(
        std::ranges::equal(packet.payload.subspan(12), ConstBytes(packets_.payload()).subspan(12)));
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
  for (const std::size_t bytes : {0U, 8U, 11U, 13U, 27U}) {
    const ipoib::FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const SocketAddress to(theirs_, kUdpPort, 0);
    const std::vector<std::uint8_t> content(bytes, 0);  // for QP0
    ASSERT_EQ(::sendto(socket.get(), content.data(), bytes, 0, to.get(), to.size),
              static_cast<ssize_t>(bytes));
  }
  ASSERT_EQ(poll(own_, arrivals_, 5), 5U);
  EXPECT_EQ(arrivals_.bad, 5U);
  EXPECT_TRUE(arrivals_.packets.empty());
}

TEST_F(UdpTest, APacketWithoutGrhIsNotSent) {
  auto packet = write(64, 1024, in_first_);
  packet.header[1] = 0x02;  // LNH: local
  EXPECT_EQ(send({packet}, SendFailure::no_route), 0U);
}

// The kernel takes at most 64 datagrams, of less than 64 KiB, in one call.
TEST_F(UdpTest, RunsOfAnyNumberAndSizeArrive) {
  for (const auto& [bytes, mtu] : {std::pair{200U * 256U, 256U}, {30U * 4096U - 1, 4096U}}) {
    arrivals_.packets.clear();
    const auto count = (bytes + mtu - 1) / mtu;
    ASSERT_EQ(send({write(bytes, static_cast<std::uint16_t>(mtu), in_first_)}), 1U);
    ASSERT_EQ(poll(first_, arrivals_, count), count);
    std::vector<std::uint8_t> whole;
    for (std::size_t i = 0; i < arrivals_.packets.size(); ++i) {
      const auto packet = arrived(i);
      whole.insert(whole.end(), packet.payload.begin(), packet.payload.end());
    }
    EXPECT_EQ(whole, packets_.payload());
  }
  EXPECT_EQ(arrivals_.wrong + arrivals_.bad, 0U);
}

// One call takes 1,024 pieces of memory.
TEST_F(UdpTest, PacketsInManyPiecesArrive) {
  const auto whole = write(64, 1024, in_first_);
  OutgoingPacket packet;
  packet.header = whole.header;
  packet.header_size = whole.header_size;
  for (std::size_t i = 0; i < OutgoingPacket::kMaxPieces; ++i) {
    packet.add(ConstBytes(packets_.payload()).subspan(4 * i, 4));
  }
  ASSERT_EQ(send(std::vector(100, packet)), 100U);
  ASSERT_EQ(poll(first_, arrivals_, 100), 100U);
  for (std::size_t i = 0; i < arrivals_.packets.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(arrived(i).payload, packets_.payload()));
  }
}

// A link with faults passes such packets on.
TEST_F(UdpTest, APacketInOnePieceArrives) {
  const auto whole = write(64, 1024, in_first_);
  std::vector<std::uint8_t> bytes(whole.size());
  write_packet(whole, bytes.data());
  OutgoingPacket packet;
  packet.add(bytes);
  ASSERT_EQ(send({packet, packet}), 2U);
  ASSERT_EQ(poll(first_, arrivals_, 2), 2U);
  EXPECT_TRUE(std::ranges::equal(arrived(1).payload, packets_.payload()));
  EXPECT_EQ(arrived(1).reth.length, 64U);
}

TEST_F(UdpTest, ALargeDatagramArrivesInSegments) {
  constexpr std::uint16_t kSegment = 500;
  UdPacket headers;
  headers.bth.destination = in_first_;
  headers.grh = packets_.headers(ConnectedOpcode::write_only, in_first_).grh;
  const auto front = test::tso_headers({"", 4, test::kTcp, 0});
  (void)write(2100, 4096, in_first_);
  OutgoingPacket packet;
  packet.header_size = headers.emit_headers(front.size() + 2100, packet.header);
  packet.add(front);
  packet.add(packets_.payload());
  packet.gso = {kSegment, 5};
  ASSERT_EQ(send({packet, write(2100, 4096, in_first_)}), 2U);
  ASSERT_EQ(poll(first_, arrivals_, 6), 6U);
  std::vector<std::uint8_t> whole;
  for (std::size_t i = 0; i < 5; ++i) {
    const auto segment = UdPacket::parse(arrivals_.packets.at(i).bytes);
    ASSERT_TRUE(segment) << i;
    const auto payload = segment->payload.subspan(front.size());
    whole.insert(whole.end(), payload.begin(), payload.end());
  }
  EXPECT_EQ(whole, packets_.payload());
  EXPECT_EQ(arrived(5).reth.length, 2100U);
}

TEST_F(UdpTest, EachPacketHasItsTrafficClassHopLimitAndSourcePort) {
  const auto with = [&](std::uint8_t traffic_class, std::uint8_t hops, std::uint32_t label) {
    auto packet = write(64, 1024, in_first_);
    auto headers = packets_.headers(ConnectedOpcode::write_only, in_first_);
    headers.grh->traffic_class = traffic_class;
    headers.grh->hop_limit = hops;
    headers.grh->flow_label = label;
    packet.header_size = headers.emit_headers(64, packet.header);
    return packet;
  };
  ASSERT_EQ(send({with(0x68, 7, 1), with(0x68, 8, 1), with(0, 8, 1), with(0, 0, 2)}), 4U);
  ASSERT_EQ(poll(first_, arrivals_, 4), 4U);
  const auto expect = [&](std::size_t index, std::uint8_t traffic_class, std::uint8_t hops) {
    EXPECT_EQ(arrived(index).grh->traffic_class, traffic_class) << index;
    EXPECT_EQ(arrived(index).grh->hop_limit, hops) << index;
  };
  expect(0, 0x68, 7);
  expect(1, 0x68, 8);
  expect(2, 0, 8);
  expect(3, 0, 64);  // the usual one, if the queue pair has none
  EXPECT_EQ(arrivals_.wrong, 0U);
  for (const auto port : {std::uint16_t{0xc001}, std::uint16_t{0xc002}}) {
    EXPECT_FALSE(open_send_socket(ours_, 0, port)) << "it is in use";
  }
}

TEST_F(UdpTest, IfItsSourcePortIsTakenAFlowHasAnother) {
  const auto taken = open_send_socket(ours_, 0, 0xc000);
  ASSERT_TRUE(taken);
  ASSERT_EQ(send({write(64, 1024, in_first_), write(64, 1024, in_first_)}), 2U);
  ASSERT_EQ(poll(first_, arrivals_, 1), 2U) << "in one message";
  EXPECT_EQ(arrivals_.packets.size(), 2U);
  EXPECT_EQ(arrivals_.wrong, 0U);
}

TEST_F(UdpTest, TheFlowThatWasNotUsedForLongestLosesItsSocket) {
  const auto of_flow = [&](std::uint32_t label) {
    auto packet = write(64, 1024, in_first_);
    auto headers = packets_.headers(ConnectedOpcode::write_only, in_first_);
    headers.grh->flow_label = label;
    packet.header_size = headers.emit_headers(64, packet.header);
    return packet;
  };
  const auto has_socket = [&](std::uint16_t label) {
    return !open_send_socket(ours_, 0, static_cast<std::uint16_t>(0xc000 | label));
  };
  for (std::uint32_t label = 0; label < kMaxSendSockets; ++label) {
    ASSERT_EQ(send({of_flow(label)}), 1U);
  }
  ASSERT_EQ(send({of_flow(0)}), 1U);
  ASSERT_TRUE(has_socket(1));
  ASSERT_EQ(send({of_flow(kMaxSendSockets)}), 1U);
  EXPECT_TRUE(has_socket(0)) << "it was used again";
  EXPECT_FALSE(has_socket(1));
  EXPECT_TRUE(has_socket(2));
  sender_.set_interface(0);
  EXPECT_TRUE(has_socket(kMaxSendSockets)) << "the thread that sent last still has it";
  EXPECT_FALSE(has_socket(0));
}

TEST_F(UdpTest, PacketsBeforeTheOneThatCannotBeSentAreSent) {
  const Gid outside = gid_of_ipv4(0x0a000001);  // there is no way from 127/8
  PacketMaker foreign(ours_, outside);
  PacketMaker unowned(gid_of_ipv4(0xc0000277), theirs_);
  const auto to_outside = foreign.write(64, 1024, in_first_);
  const auto from_elsewhere = unowned.write(64, 1024, in_first_);
  for (const auto& bad : {to_outside, from_elsewhere}) {
    arrivals_.packets.clear();
    const auto good = write(64, 1024, in_first_);
    ASSERT_EQ(send({good, good, bad, good}, SendFailure::unreachable), 2U);
    ASSERT_EQ(poll(first_, arrivals_, 2), 2U);
    EXPECT_EQ(arrivals_.packets.size(), 2U);
    EXPECT_EQ(send({good, bad}, SendFailure::unreachable), 1U);
    EXPECT_EQ(poll(first_, arrivals_, 1), 1U);
  }
}

TEST_F(UdpTest, AnAddressIsServedOnce) {
  const ipoib::FileDescriptor other(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const Gid address = own_address(3);
  const SocketAddress at(address, kUdpPort, 0);
  ASSERT_EQ(::bind(other.get(), at.get(), at.size), 0);
  const auto opened = ReceiveSockets::open(address, 0);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, EADDRINUSE);
  EXPECT_NE(opened.error().message.find("rdma_rxe"), std::string::npos);
  const auto absent = ReceiveSockets::open(gid_of_ipv4(0xc0000277), 0);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, EADDRNOTAVAIL);
  EXPECT_EQ(absent.error().message.find("rdma_rxe"), std::string::npos);
}

TEST_F(UdpTest, SaysWhichAddressOrGroupIsOfNoUse) {
  constexpr unsigned kNoInterface = 0x7fffffff;
  EXPECT_EQ(open_group_socket(gid_of_ipv4(0xef010203), kNoInterface).error().message,
            "cannot join the multicast group ::ffff:239.1.2.3: No such device");
  sender_.set_interface(0);
  EXPECT_EQ(open_send_socket(gid_of_ipv4(0xc0000277), 0, 0).error().message,
            "cannot send from ::ffff:192.0.2.119: Cannot assign requested address; give the "
            "address to the interface");
}

/// Two addresses of a network namespace of the test, whose loopback interface has a small MTU.
class UdpNamespaceTest : public ipoib::test::NamespaceTest {
 protected:
  void SetUp() override {
    NamespaceTest::SetUp();
    if (IsSkipped()) return;
    ip("link set lo mtu 1500");
    ip("-6 addr add fd07::1/128 dev lo nodad");
    ip("-6 addr add fd07::2/128 dev lo nodad");
  }
  /// Sends packets until so many have come: the kernel makes the routes of new addresses later.
  void send_until_received(const std::vector<const OutgoingPacket*>& packets,
                           const AddressSocket& socket) {
    Receiver receiver;
    const auto received = poll_until(arrivals_, packets.size(), [&] {
      SendFailure why = SendFailure::none;
      EXPECT_EQ(sender_.send(packets, true, why), packets.size());
      return receiver.poll(socket, arrivals_);
    });
    ASSERT_GE(received, packets.size());
  }
  /// Sends two packets, and receives them at their destination.
  void pass(const Gid& from, const Gid& to) {
    const auto loopback = ::if_nametoindex("lo");
    auto sockets = ReceiveSockets::open(to, loopback);
    ASSERT_TRUE(sockets) << sockets.error().message;
    sender_.set_interface(loopback);
    PacketMaker packets(from, to);
    auto headers = packets.headers(ConnectedOpcode::write_only, Qpn(1));
    headers.grh->traffic_class = 0x68;
    headers.grh->hop_limit = 7;
    auto packet = packets.write(64, 1024, Qpn(1));
    packet.header_size = headers.emit_headers(64, packet.header);
    send_until_received({&packet, &packet},
                        {to, ipoib::FileDescriptor(::dup(sockets->own().front()))});
    EXPECT_EQ(arrivals_.wrong, 0U);
    const auto arrived = ConnectedPacket::parse(arrivals_.packets.at(1).bytes);
    ASSERT_TRUE(arrived);
    EXPECT_EQ(arrived->grh->sgid, from);
    EXPECT_EQ(arrived->grh->dgid, to);
    EXPECT_EQ(arrived->grh->traffic_class, 0x68);
    EXPECT_EQ(arrived->grh->hop_limit, 7);
  }
  /// Why packets of so many bytes are not sent.
  SendFailure failure_of(std::size_t bytes, std::size_t count) {
    PacketMaker packets(from_, to_);
    const auto packet = packets.write(bytes, 4096, Qpn(1));
    SendFailure why = SendFailure::none;
    const std::vector all(count, &packet);
    const auto sent = sender_.send(all, true, why);
    EXPECT_EQ(sent, why == SendFailure::none ? count : 0);
    return why;
  }

  Gid from_ = own_address(1);
  Gid to_ = own_address(2);
  Sender sender_;
  Arrivals arrivals_;
};

TEST_F(UdpNamespaceTest, Ipv6PacketsArrive) {
  pass({0xfd07'0000'0000'0000, Guid(1)}, {0xfd07'0000'0000'0000, Guid(2)});
}

TEST_F(UdpNamespaceTest, PacketsOfLinkLocalAddressesArrive) {
  ip("-6 addr add fe80::1/128 dev lo nodad");
  ip("-6 addr add fe80::2/128 dev lo nodad");
  pass({Gid::kLinkLocalPrefix, Guid(1)}, {Gid::kLinkLocalPrefix, Guid(2)});
}

TEST_F(UdpNamespaceTest, PacketsToGroupsLeaveByTheInterface) {
  for (const std::string pair : {"other", "roce"}) {  // the kernel prefers the first
    ip("link add " + pair + "0 type veth peer name " + pair + "1");
    ip("link set " + pair + "0 addrgenmode none up");
    ip("link set " + pair + "1 addrgenmode none up");
  }
  ip("addr add 10.7.0.1/24 dev roce0");
  ip("addr add 10.7.0.1/32 dev lo");  // by which the kernel would send otherwise
  ip("-6 addr add fd07::9/64 dev roce0 nodad");
  const auto interface = ::if_nametoindex("roce0");
  sender_.set_interface(interface);
  for (const auto& [from, group] :
       {std::pair{gid_of_ipv4(0x0a070001), gid_of_ipv4(0xef010101)},
        {Gid(0xfd07'0000'0000'0000, Guid(9)), Gid(0xff15'0000'0000'0000, Guid(7))}}) {
    auto socket = open_group_socket(group, interface);
    ASSERT_TRUE(socket) << socket.error().message;
    PacketMaker packets(from, group);
    const auto packet = packets.write(64, 1024, Qpn(0xffffff));
    send_until_received({&packet}, {group, std::move(*socket)});
    EXPECT_EQ(ConnectedPacket::parse(arrivals_.packets.at(0).bytes)->grh->dgid, group);
    arrivals_.packets.clear();
  }
}

TEST_F(UdpNamespaceTest, WhatThePathDoesNotTakeIsTooLong) {
  EXPECT_EQ(failure_of(1024, 1), SendFailure::none);
  EXPECT_EQ(failure_of(1024, 3), SendFailure::none);
  EXPECT_EQ(failure_of(2048, 1), SendFailure::too_long);
  EXPECT_EQ(failure_of(2048, 3), SendFailure::too_long);
  from_ = Gid(0xfd07'0000'0000'0000, Guid(1));
  to_ = Gid(0xfd07'0000'0000'0000, Guid(2));
  EXPECT_EQ(failure_of(1024, 1), SendFailure::none);
  EXPECT_EQ(failure_of(2048, 1), SendFailure::too_long) << "no fragments with IPv6 either";
}

TEST_F(UdpNamespaceTest, NothingIsSentAfterWhatIsTooLong) {
  PacketMaker packets(own_address(1), own_address(2));
  const auto longer = packets.write(2048, 4096, Qpn(1));
  const auto shorter = packets.write(64, 4096, Qpn(1));
  const auto run = packets.write(512, 256, Qpn(1));
  for (const auto* const last : {&shorter, &run}) {
    // The second ends a message, which is sent when the third is added.
    const std::array all{&longer, &shorter, last};
    SendFailure why = SendFailure::none;
    EXPECT_EQ(sender_.send(all, true, why), 0U);
    EXPECT_EQ(why, SendFailure::too_long);
  }
}

}  // namespace
}  // namespace softib::roce
