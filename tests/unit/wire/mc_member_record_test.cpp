#include "wire/mc_member_record.hpp"

#include <infiniband/umad_sa_mcm.h>

#include <cstddef>

#include "golden.hpp"

namespace ipoib::wire {
namespace {

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

const auto kGoldenMember = from_hex(
    "ff12401bffff000000000000ffffffff fe800000000000000000000000100001"
    "00000b1b c000 84 12 ffff 43 d2 5abcde7f 21 80 0000");

McMemberRecord member() {
  McMemberRecord record;
  record.mgid = *Gid::parse("ff12:401b:ffff::ffff:ffff");
  record.port_gid = *Gid::parse("fe80::10:1");
  record.qkey = QKey(0x0b1b);
  record.mlid = Lid(0xc000);
  record.mtu_selector = Selector::exactly;
  record.mtu = 4;
  record.traffic_class = 0x12;
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

TEST(McMemberRecord, HasTheLayoutOfIba) {
  ASSERT_EQ(kGoldenMember.size(), McMemberRecord::kSize);
  expect_golden(member(), kGoldenMember);
  expect_stable<McMemberRecord>(kGoldenMember);
  expect_truncations_refused<McMemberRecord>(kGoldenMember);
}

TEST(McMemberRecord, ReadsTheSameInTheSystemsStructure) {
  Wire wire{};
  member().emit({reinterpret_cast<std::uint8_t*>(&wire), McMemberRecord::kSize});
  EXPECT_EQ(wire.qkey, htobe32(0x0b1b));
  EXPECT_EQ(wire.mlid, htobe16(0xc000));
  EXPECT_EQ(wire.pkey, htobe16(0xffff));
  EXPECT_EQ(wire.tclass, 0x12);
  EXPECT_EQ(wire.mtu, umad_sa_set_rate_mtu_or_life(UMAD_SA_SELECTOR_EXACTLY, 4));
  EXPECT_EQ(wire.rate, umad_sa_set_rate_mtu_or_life(UMAD_SA_SELECTOR_LESS_THAN, 3));
  EXPECT_EQ(wire.sl_flow_hop, umad_sa_mcm_set_sl_flow_hop(5, 0xabcde, 0x7f));
  EXPECT_EQ(wire.scope_state, umad_sa_mcm_set_scope_state(2, 1));
  EXPECT_TRUE(umad_sa_mcm_get_proxy_join(&wire));
}

TEST(McMemberRecord, IsReadOutOfATableRow) {
  auto row = kGoldenMember;
  row.resize(56);
  EXPECT_EQ(McMemberRecord::parse(row), member());
}

}  // namespace
}  // namespace ipoib::wire
