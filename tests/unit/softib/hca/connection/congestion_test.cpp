// Connections of Ethernet ports over a switch that marks packets.
#include "softib/hca/connection/congestion.hpp"

#include "softib/core/ip_gid.hpp"
#include "tests/unit/softib/hca/connection/connection_fixture.hpp"
#include "wire/congestion_notification.hpp"

namespace softib::hca {
namespace {

using ipoib::wire::CongestionNotification;
using ipoib::wire::Psn;

TEST(Congestion, ANotificationHalvesTheWindow) {
  Congestion congestion;
  EXPECT_EQ(congestion.limit(100), 100U);
  congestion.notified(Psn(0xfffff0), Psn(0x2), 64);
  EXPECT_EQ(congestion.limit(100), 32U);
  EXPECT_EQ(congestion.limit(10), 10U) << "never more than the window";
}

TEST(Congestion, OneRoundTripIsReducedOnce) {
  Congestion congestion;
  congestion.notified(Psn(0), Psn(64), 64);
  congestion.notified(Psn(63), Psn(95), 64);
  EXPECT_EQ(congestion.limit(100), 32U);
  congestion.notified(Psn(64), Psn(96), 64);
  EXPECT_EQ(congestion.limit(100), 16U);
}

TEST(Congestion, OnePacketIsAlwaysInFlight) {
  Congestion congestion;
  for (std::uint32_t i = 0; i < 20; ++i) congestion.notified(Psn(i), Psn(i + 1), 100);
  EXPECT_EQ(congestion.limit(100), 1U);
}

TEST(Congestion, EachWindowThatIsAcknowledgedAddsAPacket) {
  Congestion congestion;
  congestion.notified(Psn(0), Psn(2), 8);
  congestion.acknowledged(3);
  EXPECT_EQ(congestion.limit(100), 4U);
  congestion.acknowledged(1);
  EXPECT_EQ(congestion.limit(100), 5U);
  congestion.acknowledged(5 + 6 + 2);
  EXPECT_EQ(congestion.limit(100), 7U);
  for (std::uint32_t i = 0; i < kWindowPackets; ++i) congestion.acknowledged(kWindowPackets);
  EXPECT_EQ(congestion.limit(kWindowPackets), kWindowPackets);
}

/// Two Ethernet ports, and between them a switch that may mark packets.
class CongestedTest : public testing::Test {
 protected:
  struct Sink : ConnectedSink {
    TrySent try_send(std::span<const OutgoingPacket> batch) override {
      TrySent sent;
      for (const auto& packet : batch) {
        if (packet.payload_size > longest * packet.gso.packets) {
          sent.is_too_long = true;
          return sent;
        }
        for_each_packet(
            packet, [&](ConstBytes bytes) { packets.emplace_back(bytes.begin(), bytes.end()); });
        ++sent.done;
      }
      return sent;
    }
    bool has_untaken(std::uint8_t, Lid, Qpn) override { return false; }
    std::vector<std::vector<std::uint8_t>> packets;
    std::size_t longest = 4096;  ///< bytes of payload that the path takes
  };
  static constexpr std::size_t kTrafficClass = ipoib::wire::Lrh::kSize + 1;  ///< its low half

  CongestedTest() {
    make_ethernet(a_, gid_of_ipv4(0x0a000001));
    make_ethernet(b_, gid_of_ipv4(0x0a000002));
    connect(a_, qa_, qb_.number(), gid_of_ipv4(0x0a000002));
    connect(b_, qb_, qa_.number(), gid_of_ipv4(0x0a000001));
  }
  static void make_ethernet(ConnectedHost& host, const Gid& gid) {
    auto port = make_port(0);
    port.link_layer = LinkLayer::ethernet;
    port.gids = {gid};
    host.hca.set_port(port);
  }
  static void connect(ConnectedHost& host, QueuePair& qp, Qpn peer, const Gid& to) {
    auto attr = host.connected_attributes(peer, 0);
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.hop_limit = 64;
    std::ranges::copy(to.bytes(), attr.ah_attr.grh.dgid.raw);
    host.connect(qp, attr);
  }
  void post_write(std::size_t bytes) {
    const auto wr = ConnectedHost::request(IBV_WR_RDMA_WRITE, b_.address(0), b_.all.key);
    ASSERT_EQ(a_.post(qa_, wr, {a_.part(0, bytes)}), 0);
  }
  /// What a host sends now.
  std::vector<std::vector<std::uint8_t>> sent_by(ConnectedHost& host) {
    sink_.packets.clear();
    auto& connections = host.hca.connections();
    connections.resume();
    connections.expire(now_);
    while (connections.has_active()) {
      (void)connections.serve(now_, sink_);
      connections.resume();
    }
    return sink_.packets;
  }
  void deliver(std::vector<std::vector<std::uint8_t>> packets, ConnectedHost& to, bool marks) {
    for (auto& packet : packets) {
      notifications_ += CongestionNotification::parse(packet) ? 1 : 0;
      // The traffic class is across the first two bytes of the GRH.
      if (marks) packet[kTrafficClass] = static_cast<std::uint8_t>(packet[kTrafficClass] | 0x30);
      to.hca.receive({packet});
    }
  }
  /// One round trip in which data are sent, at most; returns the packets that `a` had in flight.
  std::size_t round_trip(bool marks) {
    const auto data = sent_by(a_);
    deliver(data, b_, marks);
    now_ += kRoundTrip;
    deliver(sent_by(b_), a_, false);
    return data.size();
  }

  static constexpr Duration kRoundTrip = std::chrono::microseconds(100);
  TimePoint now_{std::chrono::hours(1)};
  ConnectedHost a_{0};
  ConnectedHost b_{0};
  QueuePair& qa_ = a_.make_connected();
  QueuePair& qb_ = b_.make_connected();
  Sink sink_;
  int notifications_ = 0;
};

TEST_F(CongestedTest, PacketsMayBeMarked) {
  post_write(100);
  const auto packets = sent_by(a_);
  ASSERT_EQ(packets.size(), 1U);
  const auto parsed = ConnectedPacket::parse(packets[0]);
  EXPECT_EQ(parsed->grh->traffic_class, 2) << "ECT(0)";
}

TEST_F(CongestedTest, MarkedPacketsSlowTheSenderAndItRecovers) {
  constexpr std::size_t kBytes = 1 << 20;
  post_write(kBytes);
  const auto full = round_trip(true);
  EXPECT_EQ(full, kWindowPackets);
  const auto half = round_trip(true);
  EXPECT_LE(half, full / 2 + 1) << "what is acknowledged after the notification adds a packet";
  const auto quarter = round_trip(true);
  EXPECT_LE(quarter, full / 4 + 2);
  EXPECT_EQ(notifications_, 3);
  EXPECT_EQ(a_.hca.counters().at(1).notifications_received, 3U);
  EXPECT_EQ(a_.hca.counters().at(1).drop_malformed, 0U);
  EXPECT_EQ(b_.hca.counters().at(1).notifications_sent, 3U);
  const auto eighth = round_trip(false);
  EXPECT_GT(round_trip(false), eighth);
  for (int i = 0; i < 1000 && a_.poll().empty(); ++i) (void)round_trip(false);
  EXPECT_EQ(b_.bytes(0, kBytes), a_.bytes(0, kBytes));
  EXPECT_EQ(a_.hca.counters().at(1).retries, 0U);
}

// With one packet in flight at last, each of which requests its acknowledgement.
TEST_F(CongestedTest, AllIsDoneAlthoughAllIsMarked) {
  constexpr std::size_t kBytes = 1 << 19;
  post_write(kBytes);
  std::size_t last = 0;
  int rounds = 0;
  for (; rounds < 1000 && a_.poll().empty(); ++rounds) {
    if (const auto in_flight = round_trip(true); in_flight != 0) last = in_flight;
  }
  EXPECT_LT(rounds, 1000);
  EXPECT_LE(last, 2U);
  EXPECT_EQ(b_.bytes(0, kBytes), a_.bytes(0, kBytes));
  EXPECT_EQ(a_.hca.counters().at(1).retries, 0U) << "nobody waited for a time-out";
}

TEST_F(CongestedTest, MarkedResponsesSlowTheReader) {
  constexpr std::size_t kBytes = 1 << 20;
  const auto wr = ConnectedHost::request(IBV_WR_RDMA_READ, b_.address(0), b_.all.key);
  ASSERT_EQ(a_.post(qa_, wr, {a_.part(0, kBytes)}), 0);
  const auto read = [&](bool marks) {
    deliver(sent_by(a_), b_, false);
    now_ += kRoundTrip;
    const auto responses = sent_by(b_);
    deliver(responses, a_, marks);
    return responses.size();
  };
  const auto full = read(true);
  std::size_t least = full;
  for (int i = 0; i < 4; ++i) least = std::min(least, read(true));
  EXPECT_LE(least, full / 4);
  for (int i = 0; i < 5000 && a_.poll().empty(); ++i) (void)read(false);
  EXPECT_EQ(a_.bytes(0, kBytes), b_.bytes(0, kBytes));
}

TEST_F(CongestedTest, ThereIsOneNotificationInAnInterval) {
  post_write(1 << 18);
  const auto data = sent_by(a_);
  for (const auto& packet : data) {
    deliver({packet}, b_, true);
    deliver(sent_by(b_), a_, false);
  }
  EXPECT_EQ(notifications_, 1);
}

TEST_F(CongestedTest, AfterResetMarksAndNotificationsOfTheOldConnectionAreForgotten) {
  const auto connect_again = [this] {
    a_.modify(qa_, IBV_QPS_RESET);
    b_.modify(qb_, IBV_QPS_RESET);
    connect(a_, qa_, qb_.number(), gid_of_ipv4(0x0a000002));
    connect(b_, qb_, qa_.number(), gid_of_ipv4(0x0a000001));
  };
  post_write(100);
  deliver(sent_by(a_), b_, true);
  connect_again();
  EXPECT_TRUE(sent_by(b_).empty()) << "nothing was marked since";
  for (std::uint64_t connections = 1; connections < 3; ++connections) {
    post_write(100);
    deliver(sent_by(a_), b_, true);
    deliver(sent_by(b_), a_, false);
    EXPECT_EQ(b_.hca.counters().at(1).notifications_sent, connections)
        << "also within the interval";
    connect_again();
  }
}

TEST_F(CongestedTest, ANotificationFromAnotherAddressIsDropped) {
  CongestionNotification packet;
  packet.bth.pkey = ipoib::kDefaultPKey;
  packet.bth.destination = qa_.number();
  auto& grh = packet.grh.emplace();
  grh.sgid = gid_of_ipv4(0x0a000009);
  grh.dgid = gid_of_ipv4(0x0a000001);
  std::vector<std::uint8_t> bytes(CongestionNotification::kSize);
  ASSERT_EQ(packet.emit(bytes), bytes.size());
  a_.hca.receive({bytes});
  EXPECT_EQ(a_.hca.counters().at(1).notifications_received, 0U);
  EXPECT_EQ(a_.hca.counters().at(1).drop_lid, 1U);
  packet.bth.destination = Qpn(0x777777);
  (void)packet.emit(bytes);
  a_.hca.receive({bytes});
  EXPECT_EQ(a_.hca.counters().at(1).drop_unknown_qp, 1U);
}

TEST_F(CongestedTest, APacketThatIsTooLongForThePathIsAnEvent) {
  sink_.longest = 512;
  post_write(100);
  (void)round_trip(false);
  EXPECT_EQ(a_.poll().size(), 1U);
  post_write(4096);
  (void)round_trip(false);
  const auto completions = a_.poll();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(qa_.state(), IBV_QPS_ERR);
  bool is_told = false;
  for (const auto& event : a_.hca.events()) {
    const auto* const async = std::get_if<AsyncEvent>(&event);
    is_told |= async != nullptr && async->type == IBV_EVENT_QP_FATAL && async->qp == &qa_;
  }
  EXPECT_TRUE(is_told);
}

TEST_F(CongestedTest, AResponseThatIsTooLongForThePathIsAnEvent) {
  const auto wr = ConnectedHost::request(IBV_WR_RDMA_READ, b_.address(0), b_.all.key);
  ASSERT_EQ(a_.post(qa_, wr, {a_.part(0, 4096)}), 0);
  deliver(sent_by(a_), b_, false);
  sink_.longest = 512;
  EXPECT_TRUE(sent_by(b_).empty());
  EXPECT_EQ(qb_.state(), IBV_QPS_ERR);
}

}  // namespace
}  // namespace softib::hca
