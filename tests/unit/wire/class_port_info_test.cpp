#include "wire/class_port_info.hpp"

#include <infiniband/umad_types.h>

#include <bit>

#include "golden.hpp"

namespace ipoib::wire {
namespace {

const auto kRedirecting = from_hex(
    "01 02 2602 00020012"
    "fe800000000000000000000000100003 0a3bcdef 0007 8012 00 000123 80010000"
    "fe800000000000000000000000100005 0b412345 0009 ffff 40 000001 80020000");

ClassPortInfo redirecting() {
  ClassPortInfo info;
  info.capability_mask = 0x2602;
  info.capability_mask2 = 1U << 12;
  info.response_time = 18;
  info.redirect.gid = *Gid::parse("fe80::10:3");
  info.redirect.traffic_class = 0x0a;
  info.redirect.sl = ServiceLevel(3);
  info.redirect.flow_label = 0xbcdef;
  info.redirect.lid = Lid(7);
  info.redirect.pkey = PKey(0x8012);
  info.redirect.qpn = Qpn(0x123);
  info.redirect.qkey = QKey(0x80010000);
  info.trap = {
      *Gid::parse("fe80::10:5"), 0x0b, ServiceLevel(4), 0x12345, Lid(9), PKey(0xffff), 0x40, Qpn(1),
      QKey(0x80020000)};
  return info;
}

TEST(ClassPortInfo, HasTheLayoutOfIba) {
  ASSERT_EQ(kRedirecting.size(), ClassPortInfo::kSize);
  expect_golden(redirecting(), kRedirecting);
  expect_stable<ClassPortInfo>(kRedirecting);
  expect_truncations_refused<ClassPortInfo>(kRedirecting);
}

TEST(ClassPortInfo, HasTheLayoutOfTheSystemsHeader) {
  std::array<std::uint8_t, ClassPortInfo::kSize> octets;
  redirecting().emit(octets);
  static_assert(sizeof(umad_class_port_info) == ClassPortInfo::kSize);
  auto system = std::bit_cast<umad_class_port_info>(octets);
  EXPECT_EQ(umad_class_cap_mask2(&system), 1U << 12);
  EXPECT_EQ(umad_class_resp_time(&system), 18);
  EXPECT_EQ(be32toh(system.redir_tc_sl_fl), 0x0a3bcdefU);
  EXPECT_EQ(be16toh(system.redir_lid), 7);
  EXPECT_EQ(be16toh(system.redir_pkey), 0x8012);
  EXPECT_EQ(be32toh(system.redir_qp), 0x123U);
  EXPECT_EQ(be32toh(system.redir_qkey), 0x80010000U);
  EXPECT_EQ(be32toh(system.trap_hl_qp), 0x40000001U);
}

}  // namespace
}  // namespace ipoib::wire
