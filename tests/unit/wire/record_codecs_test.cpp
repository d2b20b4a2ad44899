// The codecs of SA and management records: layout, round trip and truncated input.
#include <infiniband/umad_sa_mcm.h>
#include <infiniband/umad_types.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>

#include "golden.hpp"
#include "wire/class_port_info.hpp"
#include "wire/notice.hpp"
#include "wire/sa_records.hpp"

namespace ipoib::wire {
namespace {

/// The wire format of an example, and its value.
template <class Record>
struct Example;

template <>
struct Example<PathRecord> {
  static constexpr std::string_view kHex =
      "1122334455667788 fe800000000000000000000000100003 fe800000000000000000000000100001"
      "0004 0003 8abcde40 07 81 ffff 1235 84 83 92 01 000000000000";
  static PathRecord value() {
    PathRecord record;
    record.service_id = 0x1122334455667788;
    record.dgid = *Gid::parse("fe80::10:3");
    record.sgid = *Gid::parse("fe80::10:1");
    record.dlid = Lid(4);
    record.slid = Lid(3);
    record.raw_traffic = true;
    record.flow_label = 0xabcde;
    record.hop_limit = 0x40;
    record.traffic_class = 7;
    record.reversible = true;
    record.numb_path = 1;
    record.pkey = PKey(0xffff);
    record.qos_class = 0x123;
    record.sl = ServiceLevel(5);
    record.mtu = 4;
    record.rate = 3;
    record.lifetime = 18;
    record.preference = 1;
    return record;
  }
};

template <>
struct Example<McMemberRecord> {
  static constexpr std::string_view kHex =
      "ff12401bffff000000000000ffffffff fe800000000000000000000000100001"
      "00000b1b c000 84 17 ffff 43 d2 5abcde7f 21 80 0000";
  static McMemberRecord value() {
    McMemberRecord record;
    record.mgid = *Gid::parse("ff12:401b:ffff::ffff:ffff");
    record.port_gid = *Gid::parse("fe80::10:1");
    record.qkey = QKey(0x0b1b);
    record.mlid = Lid(0xc000);
    record.mtu_selector = Selector::exactly;
    record.mtu = 4;
    record.traffic_class = 0x17;
    record.pkey = PKey(0xffff);
    record.rate_selector = Selector::less;
    record.rate = 3;
    record.lifetime_selector = Selector::largest;
    record.lifetime = 0x12;
    record.sl = ServiceLevel(5);
    record.flow_label = 0xabcde;
    record.hop_limit = 0x7f;
    record.scope = 2;
    record.join_state = McMemberRecord::kFullMember;
    record.proxy_join = true;
    return record;
  }
};

template <>
struct Example<NodeInfo> {
  static constexpr std::string_view kHex =
      "01 01 02 24 0002c90300000003 0002c90300000000 0002c90300000001"
      "0080 1003 000000a1 03 0002c9";
  static NodeInfo value() {
    NodeInfo node;
    node.type = NodeInfo::kSwitch;
    node.ports = 36;
    node.system_image_guid = Guid(0x0002c90300000003);
    node.node_guid = Guid(0x0002c90300000000);
    node.port_guid = Guid(0x0002c90300000001);
    node.partition_capacity = 128;
    node.device_id = 0x1003;
    node.revision = 0xa1;
    node.local_port = 3;
    node.vendor_id = 0x0002c9;
    return node;
  }
};

template <>
struct Example<NodeRecord> {
  static constexpr std::string_view kHex =
      "0004 0000"
      "01 01 02 24 0002c90300000003 0002c90300000000 0002c90300000001"
      "0080 1003 000000a1 03 0002c9"
      "686f737431000000 0000000000000000 0000000000000000 0000000000000000"
      "0000000000000000 0000000000000000 0000000000000000 0000000000000000";
  static NodeRecord value() {
    NodeRecord record;
    record.lid = Lid(4);
    record.node = Example<NodeInfo>::value();
    std::ranges::copy(std::string_view("host1"), record.description.begin());
    return record;
  }
};

template <>
struct Example<PortInfo> {
  static constexpr std::string_view kHex =
      "0102030405060708 fe80000000000000 0004 0001 02510868 0000 0123 21 0b 1f 10"
      "f4 51 83 6e 95 a0 192018 0d f2b000004567 89ab 11 9d"
      "008c 00000000000000000000";
  static PortInfo value() {
    PortInfo port;
    port.m_key = 0x0102030405060708;
    port.lid = Lid(4);
    port.sm_lid = Lid(1);
    port.capability_mask = 0x02510868;
    port.local_port = 0x21;
    port.link_width_enabled = 0x0b;
    port.link_width_supported = 0x1f;
    port.link_width_active = 0x10;
    port.link_speed_supported = 15;
    port.port_state = 4;
    port.physical_state = 5;
    port.lmc = 3;
    port.m_key_protection = 2;
    port.link_speed_active = 6;
    port.link_speed_enabled = 14;
    port.neighbor_mtu = 9;
    port.sm_sl = ServiceLevel(5);
    port.vl_capability = 10;
    port.mtu_capability = 13;
    port.operational_vls = 11;
    port.pkey_violations = 0x4567;
    port.qkey_violations = 0x89ab;
    port.guid_capability = 0x11;
    port.client_reregister = true;
    port.vl_arbitration_high_cap = 32;
    port.vl_arbitration_low_cap = 24;
    port.tuning.m_key_lease = 0x123;
    port.tuning.link_down_default = 1;
    port.tuning.vl_high_limit = 0x19;
    port.tuning.vl_stall_count = 7;
    port.tuning.hoq_life = 0x12;
    port.tuning.subnet_timeout = 0x1d;
    port.tuning.local_physical_errors = 8;
    port.tuning.overrun_errors = 12;
    return port;
  }
};

template <>
struct Example<PortInfoRecord> {
  static constexpr std::string_view kHex =
      "0004 01 00"
      "0102030405060708 fe80000000000000 0004 0001 02510868 0000 0123 21 0b 1f 10"
      "f4 51 83 6e 95 a0 192018 0d f2b000004567 89ab 11 9d"
      "008c 00000000000000000000";
  static PortInfoRecord value() {
    return {.lid = Lid(4), .port = 1, .info = Example<PortInfo>::value()};
  }
};

template <>
struct Example<Notice> {
  static constexpr std::string_view kHex =
      "83 000004 0042 0001 0000"
      "000000000000 ff12401bffff000000000000ffffffff"
      "00000000000000000000000000000000 00000000000000000000000000000000"
      "fe800000000000000000000000100001";
  static Notice value() {
    Notice notice;
    notice.trap_number = trap::kGroupCreated;
    notice.issuer_lid = Lid(1);
    notice.gid = *Gid::parse("ff12:401b:ffff::ffff:ffff");
    notice.issuer_gid = *Gid::parse("fe80::10:1");
    return notice;
  }
};

template <>
struct Example<InformInfo> {
  static constexpr std::string_view kHex =
      "00000000000000000000000000000000 ffff 0000 0000 01 01 ffff 0042 123456 13 00 000004";
  static InformInfo value() {
    InformInfo inform;
    inform.trap_number = trap::kGroupCreated;
    inform.qpn = Qpn(0x123456);
    inform.response_time = 0x13;
    inform.producer_type = Notice::kClassManager;
    return inform;
  }
};

template <>
struct Example<ClassPortInfo> {
  static constexpr std::string_view kHex =
      "03 04 2602 00020012"
      "fe800000000000000000000000100003 0a3bcdef 0007 8012 7f 000123 80010000"
      "fe800000000000000000000000100005 0b412345 0009 ffff 40 000001 80020000";
  static ClassPortInfo value() {
    ClassPortInfo info;
    info.base_version = 3;
    info.class_version = 4;
    info.capability_mask = 0x2602;
    info.capability_mask2 = 1U << 12;
    info.response_time = 18;
    info.redirect.gid = *Gid::parse("fe80::10:3");
    info.redirect.traffic_class = 0x0a;
    info.redirect.sl = ServiceLevel(3);
    info.redirect.flow_label = 0xbcdef;
    info.redirect.lid = Lid(7);
    info.redirect.pkey = PKey(0x8012);
    info.redirect.hop_limit = 0x7f;
    info.redirect.qpn = Qpn(0x123);
    info.redirect.qkey = QKey(0x80010000);
    info.trap = {*Gid::parse("fe80::10:5"),
                 0x0b,
                 ServiceLevel(4),
                 0x12345,
                 Lid(9),
                 PKey(0xffff),
                 0x40,
                 Qpn(1),
                 QKey(0x80020000)};
    return info;
  }
};

template <>
struct Example<ServiceRecord> {
  static constexpr std::string_view kHex =
      "1000000000000042 fe800000000000000002c90300000001 8012 0000 00000e10"
      "000102030405060708090a0b0c0d0e0f"
      "444150 4c 00000000 0000000000000000 0000000000000000 0000000000000000"
      "0000000000000000 0000000000000000 0000000000000000 0000000000000000"
      "0102030405060708 0000000000000000 0000000000000000 0000000000000000"
      "0000000000000000 0000000000000000 0000000000000000 00000000000000ff";
  static ServiceRecord value() {
    ServiceRecord record;
    record.service_id = 0x1000000000000042;
    record.gid = *Gid::parse("fe80::2:c903:0:1");
    record.pkey = PKey(0x8012);
    record.lease = 3600;
    std::iota(record.key.begin(), record.key.end(), std::uint8_t{0});
    std::ranges::copy(std::string_view("DAPL"), record.name.begin());
    std::iota(record.data.begin(), record.data.begin() + 8, std::uint8_t{1});
    record.data.back() = 0xff;
    return record;
  }
};

template <class Record>
class RecordCodec : public testing::Test {};
using Records = testing::Types<PathRecord, McMemberRecord, NodeInfo, NodeRecord, PortInfo,
                               PortInfoRecord, ServiceRecord, Notice, InformInfo, ClassPortInfo>;
TYPED_TEST_SUITE(RecordCodec, Records);

TYPED_TEST(RecordCodec, HasTheLayoutOfIba) {
  const auto golden = from_hex(Example<TypeParam>::kHex);
  ASSERT_EQ(golden.size(), TypeParam::kSize);
  expect_golden(Example<TypeParam>::value(), golden);
}

TYPED_TEST(RecordCodec, EmitsWhatItParses) {
  expect_stable<TypeParam>(from_hex(Example<TypeParam>::kHex));
}

TYPED_TEST(RecordCodec, RejectsTruncatedInput) {
  expect_truncations_refused<TypeParam>(from_hex(Example<TypeParam>::kHex));
}

TEST(PathRecord, KeepsNeighbouringFieldsApart) {
  auto record = Example<PathRecord>::value();
  record.flow_label = 0xffffffff;
  record.numb_path = 0xff;
  record.reversible = false;
  record.raw_traffic = false;
  record.mtu = 0xff;
  record.mtu_selector = Selector::greater;
  std::vector<std::uint8_t> emitted(PathRecord::kSize);
  record.emit(emitted);
  const auto parsed = PathRecord::parse(emitted);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->flow_label, 0xfffffU);
  EXPECT_FALSE(parsed->raw_traffic);
  EXPECT_EQ(parsed->hop_limit, 0x40);
  EXPECT_EQ(parsed->numb_path, 0x7f);
  EXPECT_FALSE(parsed->reversible);
  EXPECT_EQ(parsed->mtu_selector, Selector::greater);
}

constexpr bool same(std::uint64_t ours, std::uint64_t theirs) { return ours == theirs; }

using Wire = umad_sa_mcmember_record;
static_assert(McMemberRecord::kSize == offsetof(Wire, pad));
static_assert(same(McMemberRecord::kMgid, UMAD_SA_MCM_COMP_MASK_MGID));
static_assert(same(McMemberRecord::kPortGid, UMAD_SA_MCM_COMP_MASK_PORT_GID));
static_assert(same(McMemberRecord::kQKey, UMAD_SA_MCM_COMP_MASK_QKEY));
static_assert(same(McMemberRecord::kMlid, UMAD_SA_MCM_COMP_MASK_MLID));
static_assert(same(McMemberRecord::kMtuSelector, UMAD_SA_MCM_COMP_MASK_MTU_SEL));
static_assert(same(McMemberRecord::kMtu, UMAD_SA_MCM_COMP_MASK_MTU));
static_assert(same(McMemberRecord::kTrafficClass, UMAD_SA_MCM_COMP_MASK_TCLASS));
static_assert(same(McMemberRecord::kPKey, UMAD_SA_MCM_COMP_MASK_PKEY));
static_assert(same(McMemberRecord::kRateSelector, UMAD_SA_MCM_COMP_MASK_RATE_SEL));
static_assert(same(McMemberRecord::kRate, UMAD_SA_MCM_COMP_MASK_RATE));
static_assert(same(McMemberRecord::kLifetimeSelector, UMAD_SA_MCM_COMP_MASK_LIFE_TIME_SEL));
static_assert(same(McMemberRecord::kLifetime, UMAD_SA_MCM_COMP_MASK_LIFE_TIME));
static_assert(same(McMemberRecord::kSl, UMAD_SA_MCM_COMP_MASK_SL));
static_assert(same(McMemberRecord::kFlowLabel, UMAD_SA_MCM_COMP_MASK_FLOW_LABEL));
static_assert(same(McMemberRecord::kHopLimit, UMAD_SA_MCM_COMP_MASK_HOP_LIMIT));
static_assert(same(McMemberRecord::kScope, UMAD_SA_MCM_COMP_MASK_SCOPE));
static_assert(same(McMemberRecord::kJoinState, UMAD_SA_MCM_COMP_MASK_JOIN_STATE));
static_assert(same(McMemberRecord::kProxyJoin, UMAD_SA_MCM_COMP_MASK_PROXY_JOIN));
static_assert(same(McMemberRecord::kSendOnlyFullMember,
                   UMAD_SA_MCM_JOIN_STATE_SEND_ONLY_FULL_MEMBER));

TEST(McMemberRecord, HasTheLayoutOfTheSystemHeader) {
  Wire wire{};
  Example<McMemberRecord>::value().emit(
      {reinterpret_cast<std::uint8_t*>(&wire), McMemberRecord::kSize});
  EXPECT_EQ(wire.qkey, htobe32(0x0b1b));
  EXPECT_EQ(wire.mlid, htobe16(0xc000));
  EXPECT_EQ(wire.pkey, htobe16(0xffff));
  EXPECT_EQ(wire.tclass, 0x17);
  EXPECT_EQ(wire.mtu, umad_sa_set_rate_mtu_or_life(UMAD_SA_SELECTOR_EXACTLY, 4));
  EXPECT_EQ(wire.rate, umad_sa_set_rate_mtu_or_life(UMAD_SA_SELECTOR_LESS_THAN, 3));
  EXPECT_EQ(wire.sl_flow_hop, umad_sa_mcm_set_sl_flow_hop(5, 0xabcde, 0x7f));
  EXPECT_EQ(wire.scope_state, umad_sa_mcm_set_scope_state(2, 1));
  EXPECT_TRUE(umad_sa_mcm_get_proxy_join(&wire));
}

TEST(McMemberRecord, ParsesATableRow) {
  auto row = from_hex(Example<McMemberRecord>::kHex);
  row.resize(56);
  EXPECT_EQ(McMemberRecord::parse(row), Example<McMemberRecord>::value());
}

TEST(LinkRate, IsLanesTimesSpeed) {
  EXPECT_EQ(link_mbps(2, 4), 40'000U) << "4x QDR";
  EXPECT_EQ(link_mbps(1, 1), 2'500U) << "1x SDR";
  EXPECT_EQ(link_mbps(8, 128), 1'200'000U) << "12x NDR";
  EXPECT_EQ(link_mbps(16, 64), 100'000U) << "2x HDR";
  EXPECT_EQ(link_mbps(3, 4), 0U) << "one width at a time";
  EXPECT_EQ(link_mbps(2, 0), 0U);
  EXPECT_EQ(link_mbps(32, 1), 0U);
}

TEST(Notice, RejectsAVendorNotice) {
  auto other = from_hex(Example<Notice>::kHex);
  other[0] = 0x03;
  EXPECT_FALSE(Notice::parse(other));
}

TEST(InformInfo, WildcardsCoverNotices) {
  const Notice created = Example<Notice>::value();
  InformInfo inform;
  EXPECT_TRUE(inform.covers(created)) << "any trap of any producer";
  inform.trap_number = trap::kGroupCreated;
  inform.type = Notice::kSubnetManagement;
  inform.producer_type = Notice::kClassManager;
  EXPECT_TRUE(inform.covers(created));
  inform.trap_number = trap::kGroupDeleted;
  EXPECT_FALSE(inform.covers(created));
  inform.trap_number = InformInfo::kAnyTrap;
  inform.producer_type = 1;
  EXPECT_FALSE(inform.covers(created));
  inform.producer_type = InformInfo::kAnyProducer;
  inform.is_generic = false;
  EXPECT_FALSE(inform.covers(created));
}

TEST(ClassPortInfo, HasTheLayoutOfTheSystemHeader) {
  std::array<std::uint8_t, ClassPortInfo::kSize> bytes;
  Example<ClassPortInfo>::value().emit(bytes);
  static_assert(sizeof(umad_class_port_info) == ClassPortInfo::kSize);
  auto system = std::bit_cast<umad_class_port_info>(bytes);
  EXPECT_EQ(umad_class_cap_mask2(&system), 1U << 12);
  EXPECT_EQ(umad_class_resp_time(&system), 18);
  EXPECT_EQ(be32toh(system.redir_tc_sl_fl), 0x0a3bcdefU);
  EXPECT_EQ(be16toh(system.redir_lid), 7);
  EXPECT_EQ(be16toh(system.redir_pkey), 0x8012);
  EXPECT_EQ(be32toh(system.redir_qp), 0x7f000123U);
  EXPECT_EQ(be32toh(system.redir_qkey), 0x80010000U);
  EXPECT_EQ(be32toh(system.trap_hl_qp), 0x40000001U);
}

}  // namespace
}  // namespace ipoib::wire
