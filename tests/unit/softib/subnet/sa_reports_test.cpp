// Subscriptions and reports (IBA 13.4.9, 13.4.11): traps 64 to 67.
#include "softib/subnet/sa_reports.hpp"

#include "sa_client.hpp"
#include "wire/notice.hpp"

namespace softib::subnet {
namespace {

using ipoib::wire::InformInfo;
using ipoib::wire::Notice;
using ipoib::wire::SaHeader;
using ipoib::wire::SaStatus;
namespace attribute = ipoib::wire::attribute;
namespace method = ipoib::wire::method;

class SubnetReports : public ::testing::Test {
 protected:
  SaStatus subscribe(SaClient& client, std::uint16_t trap, bool on = true) {
    InformInfo info;
    info.type = Notice::kSubnetManagement;
    info.trap_number = trap;
    info.producer_type = Notice::kClassManager;
    info.subscribe = on;
    if (!on) info.qpn = ipoib::wire::kGsiQpn;
    return client.send_request(method::kSet, attribute::kInformInfo, 0, info)->status();
  }
  SaStatus change(SaClient& client, std::uint8_t how) {
    const auto header = client.header(how, attribute::kMcMemberRecord, member::kCreate);
    subnet.receive(client.request(header, member::record(kGroup, client.gid())), kStart);
    for (const auto& packet : subnet.take_outgoing()) {
      const auto response = header_of(packet);
      if (response.mad.method == method::kReport) {
        reports.push_back(packet);
      } else {
        last_status = static_cast<SaStatus>(response.mad.status);
      }
    }
    return last_status;
  }
  /// The only report, at once, of a port that has changed.
  MadPacket next_report() {
    EXPECT_LE(subnet.next_deadline(), kStart) << "immediately";
    subnet.on_time(kStart);
    const auto packets = subnet.take_outgoing();
    EXPECT_EQ(packets.size(), 1U);
    return packets.at(0);
  }
  /// What `b` answers to a report.
  void acknowledge(const MadPacket& report) {
    MadPacket response = b.packet();
    response.mad = report.mad;
    response.mad[3] = method::kReportResp;
    subnet.receive(response, kStart);
  }
  static SaHeader header_of(const MadPacket& packet) { return SaHeader::parse(packet.mad).value(); }
  static Notice notice_of(const MadPacket& packet) {
    return Notice::parse(ConstBytes(packet.mad).subspan(ipoib::wire::kSaHeaderSize)).value();
  }

  const Gid kGroup =
      ipoib::wire::multicast_gid(ipoib::Ipv4Address(0xe0010203), ipoib::kDefaultPKey);
  Subnet subnet;
  SaClient a{subnet, "a"};
  SaClient b{subnet, "b"};
  std::vector<MadPacket> reports;
  SaStatus last_status = SaStatus::busy;
};

TEST_F(SubnetReports, ReportsCreatedAndDeletedGroups) {
  ASSERT_EQ(subscribe(b, 66), SaStatus::ok);
  ASSERT_EQ(subscribe(b, 67), SaStatus::ok);
  ASSERT_EQ(change(a, method::kSet), SaStatus::ok);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(header_of(reports[0]).mad.attribute_id, attribute::kNotice);
  EXPECT_EQ(header_of(reports[0]).attribute_offset, Notice::kSize / 8);
  EXPECT_EQ(reports[0].slid, kSmLid);
  EXPECT_EQ(reports[0].dlid, b.port().lid);
  EXPECT_EQ(reports[0].source, ipoib::wire::kGsiQpn);
  EXPECT_EQ(reports[0].destination, ipoib::wire::kGsiQpn);
  EXPECT_EQ(reports[0].qkey, ipoib::wire::kGsiQKey);
  EXPECT_EQ(notice_of(reports[0]).trap_number, 66);
  EXPECT_EQ(notice_of(reports[0]).gid, kGroup);
  EXPECT_EQ(notice_of(reports[0]).issuer_lid, kSmLid);
  ASSERT_EQ(change(a, method::kDelete), SaStatus::ok);
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(notice_of(reports[1]).trap_number, 67);
}

TEST_F(SubnetReports, AreRetransmittedUntilAcknowledged) {
  ASSERT_EQ(subscribe(b, InformInfo::kAnyTrap), SaStatus::ok);
  ASSERT_EQ(change(a, method::kSet), SaStatus::ok);
  const auto first = subnet.next_deadline();
  EXPECT_EQ(first, kStart + SaReports::kTimeout);
  subnet.on_time(first);
  const auto again = subnet.take_outgoing();
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].mad, reports[0].mad);
  EXPECT_EQ(subnet.next_deadline(), first + SaReports::kTimeout);

  acknowledge(reports[0]);
  EXPECT_TRUE(subnet.take_outgoing().empty());
  EXPECT_EQ(subnet.counters().report_acknowledged, 1U);
  EXPECT_EQ(subnet.next_deadline(), ipoib::kNever);
}

TEST_F(SubnetReports, EachIsAcknowledgedAlone) {
  ASSERT_EQ(subscribe(b, InformInfo::kAnyTrap), SaStatus::ok);
  ASSERT_EQ(change(a, method::kSet), SaStatus::ok);
  ASSERT_EQ(change(a, method::kDelete), SaStatus::ok);
  ASSERT_EQ(reports.size(), 2U);
  acknowledge(reports[0]);
  subnet.on_time(subnet.next_deadline());
  const auto again = subnet.take_outgoing();
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].mad, reports[1].mad);
}

TEST_F(SubnetReports, EndWithTheirPort) {
  ASSERT_EQ(subscribe(b, 66), SaStatus::ok);
  ASSERT_EQ(change(a, method::kSet), SaStatus::ok);
  ASSERT_TRUE(subnet.remove_hca(b.index()));
  subnet.on_time(kStart + SaReports::kTimeout);
  EXPECT_TRUE(subnet.take_outgoing().empty());
}

TEST_F(SubnetReports, StopAfterMaxRetries) {
  ASSERT_EQ(subscribe(b, 66), SaStatus::ok);
  ASSERT_EQ(change(a, method::kSet), SaStatus::ok);
  std::size_t sent = 0;
  while (subnet.next_deadline() != ipoib::kNever) {
    subnet.on_time(subnet.next_deadline());
    sent += subnet.take_outgoing().size();
  }
  EXPECT_EQ(sent, SaReports::kMaxRetries);
}

TEST_F(SubnetReports, EndWithTheSubscription) {
  ASSERT_EQ(subscribe(b, 66), SaStatus::ok);
  EXPECT_EQ(subscribe(b, 66, false), SaStatus::ok);
  EXPECT_EQ(subscribe(b, 66, false), SaStatus::request_invalid);
  ASSERT_EQ(change(a, method::kSet), SaStatus::ok);
  EXPECT_TRUE(reports.empty());
  ASSERT_EQ(subscribe(b, 67), SaStatus::ok);
  ASSERT_EQ(change(a, method::kDelete), SaStatus::ok);
  EXPECT_EQ(reports.size(), 1U);
  ASSERT_TRUE(subnet.add_hca("unreported"));
  ASSERT_TRUE(subnet.restart_sm(kStart));
  EXPECT_NE(subnet.next_deadline(), ipoib::TimePoint()) << "nor has it to report anything";
  subnet.on_time(kStart + SaReports::kTimeout);
  EXPECT_TRUE(subnet.take_outgoing().empty());
  ASSERT_EQ(change(a, method::kSet), SaStatus::ok);
  ASSERT_EQ(change(a, method::kDelete), SaStatus::ok);
  EXPECT_EQ(reports.size(), 1U) << "the SM has forgotten the subscription";
}

TEST_F(SubnetReports, OnlyTheSubscribedQueuePairCancelsASubscription) {
  ASSERT_EQ(subscribe(b, 66), SaStatus::ok);
  InformInfo info;
  info.type = Notice::kSubnetManagement;
  info.trap_number = 66;
  info.producer_type = Notice::kClassManager;
  info.subscribe = false;
  info.qpn = Qpn(5);
  EXPECT_EQ(b.send_request(method::kSet, attribute::kInformInfo, 0, info)->status(),
            SaStatus::request_invalid);
}

TEST_F(SubnetReports, SubscriptionsForDifferentEventsAreSeparate) {
  InformInfo info;
  info.type = Notice::kSubnetManagement;
  info.trap_number = 66;
  info.producer_type = Notice::kClassManager;
  const auto set = [&](const InformInfo& what, bool on) {
    InformInfo wanted = what;
    wanted.subscribe = on;
    if (!on) wanted.qpn = ipoib::wire::kGsiQpn;
    return b.send_request(method::kSet, attribute::kInformInfo, 0, wanted)->status();
  };
  for (const auto change : std::initializer_list<void (*)(InformInfo&)>{
           [](auto& x) { x.producer_type = InformInfo::kAnyProducer; },
           [](auto& x) { x.trap_number = 67; }, [](auto& x) { x.type = 0; },
           [](auto& x) { x.lid_begin = Lid(9); }, [](auto& x) { x.lid_end = Lid(9); }}) {
    InformInfo other = info;
    change(other);
    ASSERT_EQ(set(info, true), SaStatus::ok);
    ASSERT_EQ(set(other, true), SaStatus::ok);
    EXPECT_EQ(set(other, false), SaStatus::ok);
    EXPECT_EQ(set(other, false), SaStatus::request_invalid) << "it has ended";
    EXPECT_EQ(set(info, false), SaStatus::ok);
  }
}

TEST_F(SubnetReports, ReportsPortsInAndOutOfService) {
  ASSERT_EQ(subscribe(b, 64), SaStatus::ok);
  ASSERT_EQ(subscribe(b, 65), SaStatus::ok);
  const auto c = subnet.add_hca("c").value();
  EXPECT_EQ(notice_of(next_report()).trap_number, 64);
  ASSERT_TRUE(subnet.set_membership(b.index(), PKey(0x12), Membership::limited));
  ASSERT_TRUE(subnet.set_membership(b.index(), ipoib::kDefaultPKey, Membership::none));
  ASSERT_TRUE(subnet.set_port_state(c, PortState::down));
  const auto report = next_report();
  EXPECT_EQ(report.pkey, PKey(0x8012)) << "the partition that the SM shares with it";
  const auto out_of_service = notice_of(report);
  EXPECT_EQ(out_of_service.trap_number, 65);
  EXPECT_EQ(out_of_service.gid, subnet.node(c)->port.gid());
  ASSERT_TRUE(subnet.set_port_state(c, PortState::active));
  EXPECT_EQ(notice_of(next_report()).trap_number, 64);
  ASSERT_TRUE(subnet.set_failed(c, true));
  EXPECT_EQ(notice_of(next_report()).trap_number, 65);
}

TEST_F(SubnetReports, HaveAGrhIfOneOfTheirPortsNeedsIt) {
  ASSERT_EQ(subscribe(b, 64), SaStatus::ok);
  const auto grh_if_required = [&](NodeIndex of, bool required) {
    auto port = subnet.node(of)->port;
    port.grh_required = required;
    EXPECT_TRUE(subnet.set_port(of, port));
    EXPECT_TRUE(subnet.remove_hca(subnet.add_hca("c").value()));
    return next_report().grh;
  };
  for (const NodeIndex of : {kSubnetNode, b.index()}) {
    const auto grh = grh_if_required(of, true);
    ASSERT_TRUE(grh) << of;
    EXPECT_EQ(grh->hop_limit, 1);
    EXPECT_EQ(grh->sgid, subnet.node(kSubnetNode)->port.gid());
    EXPECT_EQ(grh->dgid, b.gid());
    EXPECT_FALSE(grh_if_required(of, false)) << of;
  }
}

TEST_F(SubnetReports, OnePortHasAtMostHalfOfTheSubscriptions) {
  InformInfo info;
  for (std::size_t i = 0; i < SaReports::kMaxSubscriptions / 2; ++i) {
    info.trap_number = static_cast<std::uint16_t>(i);
    ASSERT_EQ(a.send_request(method::kSet, attribute::kInformInfo, 0, info)->status(),
              SaStatus::ok);
  }
  info.trap_number = 0x8000;
  EXPECT_EQ(a.send_request(method::kSet, attribute::kInformInfo, 0, info)->status(),
            SaStatus::no_resources);
  EXPECT_EQ(subscribe(b, 66), SaStatus::ok);
}

/// A port that subscribes with many queue pairs, and responds to no report.
TEST_F(SubnetReports, APortThatDoesNotRespondLeavesRoomForReportsToOthers) {
  constexpr std::uint32_t kQueuePairs = 1000;
  InformInfo info;
  info.type = Notice::kSubnetManagement;
  info.trap_number = 66;
  info.producer_type = Notice::kClassManager;
  for (std::uint32_t i = 0; i < kQueuePairs; ++i) {
    auto packet = a.request(a.header(method::kSet, attribute::kInformInfo), info);
    packet.source = Qpn(100 + i);
    subnet.receive(packet, kStart);
  }
  (void)subnet.take_outgoing();
  ASSERT_EQ(subscribe(b, 66), SaStatus::ok);
  std::size_t to_a = 0;
  for (std::uint64_t group = 1; group <= 2 * SaReports::kMaxOutstanding / kQueuePairs; ++group) {
    const auto header = b.header(method::kSet, attribute::kMcMemberRecord, member::kCreate);
    auto record = member::record(Gid(0xff12'0000'0000'0000, Guid(group)), b.gid());
    subnet.receive(b.request(header, record), kStart);
    std::size_t to_b = 0;
    for (const auto& packet : subnet.take_outgoing()) {
      if (header_of(packet).mad.method != method::kReport) continue;
      ++(packet.dlid == a.port().lid ? to_a : to_b);
    }
    EXPECT_EQ(to_b, 1U) << group;
  }
  EXPECT_LE(to_a, SaReports::kMaxOutstanding / 2);
  EXPECT_GT(subnet.counters().drop_report, 0U);
}

}  // namespace
}  // namespace softib::subnet
