#include "softib/core/packet_run.hpp"

#include "tests/unit/softib/hca/connection/connection_fixture.hpp"

namespace softib::hca {
namespace {

using ipoib::wire::ConnectedOpcode;
using ipoib::wire::ConnectedService;
using ipoib::wire::Psn;
using testing::ElementsAre;

constexpr std::uint16_t kMtu = 1024;

/// A run as it arrives.
struct MadeRun {
  explicit MadeRun(ConnectedOpcode opcode, std::size_t payload = 3 * kMtu - 10,
                   GsoInfo gso = {kMtu, 3})
      : gso_(gso) {
    ConnectedPacket packet;
    packet.opcode = opcode;
    packet.lrh.slid = Lid(5);
    packet.lrh.dlid = Lid(6);
    packet.bth.pkey = ipoib::kDefaultPKey;
    packet.bth.psn = Psn(0xfffffe);
    packet.bth.ack_request = packet.bth.solicited = true;
    packet.immediate = 0x01020304;
    fill(packet, payload);
  }
  void fill(ConnectedPacket packet, std::size_t payload) {
    bytes.resize(ConnectedPacket::kMaxHeaderSize);
    bytes.resize(packet.emit_headers(kMtu, bytes));
    for (std::size_t i = 0; i < payload; ++i) bytes.push_back(static_cast<std::uint8_t>(i * 7));
  }
  [[nodiscard]] ArrivedPacket arrived() const { return {bytes, false, gso_}; }
  [[nodiscard]] std::optional<PacketRun> parsed() const { return PacketRun::parse(bytes, gso_); }
  [[nodiscard]] std::vector<ConnectedOpcode> opcodes() const {
    std::vector<ConnectedOpcode> all;
    const auto run = parsed().value();
    for (std::uint32_t i = 0; i < gso_.packets; ++i) all.push_back(run.packet(i).opcode);
    return all;
  }

  std::vector<std::uint8_t> bytes;
  GsoInfo gso_;
};

TEST(PacketRun, ThePartsOfAMessage) {
  using enum ConnectedOpcode;
  EXPECT_THAT(MadeRun(send_only).opcodes(), ElementsAre(send_first, send_middle, send_last));
  EXPECT_THAT(MadeRun(send_only_immediate).opcodes(),
              ElementsAre(send_first, send_middle, send_last_immediate));
  EXPECT_THAT(MadeRun(send_only_invalidate).opcodes(),
              ElementsAre(send_first, send_middle, send_last_invalidate));
  EXPECT_THAT(MadeRun(send_first).opcodes(), ElementsAre(send_first, send_middle, send_middle));
  EXPECT_THAT(MadeRun(send_middle).opcodes(), ElementsAre(send_middle, send_middle, send_middle));
  EXPECT_THAT(MadeRun(send_last_invalidate).opcodes(),
              ElementsAre(send_middle, send_middle, send_last_invalidate));
  EXPECT_THAT(MadeRun(write_only).opcodes(), ElementsAre(write_first, write_middle, write_last));
  EXPECT_THAT(MadeRun(write_last_immediate).opcodes(),
              ElementsAre(write_middle, write_middle, write_last_immediate));
  EXPECT_THAT(MadeRun(read_response_only).opcodes(),
              ElementsAre(read_response_first, read_response_middle, read_response_last));
  EXPECT_THAT(MadeRun(read_response_first).opcodes(),
              ElementsAre(read_response_first, read_response_middle, read_response_middle));
}

TEST(PacketRun, OnlyTheLastPacketAsksForSomething) {
  const auto run = MadeRun(ConnectedOpcode::write_only_immediate).parsed().value();
  EXPECT_EQ(run.mtu(), kMtu);
  EXPECT_EQ(run.whole().packets, 3U);
  for (std::uint32_t i = 0; i < 3; ++i) {
    const auto packet = run.packet(i);
    EXPECT_EQ(packet.packets, 1U);
    EXPECT_EQ(packet.bth.psn, Psn(0xfffffe) + i);
    EXPECT_EQ(packet.bth.ack_request, i == 2);
    EXPECT_EQ(packet.bth.solicited, i == 2);
    EXPECT_EQ(packet.payload.size(), i == 2 ? kMtu - 10U : kMtu);
    EXPECT_EQ(packet.payload.data(), run.whole().payload.data() + i * kMtu);
  }
}

TEST(PacketRun, ItsPacketsAreThoseOfTheWire) {
  using enum ConnectedOpcode;
  for (const auto opcode : {send_only_immediate, send_last_invalidate, write_only, write_middle,
                            read_response_only, read_response_last}) {
    const MadeRun run(opcode);
    std::size_t size = 0;
    std::vector<std::uint8_t> payload;
    for_each_packet(run.arrived(), [&](ConstBytes bytes) {
      const auto packet = ConnectedPacket::parse(bytes);
      ASSERT_TRUE(packet);
      payload.insert(payload.end(), packet->payload.begin(), packet->payload.end());
      size += bytes.size();
    });
    EXPECT_EQ(size, segmented_size(run.arrived()));
    const auto whole = run.parsed()->whole().payload;
    EXPECT_TRUE(std::ranges::equal(payload, whole));
  }
}

TEST(PacketRun, MustAgreeWithItsPayload) {
  const auto is_run = [](std::size_t payload, GsoInfo gso) {
    return MadeRun(ConnectedOpcode::write_only, payload, gso).parsed().has_value();
  };
  EXPECT_TRUE(is_run(2 * kMtu + 1, {kMtu, 3}));
  EXPECT_TRUE(is_run(3 * kMtu, {kMtu, 3}));
  EXPECT_TRUE(is_run(kRunBytes, {4096, kRunBytes / 4096}));
  EXPECT_FALSE(is_run(2 * kMtu, {kMtu, 3}));
  EXPECT_FALSE(is_run(3 * kMtu + 1, {kMtu, 3}));
  EXPECT_FALSE(is_run(kMtu, {kMtu, 1}));
  EXPECT_FALSE(is_run(3, {0, 3}));
  EXPECT_FALSE(is_run(3 * 1023, {1023, 3})) << "packets in the middle have no padding";
  EXPECT_FALSE(is_run(3 * 4100, {4100, 3}));
  EXPECT_FALSE(is_run(kRunBytes + 4, {4096, kRunBytes / 4096 + 1}));
}

TEST(PacketRun, OnlyMessagesAndReadResponsesHaveParts) {
  using enum ConnectedOpcode;
  for (const auto opcode : {read_request, acknowledge, atomic_acknowledge, compare_swap}) {
    EXPECT_FALSE(MadeRun(opcode).parsed());
    EXPECT_FALSE(MadeRun(opcode, 0).parsed());
  }
  EXPECT_FALSE(MadeRun(atomic_write).parsed());
  EXPECT_FALSE(PacketRun::parse({}, {kMtu, 3}));
}

/// Runs from `a` to `b`, and back.
class RunsTest : public ConnectionTest {
 protected:
  /// A run of three packets of `mtu`, of an RDMA WRITE to the beginning of b's memory.
  [[nodiscard]] std::vector<std::uint8_t> write_run(std::uint16_t mtu, Qpn to) {
    ConnectedPacket packet;
    packet.opcode = ConnectedOpcode::write_only;
    packet.lrh.slid = Lid(5);
    packet.lrh.dlid = Lid(6);
    packet.bth.pkey = ipoib::kDefaultPKey;
    packet.bth.destination = to;
    packet.bth.psn = Psn(kFirstPsn);
    packet.reth = {b.address(0), b.all.key, 3U * mtu};
    std::vector<std::uint8_t> bytes(ConnectedPacket::kMaxHeaderSize);
    bytes.resize(packet.emit_headers(mtu, bytes));
    bytes.resize(bytes.size() + packet.reth.length, 0xaa);
    return bytes;
  }
  void receive(const std::vector<std::uint8_t>& bytes, std::uint16_t mtu) {
    b.hca.receive({bytes, false, {mtu, 3}});
  }
  [[nodiscard]] const HcaCounters& counters() const { return b.hca.counters(); }
};

TEST_F(RunsTest, AreCountedAsTheirPackets) {
  HcaCounters counted[2];
  for (const unsigned whole : {0U, 1000U}) {
    network.faults.whole = whole;
    const auto before = counters();
    const auto sent_before = a.hca.counters();
    ASSERT_EQ(b.post_receive(qb, 0, 50'000), 0);
    ASSERT_EQ(a.post(qa, ConnectedHost::request(IBV_WR_SEND), {a.part(0, 50'000)}), 0);
    ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_READ, 100'000), {a.part(100'000, 50'000)}), 0);
    network.run();
    EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS, IBV_WC_SUCCESS));
    EXPECT_EQ(b.bytes(0, 50'000), a.bytes(0, 50'000));
    EXPECT_EQ(b.bytes(100'000, 50'000), a.bytes(100'000, 50'000));
    auto& now = counted[whole / 1000];
    now.received_packets = counters().received_packets - before.received_packets;
    now.received_bytes = counters().received_bytes - before.received_bytes;
    now.sent_packets = counters().sent_packets - before.sent_packets;
    EXPECT_EQ(a.hca.counters().sent_packets - sent_before.sent_packets, now.received_packets);
    (void)b.poll();
  }
  EXPECT_EQ(counted[0].received_packets, 49U + 1U);  // the SEND, and the request of the READ
  EXPECT_EQ(counted[1].received_packets, counted[0].received_packets);
  EXPECT_EQ(counted[1].received_bytes, counted[0].received_bytes);
  EXPECT_GE(counted[1].sent_packets, 49U);  // and acknowledgements
}

TEST_F(RunsTest, TakeTurnsAlsoAsResponses) {
  auto& qa2 = a.make_connected();
  auto& qb2 = b.make_connected();
  connect_pair(a, qa2, b, qb2);
  std::vector<Qpn> order;
  network.on_packet = [&](const ConnectedPacket& packet) {
    if (is_read_response(packet.opcode)) order.push_back(packet.bth.destination);
  };
  for (auto* const qp : {&qa, &qa2}) {
    ASSERT_EQ(a.post(*qp, remote(IBV_WR_RDMA_READ, 0), {a.part(0, 64 * 1024)}), 0);
  }
  network.run();
  ASSERT_EQ(order.size(), 128U);
  EXPECT_EQ(order[0], qa.number());
  EXPECT_EQ(order[kSendBatch], qa2.number());
}

TEST_F(RunsTest, ThatAreExpectedInPartAreHandledPacketByPacket) {
  auto first = write_run(1024, qb.number());
  receive(first, 1024);
  EXPECT_EQ(counters().received_packets, 3U);
  EXPECT_EQ(b.bytes(0, 3072), std::vector<std::uint8_t>(3072, 0xaa));
  receive(first, 1024);
  EXPECT_EQ(counters().at(1).duplicates, 3U);
  // The next packet is expected, the one after it is early.
  auto next = write_run(1024, qb.number());
  auto packet = *ConnectedPacket::parse_headers(next);
  packet.bth.psn = Psn(kFirstPsn) + 4;
  (void)packet.emit_headers(1024, next);
  receive(next, 1024);
  EXPECT_EQ(counters().at(1).sequence_errors, 3U);
  EXPECT_EQ(qb.state(), IBV_QPS_RTS);
}

TEST_F(RunsTest, OfAnotherPathMtuAreRefused) {
  receive(write_run(512, qb.number()), 512);
  EXPECT_EQ(qb.state(), IBV_QPS_ERR);
  EXPECT_EQ(b.bytes(0, 100), std::vector<std::uint8_t>([] {
              std::vector<std::uint8_t> expected(100);
              std::iota(expected.begin(), expected.end(), std::uint8_t{6});
              return expected;
            }()));
}

TEST_F(RunsTest, AreDroppedAsTheirPackets) {
  receive(write_run(4096, qb.number()), 4096);
  EXPECT_EQ(counters().at(1).drop_length, 3U) << "the port has a smaller MTU";
  receive(write_run(1024, Qpn(qb.number().value() + 1)), 1024);
  EXPECT_EQ(counters().at(1).drop_unknown_qp, 3U);
  receive(write_run(1024, qb.number()), 1020);
  EXPECT_EQ(counters().at(1).drop_malformed, 3U);
  auto down = b.hca.ports()[1];
  down.state = PortState::down;
  b.hca.set_port(down);
  receive(write_run(1024, qb.number()), 1024);
  EXPECT_EQ(counters().at(1).drop_port, 3U);
  down.state = PortState::active;
  b.hca.set_port(down);
  b.modify(qb, IBV_QPS_RESET);
  receive(write_run(1024, qb.number()), 1024);
  EXPECT_EQ(counters().at(1).drop_qp_state, 3U);
}

}  // namespace
}  // namespace softib::hca
