// SA: node and port records, error responses, RMPP.
#include "softib/subnet/subnet_administrator.hpp"

#include "sa_client.hpp"
#include "softib/subnet/node_attributes.hpp"
#include "softib/subnet/sa_request.hpp"
#include "softib/subnet/sa_transfers.hpp"
#include "wire/class_port_info.hpp"
#include "wire/node_record.hpp"
#include "wire/port_info.hpp"

namespace softib::subnet {
namespace {

using ipoib::wire::NodeRecord;
using ipoib::wire::PortInfoRecord;
using ipoib::wire::RmppHeader;
using ipoib::wire::RmppType;
using ipoib::wire::SaHeader;
using ipoib::wire::SaStatus;
namespace attribute = ipoib::wire::attribute;
namespace method = ipoib::wire::method;

class SubnetSa : public ::testing::Test {
 protected:
  /// Sends a request and returns the immediate response packets.
  std::vector<MadPacket> send(const MadPacket& packet, ipoib::TimePoint now = kStart) {
    subnet.receive(packet, now);
    return subnet.take_outgoing();
  }
  static SaHeader header_of(const MadPacket& packet) { return SaHeader::parse(packet.mad).value(); }

  Subnet subnet;
  SaClient a{subnet, "a"};
};

TEST_F(SubnetSa, NodesAreListed) {
  SaClient b(subnet, "b");
  const auto reply = a.send_request(method::kGetTable, attribute::kNodeRecord, 0, NodeRecord{});
  const auto records = reply->records<NodeRecord>();
  ASSERT_EQ(records.size(), 4U);
  EXPECT_EQ(records[0].lid, kSmLid);
  EXPECT_EQ(std::string(records[1].description.data()), "a");
  EXPECT_EQ(records[1].node.port_guid, a.port().port_guid);
  EXPECT_EQ(records[1].node.type, ipoib::wire::NodeInfo::kChannelAdapter);
  EXPECT_EQ(records[3].node.type, ipoib::wire::NodeInfo::kSwitch);
  EXPECT_EQ(records[3].lid, kSwitchLid);
}

TEST_F(SubnetSa, AResponseOfOneRecordIsNoTransfer) {
  auto header = a.header(method::kGet, attribute::kNodeRecord, NodeRecord::kLid);
  header.rmpp.version = 1;
  header.rmpp.type = RmppType::data;
  header.rmpp.flags = RmppHeader::kActive | RmppHeader::kFirst | RmppHeader::kLast;
  header.rmpp.data1 = 1;
  NodeRecord wanted;
  wanted.lid = a.port().lid;
  const auto sent = send(a.request(header, wanted));
  ASSERT_EQ(sent.size(), 1U);
  const auto response = header_of(sent[0]);
  EXPECT_EQ(response.mad.status, 0);
  EXPECT_EQ(response.rmpp, RmppHeader());
}

TEST_F(SubnetSa, NodesAreFoundByAnyComponent) {
  SaClient b(subnet, "b");
  NodeRecord wanted;
  wanted.lid = b.port().lid;
  const auto by_lid =
      a.send_request(method::kGet, attribute::kNodeRecord, NodeRecord::kLid, wanted);
  ASSERT_EQ(by_lid->status(), SaStatus::ok);
  EXPECT_EQ(NodeRecord::parse(by_lid->data)->node.port_guid, b.port().port_guid);
  wanted.node.port_guid = a.port().port_guid;
  const auto by_guid =
      a.send_request(method::kGet, attribute::kNodeRecord, NodeRecord::kPortGuid, wanted);
  EXPECT_EQ(NodeRecord::parse(by_guid->data)->lid, a.port().lid);
  const auto by_both = a.send_request(method::kGet, attribute::kNodeRecord,
                                      NodeRecord::kLid | NodeRecord::kPortGuid, wanted);
  EXPECT_EQ(by_both->status(), SaStatus::no_records);
  wanted.node.type = ipoib::wire::NodeInfo::kChannelAdapter;
  const auto by_type =
      a.send_request(method::kGet, attribute::kNodeRecord, NodeRecord::kNodeType, wanted);
  EXPECT_EQ(by_type->status(), SaStatus::too_many_records);
}

TEST_F(SubnetSa, PortsAreListed) {
  PortInfoRecord wanted;
  wanted.lid = a.port().lid;
  const auto reply =
      a.send_request(method::kGetTable, attribute::kPortInfoRecord, PortInfoRecord::kLid, wanted);
  const auto records = reply->records<PortInfoRecord>();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].lid, a.port().lid);
  EXPECT_EQ(records[0].port, 1);
  EXPECT_EQ(records[0].info.lid, a.port().lid);
  EXPECT_EQ(records[0].info.sm_lid, kSmLid);
  EXPECT_EQ(records[0].info.port_state, 4);
  EXPECT_EQ(records[0].info.neighbor_mtu, 4);
  EXPECT_EQ(records[0].info.gid_prefix, Gid::kLinkLocalPrefix);
  wanted.lid = kSwitchLid;
  wanted.port = 3;
  const auto ports = [&](std::uint64_t mask) {
    return a.send_request(method::kGetTable, attribute::kPortInfoRecord, mask, wanted)
        ->records<PortInfoRecord>();
  };
  constexpr std::uint64_t kPort = 1U << 1;
  EXPECT_EQ(ports(PortInfoRecord::kLid | kPort).at(0).port, 3);
  wanted.info.capability_mask = ~0U;
  EXPECT_EQ(ports(PortInfoRecord::kLid | kPort).size(), 1U) << "a component that is not named";
  auto by_bits =
      a.header(method::kGetTable, attribute::kPortInfoRecord, PortInfoRecord::kLid | kPort);
  by_bits.mad.attribute_modifier = 1U << 31;
  EXPECT_EQ(a.send_request(by_bits, wanted)->records<PortInfoRecord>().size(), 1U);
  const auto of_switch = ports(PortInfoRecord::kLid);
  ASSERT_EQ(of_switch.size(), 37U);
  for (unsigned port = 0; port < of_switch.size(); ++port) {
    EXPECT_EQ(of_switch[port].lid, kSwitchLid);
    EXPECT_EQ(of_switch[port].port, port);
    EXPECT_EQ(of_switch[port].info.local_port, port);
  }
}

TEST_F(SubnetSa, OnlyResponsesWithRecordsHaveAnAttributeOffset) {
  NodeRecord wanted;
  wanted.lid = a.port().lid;
  const auto one = a.send_request(method::kGet, attribute::kNodeRecord, NodeRecord::kLid, wanted);
  EXPECT_EQ(one->status(), SaStatus::ok);
  EXPECT_EQ(one->header.attribute_offset * 8U, (NodeRecord::kSize + 7) / 8 * 8);
  EXPECT_EQ(subnet.counters().refused, 0U);
  const auto many = a.send_request(method::kGet, attribute::kNodeRecord, 0, wanted);
  EXPECT_EQ(many->status(), SaStatus::too_many_records);
  EXPECT_EQ(many->header.attribute_offset, 0);
  EXPECT_EQ(NodeRecord::parse(many->data)->lid, wanted.lid) << "the data of the request";
  EXPECT_EQ(subnet.counters().answered, 2U);
  EXPECT_EQ(subnet.counters().refused, 1U);
}

TEST_F(SubnetSa, AResponseHasThePKeyOfTheSm) {
  ASSERT_TRUE(subnet.set_membership(a.index(), ipoib::kDefaultPKey, Membership::limited));
  const auto packets =
      send(a.request(a.header(method::kGet, attribute::kClassPortInfo), NodeRecord{}));
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].pkey, ipoib::kDefaultPKey);
}

TEST_F(SubnetSa, FindsTheSmByItsCapability) {
  PortInfoRecord wanted;
  wanted.info.capability_mask = kCapabilityIsSm;
  auto header = a.header(method::kGetTable, attribute::kPortInfoRecord, 1ULL << 7);
  header.mad.attribute_modifier = 1U << 31;
  const auto packets = send(a.request(header, wanted));
  ASSERT_EQ(packets.size(), 1U);
  const auto first = ConstBytes(packets[0].mad).subspan(ipoib::wire::kSaHeaderSize);
  EXPECT_EQ(header_of(packets[0]).rmpp.data2, 20U + 72U) << "one record of 68, padded to 72";
  EXPECT_EQ(PortInfoRecord::parse(first)->lid, kSmLid);
}

TEST_F(SubnetSa, ClassPortInfoSaysSendOnlyFullMembersAreSupported) {
  const auto reply = a.send_request(method::kGet, attribute::kClassPortInfo, 0, NodeRecord{});
  ASSERT_EQ(reply->status(), SaStatus::ok);
  const auto info = ipoib::wire::ClassPortInfo::parse(reply->data).value();
  EXPECT_EQ(info.base_version, 1);
  EXPECT_EQ(info.class_version, 2);
  EXPECT_EQ(info.response_time, 18);
  EXPECT_EQ(info.redirect.qpn, ipoib::wire::kGsiQpn);
  EXPECT_EQ(info.redirect.qkey, ipoib::wire::kGsiQKey);
  EXPECT_EQ(info.trap.qkey, ipoib::wire::kGsiQKey);
  EXPECT_EQ(info.capability_mask, 0x2200) << "UD multicast, matching of capability bits";
  const auto mask2 = ipoib::load_be<std::uint32_t>(reply->data.data() + 4) >> 5;
  EXPECT_NE(mask2 & 1U << 12, 0U);
  EXPECT_EQ(a.send_request(method::kSet, attribute::kClassPortInfo, 0, NodeRecord{})->status(),
            SaStatus::unsupported_method_attribute);
}

TEST_F(SubnetSa, OnlyNodesThatShareAPartitionAreVisible) {
  SubnetConfig config;
  config.partitions = make_partitions({"0x7fff=limited"}).value();
  Subnet limited(config);
  SaClient b(limited, "b");
  SaClient c(limited, "c");
  const auto reply = b.send_request(method::kGetTable, attribute::kNodeRecord, 0, NodeRecord{});
  const auto records = reply->records<NodeRecord>();
  ASSERT_EQ(records.size(), 3U) << "the SM, which is a full member, the requester, and the switch";
  EXPECT_EQ(records[1].lid, b.port().lid);
}

TEST_F(SubnetSa, UnsupportedRequestsAreRefused) {
  const auto status = [&](std::uint8_t how, std::uint16_t what) {
    return a.send_request(how, what, 0, NodeRecord{})->status();
  };
  EXPECT_EQ(status(method::kGet, 0x0013), SaStatus::unsupported_method_attribute);
  EXPECT_EQ(status(method::kDelete, attribute::kNodeRecord),
            SaStatus::unsupported_method_attribute);
  EXPECT_EQ(status(0x7f, attribute::kNodeRecord), SaStatus::unsupported_method);
}

TEST_F(SubnetSa, OtherClassVersionIsRefused) {
  auto header = a.header(method::kGet, attribute::kNodeRecord);
  header.mad.class_version = 1;
  const auto packets = send(a.request(header, NodeRecord{}));
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(ipoib::wire::MadHeader::parse(packets[0].mad)->status, 0x0004);
  EXPECT_EQ(ipoib::wire::MadHeader::parse(packets[0].mad)->transaction_id,
            header.mad.transaction_id);
  header.mad.method = method::kGetResp;
  EXPECT_TRUE(send(a.request(header, NodeRecord{})).empty());
  EXPECT_EQ(subnet.counters().drop_response, 1U);
}

TEST(SubnetSaWithGrh, RequestsNeedAGrhAndResponsesHaveOne) {
  SubnetConfig config;
  config.grh_required = true;
  Subnet subnet(config);
  SaClient a(subnet, "a");
  auto packet = a.request(a.header(method::kGet, attribute::kClassPortInfo), NodeRecord{});
  const auto send = [&] {
    subnet.receive(packet, kStart);
    return subnet.take_outgoing();
  };
  EXPECT_TRUE(send().empty());
  EXPECT_EQ(subnet.counters().drop_gid, 1U);
  packet.grh.emplace();
  packet.grh->sgid = a.gid();
  packet.grh->dgid = a.gid();
  EXPECT_TRUE(send().empty()) << "for another port";
  const auto& sm = subnet.node(0)->port;
  for (const auto guid : {sm.port_guid, ipoib::kSaGuid}) {
    packet.grh->dgid = Gid(sm.gid_prefix, guid);
    const auto responses = send();
    ASSERT_EQ(responses.size(), 1U);
    EXPECT_EQ(responses[0].grh->dgid, a.gid());
    EXPECT_EQ(responses[0].grh->sgid, packet.grh->dgid);
  }
}

TEST_F(SubnetSa, InvalidMadsAreDroppedAndCounted) {
  const auto good = a.request(a.header(method::kGet, attribute::kNodeRecord), NodeRecord{});
  const auto dropped = [&](auto&& spoil) {
    MadPacket bad = good;
    spoil(bad);
    EXPECT_TRUE(send(bad).empty());
  };
  dropped([](MadPacket& p) { p.slid = Lid(0x300); });
  dropped([](MadPacket& p) { p.dlid = Lid(2); });
  dropped([](MadPacket& p) { p.qkey = QKey(1); });
  dropped([](MadPacket& p) { p.pkey = PKey(0x8012); });
  dropped([](MadPacket& p) { p.mad[0] = 9; });
  dropped([](MadPacket& p) { p.mad[1] = 5; });
  dropped([](MadPacket& p) { p.mad[3] |= 0x80; });
  dropped([](MadPacket& p) { p.mad[36] = 0x55; });
  const auto& counters = subnet.counters();
  EXPECT_EQ(counters.drop_source, 1U);
  EXPECT_EQ(counters.drop_destination, 1U);
  EXPECT_EQ(counters.drop_qkey, 1U);
  EXPECT_EQ(counters.drop_pkey, 1U);
  EXPECT_EQ(counters.drop_malformed, 2U);
  EXPECT_EQ(counters.drop_response, 1U);
  EXPECT_EQ(counters.drop_sm_key, 1U);
  EXPECT_EQ(counters.answered, 0U);
}

TEST_F(SubnetSa, MadsOfInactivePortsAreDropped) {
  const auto packet = a.request(a.header(method::kGet, attribute::kNodeRecord), NodeRecord{});
  ASSERT_TRUE(subnet.set_port_state(a.index(), PortState::init));
  EXPECT_TRUE(send(packet).empty());
  ASSERT_TRUE(subnet.set_port_state(a.index(), PortState::active));
  ASSERT_TRUE(subnet.set_port_state(0, PortState::down));
  EXPECT_TRUE(send(packet).empty()) << "the SM's own port is down";
}

/// A table of 22 nodes: 13 segments.
class SubnetRmpp : public SubnetSa {
 protected:
  SubnetRmpp() {
    for (int i = 0; i < 20; ++i) (void)subnet.add_hca("n" + std::to_string(i)).value();
    header = a.header(method::kGetTable, attribute::kNodeRecord);
    first = send(a.request(header, NodeRecord{}));
  }
  MadPacket control(RmppType type, std::uint32_t segment, std::uint32_t window_last) {
    SaHeader ack = header;
    ack.rmpp.type = type;
    ack.rmpp.flags = RmppHeader::kActive;
    ack.rmpp.data1 = segment;
    ack.rmpp.data2 = window_last;
    MadPacket packet = a.packet();
    ack.emit(packet.mad);
    return packet;
  }
  std::vector<std::uint32_t> numbers(const std::vector<MadPacket>& packets) {
    std::vector<std::uint32_t> list;
    for (const auto& packet : packets) list.push_back(header_of(packet).rmpp.data1);
    return list;
  }

  static constexpr std::uint32_t kSegments = 13;
  SaHeader header;
  std::vector<MadPacket> first;
};

TEST_F(SubnetRmpp, FirstSegmentIsSentAloneWithTheTotalLength) {
  ASSERT_EQ(first.size(), 1U);
  const auto rmpp = header_of(first[0]).rmpp;
  EXPECT_EQ(rmpp.type, RmppType::data);
  EXPECT_EQ(rmpp.flags, RmppHeader::kActive | RmppHeader::kFirst);
  EXPECT_EQ(rmpp.data1, 1U);
  EXPECT_EQ(rmpp.data2, kSegments * 20 + 23 * 112);
}

TEST_F(SubnetRmpp, AcknowledgementsMoveTheWindow) {
  EXPECT_EQ(numbers(send(control(RmppType::ack, 1, 4))), (std::vector<std::uint32_t>{2, 3, 4}));
  EXPECT_EQ(numbers(send(control(RmppType::ack, 3, 6))), (std::vector<std::uint32_t>{5, 6}));
  EXPECT_TRUE(send(control(RmppType::ack, 2, 5)).empty()) << "a duplicate";
  const auto rest = send(control(RmppType::ack, 6, 100));
  ASSERT_EQ(rest.size(), 7U);
  const auto last = header_of(rest.back()).rmpp;
  EXPECT_EQ(last.data1, kSegments);
  EXPECT_EQ(last.flags, RmppHeader::kActive | RmppHeader::kLast);
  EXPECT_EQ(last.data2, 20 + 23 * 112 - (kSegments - 1) * 200U);
  EXPECT_TRUE(send(control(RmppType::ack, kSegments, 100)).empty());
  EXPECT_EQ(subnet.next_deadline(), ipoib::kNever);
  EXPECT_EQ(subnet.counters().rmpp_control, 4U + 1U);
}

TEST_F(SubnetRmpp, UnacknowledgedSegmentsAreRetransmittedThenAborted) {
  subnet.on_time(subnet.next_deadline());
  EXPECT_EQ(numbers(subnet.take_outgoing()), std::vector<std::uint32_t>{1});
  (void)send(control(RmppType::ack, 1, 3));  // which resets the retries
  auto now = kStart;
  for (unsigned i = 0; i < SaTransfers::kMaxRetries; ++i) {
    now = subnet.next_deadline();
    subnet.on_time(now);
    EXPECT_EQ(numbers(subnet.take_outgoing()), (std::vector<std::uint32_t>{2, 3}));
  }
  subnet.on_time(subnet.next_deadline());
  const auto end = subnet.take_outgoing();
  ASSERT_EQ(end.size(), 1U);
  EXPECT_EQ(header_of(end[0]).rmpp.type, RmppType::abort);
  EXPECT_EQ(subnet.next_deadline(), ipoib::kNever);
  EXPECT_EQ(subnet.counters().rmpp_given_up, 1U);
  EXPECT_EQ(subnet.counters().rmpp_resent, 1U + 2U * SaTransfers::kMaxRetries);
}

TEST_F(SubnetRmpp, ARestartEndsTransfers) {
  ASSERT_TRUE(subnet.restart_sm(kStart));
  (void)subnet.take_outgoing();
  EXPECT_TRUE(send(control(RmppType::ack, 1, 4)).empty());
  EXPECT_EQ(subnet.counters().drop_response, 1U);
}

TEST(Components, AreComparedBitByBit) {
  constexpr std::array<std::uint16_t, 4> kWidths{3, 5, 7, 9};
  const std::array<std::uint8_t, 3> zero{};
  std::size_t bit = 0;
  for (std::size_t component = 0; component < kWidths.size(); ++component) {
    for (std::size_t end = bit + kWidths[component]; bit < end; ++bit) {
      auto other = zero;
      other[bit / 8] = static_cast<std::uint8_t>(0x80U >> bit % 8);
      for (std::size_t each = 0; each < kWidths.size(); ++each) {
        EXPECT_EQ(components_equal(zero, other, std::uint64_t{1} << each, kWidths),
                  each != component)
            << bit;
      }
    }
  }
}

TEST_F(SubnetRmpp, StopAndAbortEndATransfer) {
  subnet.on_time(kStart);
  EXPECT_TRUE(subnet.take_outgoing().empty()) << "nothing is due";
  EXPECT_TRUE(send(control(RmppType::stop, 0, 0)).empty());
  EXPECT_EQ(subnet.next_deadline(), ipoib::kNever);
  EXPECT_TRUE(send(control(RmppType::ack, 1, 4)).empty());
  EXPECT_EQ(subnet.counters().drop_response, 1U) << "the transfer has ended";
}

TEST_F(SubnetRmpp, InvalidAcknowledgementsAbort) {
  const auto status = [&](const MadPacket& packet) {
    const auto packets = send(packet);
    EXPECT_EQ(packets.size(), 1U);
    const auto rmpp = header_of(packets.at(0)).rmpp;
    EXPECT_EQ(rmpp.type, RmppType::abort);
    return rmpp.status;
  };
  EXPECT_EQ(status(control(RmppType::ack, 2, 9)), 123) << "not sent yet";
  (void)send(a.request(header, NodeRecord{}));
  EXPECT_EQ(status(control(RmppType::ack, 1, 0)), 122) << "window ends before the segment";
  (void)send(a.request(header, NodeRecord{}));
  EXPECT_EQ(status(control(RmppType::ack, 1, 2 + RmppSender::kMaxWindow)), 127);
  EXPECT_EQ(subnet.counters().rmpp_given_up, 3U);
}

TEST_F(SubnetRmpp, RepeatedRequestDoesNotStartASecondTransfer) {
  EXPECT_TRUE(send(a.request(header, NodeRecord{})).empty());
}

TEST_F(SubnetRmpp, OnePortHasAtMostHalfOfTheTransfers) {
  const auto start = [&](SaClient& client) {
    return send(
        client.request(client.header(method::kGetTable, attribute::kNodeRecord), NodeRecord{}));
  };
  for (std::size_t i = 1; i < SaTransfers::kMaxTransfers / 2; ++i) {
    ASSERT_EQ(header_of(start(a).at(0)).mad.status, 0);
  }
  const auto refused = start(a);
  EXPECT_EQ(header_of(refused.at(0)).mad.status, 0x0100);
  EXPECT_FALSE(header_of(refused.at(0)).rmpp.is_active());
  EXPECT_EQ(subnet.counters().over_limit, 1U);
  SaClient b(subnet, "b");
  EXPECT_EQ(header_of(start(b).at(0)).mad.status, 0);
}

TEST(SaTransfersTest, OnePortHasAtMostHalfOfTheBytes) {
  SaTransfers transfers;
  const std::vector<std::uint8_t> data(SaTransfers::kMaxBytes / 5);
  std::vector<MadPacket> out;
  std::uint64_t transaction = 0;
  const auto start = [&](NodeIndex node) {
    ipoib::wire::SaHeader header;
    header.mad.transaction_id = ++transaction;
    return transfers.start(node, {}, header, data, kStart, out);
  };
  EXPECT_TRUE(start(1));
  EXPECT_TRUE(start(1));
  EXPECT_FALSE(start(1));
  EXPECT_TRUE(start(2));
}

TEST_F(SubnetSa, EmptyTableIsOneSegmentWithoutRecords) {
  NodeRecord wanted;
  wanted.lid = Lid(0x123);
  const auto reply =
      a.send_request(method::kGetTable, attribute::kNodeRecord, NodeRecord::kLid, wanted);
  EXPECT_EQ(reply->status(), SaStatus::ok);
  EXPECT_EQ(reply->header.attribute_offset, 0);
  EXPECT_EQ(reply->header.rmpp.data2, 20U);
  EXPECT_TRUE(reply->data.empty());
}

TEST(SubnetAdministratorOfManyLids, EachLidOfAPortFindsItsNode) {
  SubnetConfig config;
  config.lmc = 2;
  Subnet subnet{config};
  SaClient a{subnet, "a"};
  NodeRecord wanted;
  for (std::uint16_t i = 0; i < 4; ++i) {
    wanted.lid = Lid(static_cast<std::uint16_t>(a.port().lid.value() + i));
    const auto reply =
        a.send_request(method::kGet, attribute::kNodeRecord, NodeRecord::kLid, wanted);
    ASSERT_EQ(reply->status(), SaStatus::ok) << i;
    EXPECT_EQ(NodeRecord::parse(reply->data)->lid, a.port().lid) << "the base LID";
  }
  wanted.lid = Lid(static_cast<std::uint16_t>(a.port().lid.value() + 4));
  const auto reply = a.send_request(method::kGet, attribute::kNodeRecord, NodeRecord::kLid, wanted);
  EXPECT_EQ(reply->status(), SaStatus::no_records);
}

}  // namespace
}  // namespace softib::subnet
