#include "softib/endpoint/mad_receivers.hpp"

#include <gmock/gmock.h>

#include <functional>

#include "wire/cm_messages.hpp"

namespace softib::endpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
namespace mgmt_class = ipoib::wire::mgmt_class;

/// Stores the management classes of what it takes.
struct Receiver final : MadReceiver {
  bool receive_mad(const MadPacket& packet) override {
    offered.push_back(packet.mad[1]);
    if (on_mad) on_mad();
    return takes;
  }
  void device_lost() override { ++losses; }

  bool takes = true;
  std::vector<int> offered;
  int losses = 0;
  std::function<void()> on_mad;
};

class MadReceiversTest : public ::testing::Test {
 protected:
  bool deliver(std::uint8_t management_class) {
    ipoib::wire::MadHeader header;
    header.management_class = management_class;
    MadPacket packet;
    header.emit(packet.mad);
    return receivers.deliver(packet);
  }

  MadReceivers receivers;
  Receiver all;
  Receiver cm;
};

TEST_F(MadReceiversTest, EachClassHasItsReceiver) {
  Receiver sa;
  receivers.add(all, {});
  receivers.add(cm, {mgmt_class::kCommMgt});
  receivers.add(sa, {mgmt_class::kSubnAdm, mgmt_class::kPerf});
  for (const int each :
       {mgmt_class::kCommMgt, mgmt_class::kSubnAdm, mgmt_class::kPerf, mgmt_class::kSubnLid}) {
    EXPECT_TRUE(deliver(static_cast<std::uint8_t>(each)));
  }
  EXPECT_THAT(cm.offered, ElementsAre(mgmt_class::kCommMgt));
  EXPECT_THAT(sa.offered, ElementsAre(mgmt_class::kSubnAdm, mgmt_class::kPerf));
  EXPECT_THAT(all.offered, ElementsAre(mgmt_class::kSubnLid));
}

TEST_F(MadReceiversTest, WhatAReceiverDoesNotTakeIsForTheOthers) {
  Receiver second;
  receivers.add(cm, {mgmt_class::kCommMgt});
  receivers.add(second, {mgmt_class::kCommMgt});
  receivers.add(all, {});
  cm.takes = false;
  EXPECT_TRUE(deliver(mgmt_class::kCommMgt));
  EXPECT_THAT(second.offered, ElementsAre(mgmt_class::kCommMgt));
  EXPECT_THAT(all.offered, IsEmpty());
  second.takes = false;
  EXPECT_TRUE(deliver(mgmt_class::kCommMgt));
  EXPECT_THAT(all.offered, ElementsAre(mgmt_class::kCommMgt));
  all.takes = false;
  EXPECT_FALSE(deliver(mgmt_class::kCommMgt));
}

TEST_F(MadReceiversTest, NobodyTakesAClassThatNobodyIsRegisteredFor) {
  EXPECT_FALSE(deliver(mgmt_class::kPerf));
  receivers.add(cm, {mgmt_class::kCommMgt});
  EXPECT_FALSE(deliver(mgmt_class::kPerf));
  EXPECT_THAT(cm.offered, IsEmpty());
}

TEST_F(MadReceiversTest, ARemovedReceiverGetsNothing) {
  receivers.add(cm, {mgmt_class::kCommMgt});
  EXPECT_TRUE(receivers.has(cm));
  receivers.remove(cm);
  EXPECT_FALSE(receivers.has(cm));
  EXPECT_FALSE(deliver(mgmt_class::kCommMgt));
}

TEST_F(MadReceiversTest, AReceiverMayRemoveItself) {
  Receiver next;
  receivers.add(cm, {mgmt_class::kCommMgt});
  receivers.add(next, {mgmt_class::kCommMgt});
  cm.takes = false;
  cm.on_mad = [&] { receivers.remove(cm); };
  EXPECT_TRUE(deliver(mgmt_class::kCommMgt));
  EXPECT_THAT(next.offered, ElementsAre(mgmt_class::kCommMgt));
}

TEST_F(MadReceiversTest, EachReceiverLearnsOnceThatTheDeviceIsLost) {
  receivers.add(all, {});
  receivers.report_loss();
  receivers.add(cm, {mgmt_class::kCommMgt});
  receivers.report_loss();
  EXPECT_EQ(all.losses, 1);
  EXPECT_EQ(cm.losses, 1);
}

}  // namespace
}  // namespace softib::endpoint
