// What the subnet process answers in the name of nodes on which nobody wants a message of class 7.
#include "softib/subnet/cm_refusals.hpp"

#include "sa_client.hpp"
#include "wire/cm_messages.hpp"

namespace softib::subnet {
namespace {

using namespace ipoib::wire;

class CmRefusals : public ::testing::Test {
 protected:
  /// A message from `a` to `b`.
  MadPacket packet_with(const CmMessage& message, PKey pkey = ipoib::kDefaultPKey) {
    MadPacket packet;
    packet.slid = a.port().lid;
    packet.dlid = b.port().lid;
    packet.pkey = pkey;
    packet.source = packet.destination = kGsiQpn;
    packet.qkey = kGsiQKey;
    CmMad{kTransaction, message}.emit(packet.mad);
    return packet;
  }
  /// What comes back for it.
  std::optional<CmMessage> answer(const CmMessage& message, PKey pkey = ipoib::kDefaultPKey) {
    subnet.receive(packet_with(message, pkey), kStart);
    const auto out = subnet.take_outgoing();
    if (out.size() != 1) return std::nullopt;
    EXPECT_EQ(out[0].dlid, a.port().lid);
    EXPECT_EQ(out[0].slid, b.port().lid);
    EXPECT_EQ(out[0].pkey, pkey);
    const auto mad = CmMad::parse(out[0].mad);
    EXPECT_EQ(mad->transaction_id, kTransaction);
    return mad->message;
  }

  static constexpr std::uint64_t kTransaction = 0x1234;
  static constexpr CommId kHere{0x0903'0001};
  static constexpr CommId kThere{0x0a04'0002};
  Subnet subnet;
  SaClient a{subnet, "a"};
  SaClient b{subnet, "b"};
};

TEST_F(CmRefusals, RequestsForAServiceThatNobodyHas) {
  CmReq req;
  req.local_id = kHere;
  const auto rej = std::get<CmRej>(answer(req).value());
  EXPECT_EQ(rej.remote_id, kHere);
  EXPECT_EQ(rej.local_id, CommId());
  EXPECT_EQ(rej.subject, CmSubject::req);
  EXPECT_EQ(rej.reason, CmRejReason::invalid_service_id);
  CmSidrReq sidr;
  sidr.request_id = kHere;
  sidr.service_id = ServiceId(7);
  const auto rep = std::get<CmSidrRep>(answer(sidr).value());
  EXPECT_EQ(rep.request_id, kHere);
  EXPECT_EQ(rep.service_id, ServiceId(7));
  EXPECT_EQ(rep.status, CmSidrStatus::unsupported_service);
  EXPECT_EQ(subnet.counters().refused, 0U) << "of MADs with a status";
}

TEST_F(CmRefusals, MessagesOfConnectionsWhoseProcessHasGone) {
  CmRep rep;
  rep.local_id = kHere;
  rep.remote_id = kThere;
  const auto rej = std::get<CmRej>(answer(rep).value());
  EXPECT_EQ(rej.remote_id, kHere);
  EXPECT_EQ(rej.local_id, kThere);
  EXPECT_EQ(rej.subject, CmSubject::rep);
  EXPECT_EQ(rej.reason, CmRejReason::invalid_comm_id);
  CmDreq dreq;
  dreq.local_id = kHere;
  dreq.remote_id = kThere;
  const auto drep = std::get<CmDrep>(answer(dreq).value());
  EXPECT_EQ(drep.remote_id, kHere);
  EXPECT_EQ(drep.local_id, kThere);
  CmLap lap;
  lap.local_id = kHere;
  EXPECT_EQ(std::get<CmApr>(answer(lap).value()).status, CmApr::kInvalidCommId);
}

TEST_F(CmRefusals, AnswersAreNotAnswered) {
  for (const CmMessage& message :
       {CmMessage(CmMra()), CmMessage(CmRej()), CmMessage(CmRtu()), CmMessage(CmDrep()),
        CmMessage(CmSidrRep()), CmMessage(CmApr())}) {
    EXPECT_FALSE(answer(message)) << message.index();
  }
  EXPECT_EQ(subnet.counters().drop_response, 6U);
}

/// The SM need not be in the partition of the two.
TEST_F(CmRefusals, ThePartitionIsThatOfTheNode) {
  const PKey pkey(0x8012);
  EXPECT_FALSE(answer(CmReq(), pkey));
  EXPECT_EQ(subnet.counters().drop_pkey, 1U);
  ASSERT_TRUE(subnet.set_membership(subnet.find("b").value(), pkey, Membership::full));
  EXPECT_TRUE(answer(CmReq(), pkey));
}

TEST_F(CmRefusals, AMessageForAnotherGidIsNotAnswered) {
  MadPacket packet = packet_with(CmReq());
  for (const auto& [gid, answers] : {std::pair{b.gid(), 1U}, std::pair{a.gid(), 0U}}) {
    packet.grh = Grh();
    packet.grh->sgid = a.gid();
    packet.grh->dgid = gid;
    subnet.receive(packet, kStart);
    EXPECT_EQ(subnet.take_outgoing().size(), answers);
  }
  EXPECT_EQ(subnet.counters().drop_gid, 1U);
}

TEST_F(CmRefusals, APortThatIsDownAnswersNothing) {
  ASSERT_TRUE(subnet.set_port_state(subnet.find("b").value(), PortState::down));
  EXPECT_FALSE(answer(CmReq()));
  EXPECT_EQ(subnet.counters().drop_destination, 1U);
}

}  // namespace
}  // namespace softib::subnet
