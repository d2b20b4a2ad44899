// The VLANs of a TAP, which is a pair of sockets here.
#include "linux/vlan_port.hpp"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <thread>

#include "linux/vlan_host.hpp"
#include "tests/unit/offload/packets.hpp"

namespace ipoib::linux {
namespace {

using namespace offload::test;
using ::testing::IsEmpty;

constexpr VlanId kRed{18};
constexpr VlanId kBlue{19};
constexpr std::size_t kHeadroom = 16;
constexpr std::size_t kEthernet = 14;
constexpr std::size_t kTagSize = 4;

class VlanPortTest : public ::testing::Test {
 protected:
  VlanPortTest() {
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair.data()), 0);
    kernel.reset(pair[0]);
    tap.reset(pair[1]);
    of_tap.expect_ethernet();
    of_tap.pass_vlans_to(trunk);
    trunk.attach(tap.get(), {.tcp = true, .udp = false});
  }

  /// A frame as the kernel passes it, with a tag of `vlan` unless that is nullopt.
  static Bytes frame_with(std::optional<VlanId> vlan, ConstBytes packet) {
    Bytes frame{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
    if (vlan) {
      frame.resize(frame.size() + kTagSize);
      wire::VlanTag{.priority = 3, .vlan = *vlan}.emit(&frame[12]);
    }
    frame.insert(frame.end(), {0x08, 0x00});
    frame.insert(frame.end(), packet.begin(), packet.end());
    return frame;
  }
  void from_kernel(const Bytes& frame, VirtioHeader header = {}) {
    const std::array pieces{iovec{&header, sizeof header},
                            iovec{const_cast<std::uint8_t*>(frame.data()), frame.size()}};
    ASSERT_GT(::writev(kernel.get(), pieces.data(), 2), 0);
  }
  std::vector<Frame> read_tap() {
    std::vector<Frame> out;
    of_tap.read(tap.get(), {packets, large}, kHeadroom, out, 32);
    return out;
  }
  std::vector<Frame> read(VlanPort& port) {
    std::vector<Frame> out;
    port.read({packets, large}, kHeadroom, out, 32);
    return out;
  }
  /// What was written to the TAP: header and frame.
  std::optional<std::pair<VirtioHeader, Bytes>> to_kernel() {
    VirtioHeader header;
    Bytes frame(70000);
    const std::array pieces{iovec{&header, sizeof header}, iovec{frame.data(), frame.size()}};
    const auto got = ::readv(kernel.get(), pieces.data(), 2);
    if (got < 0) return std::nullopt;
    frame.resize(static_cast<std::size_t>(got) - sizeof header);
    return std::pair(header, frame);
  }

  const Bytes packet = complete_packet({});
  FramePool packets{64, 2048};
  FramePool large{8, 70000};
  FileDescriptor kernel;
  FileDescriptor tap;
  VlanTrunk trunk{std::array{kRed, kBlue}};
  PacketReader of_tap;
};

TEST_F(VlanPortTest, FramesOfAVlanGoToItsPortWithoutTheTag) {
  VlanPort red(trunk, kRed, "ib0.18");
  VlanPort blue(trunk, kBlue, "ib0.19");
  from_kernel(frame_with(kRed, packet));
  EXPECT_THAT(read_tap(), IsEmpty());
  EXPECT_THAT(read(blue), IsEmpty());
  const auto got = read(red);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_TRUE(std::ranges::equal(got[0].bytes(), packet));
  EXPECT_EQ(got[0].headroom(), kHeadroom);
  const Bytes untagged = frame_with(std::nullopt, packet);
  EXPECT_TRUE(
      std::equal(untagged.begin(), untagged.begin() + kEthernet, got[0].bytes().data() - kEthernet))
      << "the Ethernet header lies before it";
  EXPECT_EQ(trunk.dropped(), 0U);
}

TEST_F(VlanPortTest, OtherFramesStayWithTheTap) {
  VlanPort red(trunk, kRed, "ib0.18");
  from_kernel(frame_with(std::nullopt, packet));
  from_kernel(frame_with(kNoVlan, packet));
  from_kernel(frame_with(VlanId(20), packet));
  const auto got = read_tap();
  ASSERT_EQ(got.size(), 3U);
  EXPECT_TRUE(std::ranges::equal(got[0].bytes(), packet));
  EXPECT_TRUE(std::ranges::equal(got[1].bytes(), packet)) << "a priority, but no VLAN";
  const auto header = wire::EthernetHeader::parse(got[2].bytes().data() - kEthernet);
  EXPECT_EQ(header.type, wire::VlanTag::kType) << "the view drops and counts it";
  EXPECT_THAT(read(red), IsEmpty());
}

TEST_F(VlanPortTest, LargePacketsOfAVlanStayLarge) {
  VlanPort red(trunk, kRed, "ib0.18");
  const PacketSpec spec{.payload = 30000};
  const Bytes whole = partial_packet(spec);
  const Segmentation how{Kind::tcp, 20, 52, 1000};
  from_kernel(frame_with(kRed, whole), moved_by(kEthernet + kTagSize, header_of(whole, how)));
  EXPECT_THAT(read_tap(), IsEmpty());
  const auto got = read(red);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].segmentation(), how);
  EXPECT_TRUE(std::ranges::equal(got[0].bytes(), whole));
}

TEST_F(VlanPortTest, PartialChecksumsAreCompleted) {
  VlanPort red(trunk, kRed, "ib0.18");
  from_kernel(frame_with(kRed, partial_packet({})),
              {.flags = virtio::kNeedsChecksum, .csum_start = 38, .csum_offset = 16});
  EXPECT_THAT(read_tap(), IsEmpty());
  const auto got = read(red);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_TRUE(has_valid_checksums(got[0].bytes(), {}));
  from_kernel(frame_with(kRed, packet), {.flags = virtio::kNeedsChecksum, .csum_start = 15});
  EXPECT_EQ(read_tap().size(), 1U)
      << "a header that does not fit: left to the view, which drops it";
  EXPECT_THAT(read(red), IsEmpty());
}

TEST_F(VlanPortTest, PacketsLeaveWithTheTag) {
  VlanPort red(trunk, kRed, "ib0.18");
  Bytes frame = frame_with(std::nullopt, packet);
  EXPECT_TRUE(red.write(ConstBytes(frame).subspan(kEthernet)));
  const auto got = to_kernel();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->first.flags, 0);
  EXPECT_EQ(got->first.csum_start, 0);
  Bytes expected = frame_with(kRed, packet);
  expected[14] = 0;  // no priority
  EXPECT_EQ(got->second, expected);
}

TEST_F(VlanPortTest, LargePacketsLeaveWithTheTag) {
  VlanPort red(trunk, kRed, "ib0.18");
  const Bytes whole = partial_packet({.payload = 30000});
  Bytes frame = frame_with(std::nullopt, whole);
  const ConstBytes bytes = ConstBytes(frame).subspan(kEthernet);
  EXPECT_TRUE(red.write_large(std::array{bytes.first(2000), bytes.subspan(2000)},
                              {Kind::tcp, 20, 52, 1000}));
  const auto got = to_kernel();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->first.csum_start, 20 + kEthernet + kTagSize);
  EXPECT_EQ(got->first.hdr_len, 52 + kEthernet + kTagSize);
  EXPECT_EQ(got->first.gso_size, 1000);
  Bytes expected = frame_with(kRed, whole);
  expected[14] = 0;
  EXPECT_EQ(got->second, expected);
}

TEST_F(VlanPortTest, FramesThatNobodyReadsAreDroppedAndCounted) {
  from_kernel(frame_with(kRed, packet));
  EXPECT_THAT(read_tap(), IsEmpty());
  EXPECT_EQ(trunk.dropped(), 1U) << "the interface does not exist";
  VlanPort red(trunk, kRed, "ib0.18");
  EXPECT_THAT(read(red), IsEmpty());
  std::size_t sent = 0;
  for (; trunk.dropped() == 1 && sent < 100'000; ++sent) {
    from_kernel(frame_with(kRed, packet));
    EXPECT_THAT(read_tap(), IsEmpty());
  }
  EXPECT_EQ(trunk.dropped(), 2U) << "the queue is full";
  std::size_t received = 0;
  for (auto got = read(red); !got.empty(); got = read(red)) received += got.size();
  EXPECT_EQ(received, sent - 1);
}

TEST_F(VlanPortTest, AReadPassesALimitedNumberOfFramesOn) {
  VlanPort red(trunk, kRed, "ib0.18");
  for (int i = 0; i < 80; ++i) from_kernel(frame_with(kRed, packet));
  std::vector<Frame> out;
  EXPECT_TRUE(of_tap.read(tap.get(), {packets, large}, kHeadroom, out, 1)) << "there is more";
  EXPECT_THAT(out, IsEmpty());
  std::size_t passed = 0;
  for (auto got = read(red); !got.empty(); got = read(red)) passed += got.size();
  EXPECT_EQ(passed, 64U);
  EXPECT_FALSE(of_tap.read(tap.get(), {packets, large}, kHeadroom, out, 1));
  EXPECT_EQ(read(red).size(), 16U);
  EXPECT_EQ(trunk.dropped(), 0U);
}

TEST_F(VlanPortTest, AnInterfaceBeginsWithAnEmptyQueue) {
  {
    const VlanPort before(trunk, kRed, "ib0.18");
    from_kernel(frame_with(kRed, packet));
    EXPECT_THAT(read_tap(), IsEmpty());
  }
  VlanPort red(trunk, kRed, "ib0.18");
  EXPECT_THAT(read(red), IsEmpty());
}

TEST_F(VlanPortTest, TheTapMayDisappear) {
  VlanPort red(trunk, kRed, "ib0.18");
  EXPECT_TRUE(red.is_up());
  EXPECT_TRUE(red.accepts(Kind::tcp));
  EXPECT_FALSE(red.accepts(Kind::udp));
  EXPECT_EQ(trunk.tap(), tap.get());
  trunk.detach(tap.get() + 1000);
  EXPECT_TRUE(red.is_up()) << "of another TAP";
  trunk.detach(tap.get());
  EXPECT_FALSE(red.is_up());
  EXPECT_FALSE(red.is_gone()) << "it may come back";
  EXPECT_FALSE(red.accepts(Kind::tcp));
  EXPECT_LT(trunk.tap(), 0);
  Bytes frame = frame_with(std::nullopt, packet);
  EXPECT_FALSE(red.write(ConstBytes(frame).subspan(kEthernet)));
  EXPECT_FALSE(to_kernel());
  trunk.attach(tap.get(), {});
  EXPECT_TRUE(red.write(ConstBytes(frame).subspan(kEthernet)));
}

TEST_F(VlanPortTest, ThreadsWriteWhileTheTapComesAndGoes) {
  VlanPort red(trunk, kRed, "ib0.18");
  VlanPort blue(trunk, kBlue, "ib0.19");
  std::atomic<bool> stop = false;
  std::array<std::uint64_t, 2> written{};
  const auto write = [&](VlanPort& port, std::uint64_t& count) {
    const Bytes frame = frame_with(std::nullopt, packet);
    while (!stop) count += port.write(ConstBytes(frame).subspan(kEthernet)) ? 1 : 0;
  };
  std::vector<std::thread> threads;
  threads.emplace_back(write, std::ref(red), std::ref(written[0]));
  threads.emplace_back(write, std::ref(blue), std::ref(written[1]));
  std::map<VlanId, std::uint64_t> arrived;
  for (int i = 0; i < 200; ++i) {
    trunk.detach(tap.get());
    while (const auto got = to_kernel()) ++arrived[wire::VlanTag::parse(got->second)->vlan];
    EXPECT_FALSE(to_kernel()) << "nothing is written without a TAP";
    trunk.attach(tap.get(), {});
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  while (const auto got = to_kernel()) ++arrived[wire::VlanTag::parse(got->second)->vlan];
  EXPECT_EQ(arrived[kRed], written[0]);
  EXPECT_EQ(arrived[kBlue], written[1]);
}

TEST(VlanHostTest, HasAMacAndNoAddresses) {
  VlanHost host("ib0.18", MacAddress(0x0200'0000'0001));
  const auto first = host.update();
  ASSERT_TRUE(first && first->has_value());
  EXPECT_EQ(**first, HostView{.mac = MacAddress(0x0200'0000'0001)});
  const auto second = host.update();
  EXPECT_TRUE(second && !second->has_value()) << "nothing changes";
  EXPECT_TRUE(host.interface_exists());
  EXPECT_EQ(host.take_events(), HostMirror::Pending::none);
  EXPECT_EQ(host.interface_name(), "ib0.18");
}

}  // namespace
}  // namespace ipoib::linux
