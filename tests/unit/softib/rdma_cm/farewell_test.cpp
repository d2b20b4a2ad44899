#include "softib/rdma_cm/farewell.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "softib/cm/connection.hpp"
#include "softib/core/ip_gid.hpp"

namespace softib::rdma_cm {
namespace {

constexpr std::uint32_t kOurs = 0x0a2c0001;
constexpr std::uint32_t kTheirs = 0x0a2c0002;

IdStatus connected(std::string_view state) {
  const auto found = std::ranges::find(cm::kConnectionStates, state);
  IdStatus id;
  id.handle = IdHandle(7);
  id.state = IdState::connect;
  id.connection = static_cast<std::uint8_t>(found - cm::kConnectionStates.begin());
  id.source = IpEndpoint{ipoib::Ipv4Address(kOurs), 4000};
  id.destination = IpEndpoint{ipoib::Ipv4Address(kTheirs), 5000};
  id.local_id = CommId(0x0100'0003);
  id.remote_id = CommId(0x0200'0004);
  id.qpn = Qpn(0x40'0001);
  id.remote_qpn = Qpn(0x80'0002);
  return id;
}

std::vector<MadPacket> farewells_of(const IdStatus& id) {
  const auto words = id.words();
  return farewells(std::span(&words, 1));
}

TEST(Farewell, EndsAConnectionInTheNameOfItsProcess) {
  const auto packets = farewells_of(connected("Established"));
  ASSERT_EQ(packets.size(), 1U);
  const auto& packet = packets.front();
  ASSERT_TRUE(packet.grh);
  EXPECT_EQ(packet.grh->sgid, gid_of_ipv4(kOurs));
  EXPECT_EQ(packet.grh->dgid, gid_of_ipv4(kTheirs));
  EXPECT_EQ(packet.destination, Qpn(1));
  const auto mad = wire::CmMad::parse(packet.mad);
  ASSERT_TRUE(mad);
  const auto* const dreq = std::get_if<wire::CmDreq>(&mad->message);
  ASSERT_NE(dreq, nullptr);
  EXPECT_EQ(dreq->local_id, CommId(0x0100'0003));
  EXPECT_EQ(dreq->remote_id, CommId(0x0200'0004));
  EXPECT_EQ(dreq->remote_qpn, Qpn(0x80'0002));
}

TEST(Farewell, IsForPeersThatDoNotKnowTheEnd) {
  for (const auto state : {"RepSent", "DreqSent", "DreqReceived"}) {
    EXPECT_EQ(farewells_of(connected(state)).size(), 1U) << state;
  }
  for (const auto state : {"ReqSent", "ReqReceived", "RepReceived", "TimeWait", "Ended"}) {
    EXPECT_TRUE(farewells_of(connected(state)).empty()) << state;
  }
}

// The table is in a file that other processes may write.
TEST(Farewell, LeavesOutWhatIsNoConnection) {
  auto id = connected("Established");
  id.remote_id = CommId();
  EXPECT_TRUE(farewells_of(id).empty());
  id = connected("Established");
  id.destination = {};
  EXPECT_TRUE(farewells_of(id).empty());
  id = connected("Established");
  id.connection.reset();
  EXPECT_TRUE(farewells_of(id).empty());
  IdStatus::Words words{};
  words.fill(~std::uint64_t{0});
  EXPECT_TRUE(farewells(std::span(&words, 1)).empty());
}

}  // namespace
}  // namespace softib::rdma_cm
