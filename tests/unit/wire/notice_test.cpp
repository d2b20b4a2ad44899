#include "wire/notice.hpp"

#include "golden.hpp"

namespace ipoib::wire {
namespace {

const auto kNotice = from_hex(
    "83 000004 0042 0001 0000"
    "000000000000 ff12401bffff000000000000ffffffff"
    "00000000000000000000000000000000 00000000000000000000000000000000"
    "fe800000000000000000000000100001");
const auto kInform =
    from_hex("00000000000000000000000000000000 ffff 0000 0000 01 01 ffff 0042 123456 13 00 000004");

Notice created() {
  Notice notice;
  notice.trap_number = trap::kGroupCreated;
  notice.issuer_lid = Lid(1);
  notice.gid = *Gid::parse("ff12:401b:ffff::ffff:ffff");
  notice.issuer_gid = *Gid::parse("fe80::10:1");
  return notice;
}

TEST(Notice, HasTheLayoutOfIba) {
  ASSERT_EQ(kNotice.size(), Notice::kSize);
  expect_golden(created(), kNotice);
  expect_stable<Notice>(kNotice);
  expect_truncations_refused<Notice>(kNotice);
}

TEST(Notice, RefusesAVendorsOwn) {
  auto other = kNotice;
  other[0] = 0x03;
  EXPECT_FALSE(Notice::parse(other));
}

TEST(InformInfo, HasTheLayoutOfIba) {
  ASSERT_EQ(kInform.size(), InformInfo::kSize);
  InformInfo inform;
  inform.trap_number = trap::kGroupCreated;
  inform.qpn = Qpn(0x123456);
  inform.response_time = 0x13;
  inform.producer_type = Notice::kClassManager;
  expect_golden(inform, kInform);
  expect_stable<InformInfo>(kInform);
  expect_truncations_refused<InformInfo>(kInform);
}

TEST(InformInfo, CoversWhatItsWildcardsAllow) {
  InformInfo inform;
  EXPECT_TRUE(inform.covers(created())) << "any trap of any producer";
  inform.trap_number = trap::kGroupCreated;
  inform.type = Notice::kSubnetManagement;
  inform.producer_type = Notice::kClassManager;
  EXPECT_TRUE(inform.covers(created()));
  inform.trap_number = trap::kGroupDeleted;
  EXPECT_FALSE(inform.covers(created()));
  inform.trap_number = InformInfo::kAnyTrap;
  inform.producer_type = 1;
  EXPECT_FALSE(inform.covers(created()));
  inform.producer_type = InformInfo::kAnyProducer;
  inform.is_generic = false;
  EXPECT_FALSE(inform.covers(created()));
}

}  // namespace
}  // namespace ipoib::wire
