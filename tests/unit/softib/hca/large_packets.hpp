// Large packets on the wire, and HCAs that receive them.
#pragma once

#include "datagrams.hpp"
#include "hca_fixture.hpp"
#include "softib/core/large_packet.hpp"

namespace softib::hca {

using namespace test;

inline constexpr std::uint16_t kSegmentSize = 500;  // bytes of payload per segment
inline constexpr std::size_t kPayload = 2100;       // of all five segments
inline constexpr std::uint16_t kSegmentCount = 5;
inline constexpr std::size_t kReceiveSize = 1024;  // bytes per receive

/// A copy of a packet on the wire.
struct StoredPacket {
  [[nodiscard]] ArrivedPacket arrived() const { return {bytes, checksums_valid, gso}; }
  [[nodiscard]] std::vector<Bytes> packets() const {
    std::vector<Bytes> out;
    for_each_packet(arrived(),
                    [&](ConstBytes each) { out.emplace_back(each.begin(), each.end()); });
    return out;
  }
  Bytes bytes;
  bool checksums_valid = false;
  GsoInfo gso;
};

struct LastSink : PacketSink {
  void send(std::span<const OutgoingPacket> batch) override {
    ASSERT_EQ(batch.size(), 1U);
    last.bytes.resize(batch[0].size());
    write_packet(batch[0], last.bytes.data());
    last.checksums_valid = batch[0].checksums_valid;
    last.gso = batch[0].gso;
    bytes = segmented_size(batch[0]);
  }
  StoredPacket last;
  std::size_t bytes = 0;  ///< of all its segments
};

/// An HCA that receives.
struct Receiver : Host {
  Receiver() : Host(6), qp(make_qp()) {}
  void post(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_EQ(receive_into(qp, i * kReceiveSize, kReceiveSize, i), 0);
  }
  QueuePair& qp;
};

class LargePackets : public testing::Test {
 protected:
  StoredPacket sent(const Shape& shape, AddressHandle& to, unsigned flags = IBV_SEND_IP_CSUM) {
    auto header = tso_headers(shape);
    std::iota(a.memory.begin(), a.memory.end(), std::uint8_t{7});
    auto sge = a.element(0, kPayload);
    auto wr = a.send_request(to, whole.qp.number(), sge);
    wr.opcode = IBV_WR_TSO;
    wr.send_flags = flags;
    wr.tso = {header.data(), static_cast<std::uint16_t>(header.size()), kSegmentSize};
    auto config = a.config();
    config.max_tso_header = 128;
    EXPECT_EQ(a.send(a.make_qp(IBV_QPS_RTS, config), wr, sink), 0);
    EXPECT_EQ(sink.last.gso.size, kSegmentSize);
    EXPECT_EQ(sink.last.gso.packets, kSegmentCount);
    return sink.last;
  }
  StoredPacket sent() { return sent({"", 4, kTcp, 0}, a.handle(6)); }
  Host a{5};
  LastSink sink;
  Receiver whole;
  Receiver one_by_one;
};

}  // namespace softib::hca
