#include "softib/hca/events.hpp"

#include "hca_fixture.hpp"

namespace softib::hca {
namespace {

using Types = std::vector<ibv_event_type>;

TEST(PortEvents, EachDifferenceRaisesAnEvent) {
  const auto before = make_port(5);
  auto now = before;
  EXPECT_EQ(port_events(before, now), Types{});
  now.state = PortState::armed;
  EXPECT_EQ(port_events(before, now), Types{IBV_EVENT_PORT_ERR});
  EXPECT_EQ(port_events(now, before), Types{IBV_EVENT_PORT_ACTIVE});
  now = before;
  now.lid = Lid(7);
  EXPECT_EQ(port_events(before, now), Types{IBV_EVENT_LID_CHANGE});
  now = before;
  now.gid_prefix = 0xfec0'0000'0000'0000;
  EXPECT_EQ(port_events(before, now), Types{IBV_EVENT_GID_CHANGE});
  now = before;
  now.pkeys[5] = PKey(0x8001);
  EXPECT_EQ(port_events(before, now), Types{IBV_EVENT_PKEY_CHANGE});
  now = before;
  now.sm_lid = Lid(2);
  EXPECT_EQ(port_events(before, now), Types{IBV_EVENT_SM_CHANGE});
  now = before;
  now.sm_sl = ServiceLevel(1);
  EXPECT_EQ(port_events(before, now), Types{IBV_EVENT_SM_CHANGE});
  now = before;
  now.reregister_count = 1;
  EXPECT_EQ(port_events(before, now), Types{IBV_EVENT_CLIENT_REREGISTER});
}

TEST(PortEvents, APortThatWasLostMeanwhileHasFailedAndIsActiveAgain) {
  const auto before = make_port(5);
  auto now = before;
  now.set_state(PortState::armed);
  now.set_state(PortState::active);
  EXPECT_EQ(port_events(before, now), (Types{IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE}));
  auto down = before;
  down.set_state(PortState::down);
  now = down;
  now.set_state(PortState::active);
  now.set_state(PortState::down);
  EXPECT_EQ(port_events(down, now), Types{}) << "nothing was lost";
}

TEST(PortEvents, PortActiveComesAfterOtherChanges) {
  auto before = make_port(5);
  auto now = before;
  before.state = PortState::down;
  before.lid = Lid(0);
  now.reregister_count = 1;
  EXPECT_EQ(port_events(before, now),
            (Types{IBV_EVENT_LID_CHANGE, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_CLIENT_REREGISTER}));
}

using HcaEventsTest = HcaTest;

TEST_F(HcaEventsTest, PortChangeRaisesEvents) {
  auto port = a.hca.ports()[1];
  port.lid = Lid(9);
  a.hca.set_port(port);
  EXPECT_EQ(a.async_events(), Types{IBV_EVENT_LID_CHANGE});
  EXPECT_EQ(a.hca.ports()[1].lid, Lid(9));
  a.hca.clear_events();
  a.hca.set_port(port);
  EXPECT_TRUE(a.hca.events().empty());
}

TEST_F(HcaEventsTest, PortFailureIsFatalForTheDevice) {
  auto& qp = a.make_qp();
  ASSERT_EQ(a.receive_into(qp, 0, 100), 0);
  auto& shared = a.hca.shared_receives();
  auto& queue = **shared.create({.pd = a.pd, .attributes = {8, 1, 0}});
  auto port = a.hca.ports()[1];
  port.failed = true;
  port.state = PortState::down;
  a.hca.set_port(port);
  EXPECT_EQ(a.async_events(), Types{IBV_EVENT_DEVICE_FATAL}) << "no other events";
  EXPECT_TRUE(a.hca.ports()[1].failed);
  EXPECT_EQ(a.poll().at(0).status, IBV_WC_WR_FLUSH_ERR);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  EXPECT_EQ(a.hca.modify(qp, attr, IBV_QP_STATE).error().code, EIO);
  EXPECT_EQ(a.hca.create_queue_pair(a.config()).error().code, EIO);
  EXPECT_EQ(a.hca.create_completion_queue(8).error().code, EIO);
  EXPECT_EQ(a.hca.create_protection_domain().error().code, EIO);
  EXPECT_EQ(shared.create({.pd = a.pd, .attributes = {8, 1, 0}}).error().code, EIO);
  EXPECT_EQ(shared.modify(queue, {8, 1, 4}, IBV_SRQ_LIMIT).error().code, EIO);
  const auto address = std::bit_cast<std::uint64_t>(a.memory.data());
  EXPECT_EQ(a.hca.register_memory(*a.pd, a.memory.data(), 8, address, 0).error().code, EIO);
  // Existing objects can be destroyed; later changes of the port are ignored.
  EXPECT_TRUE(a.hca.destroy(qp));
  a.hca.clear_events();
  port.failed = false;
  ++port.generation;
  port.state = PortState::active;
  a.hca.set_port(port);
  EXPECT_TRUE(a.hca.events().empty());
  EXPECT_EQ(a.hca.ports()[1].state, PortState::down);
}

/// It was not looked at while it had failed.
TEST_F(HcaEventsTest, AnHcaThatHasFailedAndRecoveredIsLost) {
  auto port = a.hca.ports()[1];
  ++port.generation;
  a.hca.set_port(port);
  EXPECT_EQ(a.async_events(), std::vector<ibv_event_type>{IBV_EVENT_DEVICE_FATAL});
}

TEST_F(HcaEventsTest, SolicitedSendRaisesASolicitedOnlyEvent) {
  auto& from = a.make_qp();
  auto& to = b.make_qp();
  ASSERT_EQ(b.receive_into(to, 0, 100), 0);
  ASSERT_EQ(b.receive_into(to, 0, 100), 0);
  EXPECT_FALSE(a.cq->arm(true) || b.cq->arm(true));
  auto sge = a.element(0, 4);
  auto wr = a.send_request(a.handle(6), to.number(), sge);
  ASSERT_EQ(a.send(from, wr, sink), 0);
  deliver();
  EXPECT_EQ(b.completion_events(), 0U);
  wr.send_flags |= IBV_SEND_SOLICITED;
  ASSERT_EQ(a.send(from, wr, sink), 0);
  deliver();
  EXPECT_EQ(b.completion_events(), 1U);
  EXPECT_EQ(a.completion_events(), 0U) << "only receives are solicited";
}

TEST_F(HcaEventsTest, EventsOfADestroyedObjectAreDiscarded) {
  auto config = a.config();
  auto& cq = **a.hca.create_completion_queue(8);
  config.send_cq = &cq;
  auto& qp = a.make_qp(IBV_QPS_RTS, config);
  auto attr = attributes(IBV_QPS_SQD);
  attr.en_sqd_async_notify = 1;
  EXPECT_FALSE(cq.arm(false));
  auto sge = a.element(0, 4);
  auto wr = a.send_request(a.handle(6), Qpn(0x10000), sge);
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  ASSERT_TRUE(a.hca.modify(qp, attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
  EXPECT_EQ(a.hca.events().size(), 2U);
  ASSERT_TRUE(a.hca.destroy(qp));
  EXPECT_EQ(a.hca.events().size(), 1U);
  ASSERT_TRUE(a.hca.destroy(cq));
  EXPECT_TRUE(a.hca.events().empty());
}

TEST_F(HcaEventsTest, AreBounded) {
  auto port = a.hca.ports()[1];
  for (std::size_t i = 0; i < kMaxPendingEvents + 3; ++i) {
    ++port.reregister_count;
    a.hca.set_port(port);
  }
  EXPECT_EQ(a.hca.events().size(), kMaxPendingEvents);
  EXPECT_EQ(a.hca.counters().lost_events, 3U);
}

}  // namespace
}  // namespace softib::hca
