// Two queue pairs on one port: of an HCA of softib, whose subnet is a file.
#pragma once

#include <gmock/gmock.h>
#include <poll.h>

#include <numeric>

#include "ipoib/log.hpp"
#include "ipoib/pkey_table.hpp"
#include "test_subnet.hpp"
#include "verbs/async_events.hpp"
#include "verbs/ud_queue_pair.hpp"
#include "wire/checksum.hpp"
#include "wire/encapsulation.hpp"
#include "wire/ipv4.hpp"
#include "wire/transport.hpp"

namespace ipoib::verbs {

inline constexpr std::uint32_t kMaxMtu = 4096;
inline constexpr std::size_t kLargeFrame = 65664;
inline constexpr QKey kQKey{0x0b1b};
inline constexpr int kPatience = 20'000;  // milliseconds per condition

inline bool wait_readable(int fd, int patience = kPatience) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, patience) == 1;
}

inline AddressVector vector_to(Lid lid) { return {lid, {}, 0, 0, {}}; }

/// A queue pair with a pool to send from.
struct Side {
  Side(const Device& device, Logger& log, const QueueDepths& depths, std::uint16_t pkey_index)
      : pool(256, kMaxMtu + 64),
        large_pool(4, kLargeFrame),
        qp(UdQueuePair::create(device, kMaxMtu, depths, log).value()),
        attributes{pkey_index, kQKey} {
    qp->register_pool(pool).value();
    qp->register_pool(large_pool).value();
    qp->configure(attributes).value();
  }

  Outgoing datagram(const AddressHandlePtr& to, Qpn qpn, std::size_t size, std::uint8_t seed) {
    Outgoing out{to, qpn, pool.take()};
    out.frame.window(0, size);
    const auto bytes = out.frame.bytes();
    std::iota(bytes.begin(), bytes.end(), seed);
    return out;
  }
  Outgoing large(const AddressHandlePtr& to, Qpn qpn) { return {to, qpn, large_pool.take()}; }
  std::size_t send(Outgoing datagram) { return qp->send(std::span(&datagram, 1)); }

  /// Waits for `count` datagrams, sleeping on the completion channel.
  std::vector<Incoming> receive(std::size_t count) {
    std::vector<Incoming> out;
    while (true) {
      qp->receive(out, count - out.size());
      if (out.size() >= count) return out;
      qp->arm();
      qp->receive(out, count - out.size());
      if (out.size() >= count) return out;
      if (!wait_readable(qp->descriptor())) return out;
      qp->acknowledge_events();
    }
  }
  /// Waits until all sends that will have a completion have one (failed sends always have one).
  void settle(bool fails = false) {
    const auto is_settled = [&] {
      return fails ? qp->is_broken() : qp->send_progress().in_flight < kSignalPeriod;
    };
    std::vector<Incoming> ignored;
    while (!is_settled()) {
      qp->arm();
      qp->receive(ignored, 64);
      if (!is_settled() && !wait_readable(qp->descriptor())) break;
      qp->acknowledge_events();
    }
  }

  FramePool pool;
  FramePool large_pool;
  std::unique_ptr<UdQueuePair> qp;
  UdAttributes attributes;
};

/// Makes a large packet of TCP over IPv4: `size` bytes of payload in segments of 1000.
inline Outgoing large_tcp(Outgoing datagram, std::uint16_t size) {
  constexpr std::uint16_t kTransport = wire::kEncapsulationSize + wire::Ipv4Header::kMinimumSize;
  constexpr std::uint16_t kHeaders = kTransport + wire::tcp::kMinimumSize;
  datagram.frame.window(0, std::size_t{kHeaders} + size);
  const auto bytes = datagram.frame.bytes();
  ByteWriter writer(bytes);
  writer.u32(0x08000000);
  writer.u16(0x4500);
  writer.u16(static_cast<std::uint16_t>(bytes.size() - wire::kEncapsulationSize));
  writer.u32(0x00010000);
  writer.u32(0x40060000);
  writer.u32(0x0a000001);
  writer.u32(0x0a000002);
  writer.u32(0x12341388);
  writer.u32(0);
  writer.u32(0);
  writer.u32(0x50100400);
  // The checksum field starts with the sum of the pseudo-header.
  writer.u16(wire::InternetChecksum()
                 .add_pseudo_header(Ipv4Address({10, 0, 0, 1}), Ipv4Address({10, 0, 0, 2}),
                                    wire::kTcp,
                                    static_cast<std::uint16_t>(bytes.size() - kTransport))
                 .sum());
  writer.u16(0);
  std::iota(bytes.begin() + kHeaders, bytes.end(), std::uint8_t{0});
  datagram.frame.set_segmentation({Segmentation::Kind::tcp, kTransport, kHeaders, 1000});
  return datagram;
}

class UdQueuePairTest : public ::testing::Test {
 protected:
  void SetUp() override {
    static const softib::test::TestSubnet subnet(1);  // for all tests: a process has one endpoint
    subnet.enter("host1");
    auto opened = Device::open("", 1);
    ASSERT_TRUE(opened) << opened.error().message;
    device_.emplace(std::move(*opened));
    auto events = AsyncEventReader::open(*device_).value();
    while (!(port_ = device_->query().value()).active) {
      ASSERT_TRUE(wait_readable(events.descriptor())) << "the port does not become active";
      while (events.next()) {
      }
    }
    const auto partition = find_partition(port_.pkeys, kDefaultPKey);
    ASSERT_TRUE(partition);
    pkey_index_ = partition->index;
    make_sides({});
  }
  void TearDown() override { handle_.reset(); }

  void make_sides(const QueueDepths& depths) {
    handle_.reset();
    a_.emplace(*device_, log_, depths, pkey_index_);
    b_.emplace(*device_, log_, depths, pkey_index_);
    handle_ = a_->qp->create_address_handle(vector_to(port_.lid)).value();
  }
  Outgoing to_b(std::size_t size, std::uint8_t seed) {
    return a_->datagram(handle_, b_->qp->qpn(), size, seed);
  }
  void expect_connected() {
    ASSERT_EQ(a_->send(to_b(100, 3)), 1U);
    const auto got = b_->receive(1);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0].frame.size(), 100U);
  }

  Logger log_{"test"};
  std::optional<Device> device_;
  PortSnapshot port_;
  std::uint16_t pkey_index_ = 0;
  std::optional<Side> a_;
  std::optional<Side> b_;
  AddressHandlePtr handle_;
};

}  // namespace ipoib::verbs
