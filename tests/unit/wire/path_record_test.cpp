#include "wire/path_record.hpp"

#include "golden.hpp"

namespace ipoib::wire {
namespace {

const auto kGoldenPath = from_hex(
    "1122334455667788 fe800000000000000000000000100003 fe800000000000000000000000100001"
    "0004 0003 8abcde40 07 81 ffff 1235 84 83 92 01 000000000000");

PathRecord path() {
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

TEST(PathRecord, HasTheLayoutOfIba) {
  ASSERT_EQ(kGoldenPath.size(), PathRecord::kSize);
  expect_golden(path(), kGoldenPath);
  expect_stable<PathRecord>(kGoldenPath);
  expect_truncations_refused<PathRecord>(kGoldenPath);
}

TEST(PathRecord, KeepsNeighbouringFieldsApart) {
  auto record = path();
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

}  // namespace
}  // namespace ipoib::wire
