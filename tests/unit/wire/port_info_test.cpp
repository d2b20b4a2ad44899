#include "wire/port_info.hpp"

#include "golden.hpp"

namespace ipoib::wire {
namespace {

constexpr std::string_view kInfoText =
    "0102030405060708 fe80000000000000 0004 0001 02510868 0000 0000 01 03 07 02"
    "74 50 83 47 45 40 000000 05 0020000000000000 08 92"
    "000000000000000000000000";

PortInfo sample_port_info() {
  PortInfo port;
  port.m_key = 0x0102030405060708;
  port.lid = Lid(4);
  port.sm_lid = Lid(1);
  port.capability_mask = 0x02510868;
  port.local_port = 1;
  port.link_width_enabled = 3;
  port.link_width_supported = 7;
  port.link_width_active = 2;
  port.link_speed_supported = 7;
  port.port_state = 4;
  port.physical_state = 5;
  port.lmc = 3;
  port.m_key_protection = 2;
  port.link_speed_active = 4;
  port.link_speed_enabled = 7;
  port.neighbor_mtu = 4;
  port.sm_sl = ServiceLevel(5);
  port.vl_capability = 4;
  port.mtu_capability = 5;
  port.operational_vls = 2;
  port.guid_capability = 8;
  port.client_reregister = true;
  port.subnet_timeout = 0x12;
  return port;
}

TEST(PortInfo, HasTheLayoutOfIba) {
  const auto golden = from_hex(kInfoText);
  ASSERT_EQ(golden.size(), PortInfo::kSize);
  expect_golden(sample_port_info(), golden);
  expect_stable<PortInfo>(golden);
  expect_truncations_refused<PortInfo>(golden);
}

TEST(PortInfoRecord, HasTheLayoutOfIba) {
  const auto golden = from_hex("0004 01 00" + std::string(kInfoText));
  ASSERT_EQ(golden.size(), PortInfoRecord::kSize);
  PortInfoRecord record;
  record.lid = Lid(4);
  record.port = 1;
  record.info = sample_port_info();
  expect_golden(record, golden);
  expect_stable<PortInfoRecord>(golden);
  expect_truncations_refused<PortInfoRecord>(golden);
}

TEST(LinkRate, IsThatOfLanesTimesSpeed) {
  EXPECT_EQ(link_mbps(2, 4), 40'000U) << "4x QDR";
  EXPECT_EQ(link_mbps(1, 1), 2'500U) << "1x SDR";
  EXPECT_EQ(link_mbps(8, 128), 1'200'000U) << "12x NDR";
  EXPECT_EQ(link_mbps(16, 64), 100'000U) << "2x HDR";
  EXPECT_EQ(link_mbps(3, 4), 0U) << "one width at a time";
  EXPECT_EQ(link_mbps(2, 0), 0U);
  EXPECT_EQ(link_mbps(32, 1), 0U);
}

}  // namespace
}  // namespace ipoib::wire
