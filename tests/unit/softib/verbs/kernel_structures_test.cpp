// The functions by which librdmacm reads and writes the structures of the kernel's ABI.
#include <gtest/gtest.h>
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <cstdint>

extern "C" {
// The installed headers do not declare these.
void ibv_copy_path_rec_from_kern(ibv_sa_path_rec* to, const ib_user_path_rec* from);
void ibv_copy_path_rec_to_kern(ib_user_path_rec* to, const ibv_sa_path_rec* from);
void ibv_copy_ah_attr_from_kern(ibv_ah_attr* to, const ib_uverbs_ah_attr* from);
void ibv_copy_qp_attr_from_kern(ibv_qp_attr* to, const ib_uverbs_qp_attr* from);
}

namespace softib::verbs {
namespace {

ib_user_path_rec path() {
  ib_user_path_rec path{};
  path.dgid[0] = 0xfe;
  path.dgid[15] = 1;
  path.sgid[0] = 0xfd;
  path.sgid[15] = 2;
  path.dlid = 3;
  path.slid = 4;
  path.raw_traffic = 1;
  path.flow_label = 6;
  path.reversible = 1;
  path.mtu = 4;
  path.pkey = 9;
  path.hop_limit = 10;
  path.traffic_class = 11;
  path.numb_path = 12;
  path.sl = 13;
  path.mtu_selector = 14;
  path.rate_selector = 15;
  path.rate = 16;
  path.packet_life_time_selector = 17;
  path.packet_life_time = 18;
  path.preference = 19;
  return path;
}

ib_uverbs_ah_attr route(std::uint8_t first) {
  ib_uverbs_ah_attr route{};
  std::ranges::fill(route.grh.dgid, first);
  route.grh.flow_label = first + 1U;
  route.grh.sgid_index = static_cast<std::uint8_t>(first + 2);
  route.grh.hop_limit = static_cast<std::uint8_t>(first + 3);
  route.grh.traffic_class = static_cast<std::uint8_t>(first + 4);
  route.dlid = static_cast<std::uint16_t>(first + 5);
  route.sl = static_cast<std::uint8_t>(first + 6);
  route.src_path_bits = static_cast<std::uint8_t>(first + 7);
  route.static_rate = static_cast<std::uint8_t>(first + 8);
  route.is_global = 1;
  route.port_num = static_cast<std::uint8_t>(first + 9);
  return route;
}

void expect_equal(const ibv_ah_attr& copy, const ib_uverbs_ah_attr& route) {
  EXPECT_TRUE(std::ranges::equal(copy.grh.dgid.raw, route.grh.dgid));
  EXPECT_EQ(copy.grh.flow_label, route.grh.flow_label);
  EXPECT_EQ(copy.grh.sgid_index, route.grh.sgid_index);
  EXPECT_EQ(copy.grh.hop_limit, route.grh.hop_limit);
  EXPECT_EQ(copy.grh.traffic_class, route.grh.traffic_class);
  EXPECT_EQ(copy.dlid, route.dlid);
  EXPECT_EQ(copy.sl, route.sl);
  EXPECT_EQ(copy.src_path_bits, route.src_path_bits);
  EXPECT_EQ(copy.static_rate, route.static_rate);
  EXPECT_EQ(copy.is_global, route.is_global);
  EXPECT_EQ(copy.port_num, route.port_num);
}

TEST(KernelStructures, APathIsTheSameThereAndBack) {
  const auto from = path();
  ibv_sa_path_rec record{};
  ibv_copy_path_rec_from_kern(&record, &from);
  EXPECT_TRUE(std::ranges::equal(record.dgid.raw, from.dgid));
  EXPECT_TRUE(std::ranges::equal(record.sgid.raw, from.sgid));
  EXPECT_EQ(record.dlid, 3);
  EXPECT_EQ(record.slid, 4);
  EXPECT_EQ(record.mtu, 4);
  EXPECT_EQ(record.pkey, 9);
  EXPECT_EQ(record.rate, 16);
  ib_user_path_rec again{};
  ibv_copy_path_rec_to_kern(&again, &record);
  EXPECT_TRUE(std::ranges::equal(again.dgid, from.dgid));
  EXPECT_TRUE(std::ranges::equal(again.sgid, from.sgid));
  EXPECT_EQ(again.dlid, from.dlid);
  EXPECT_EQ(again.slid, from.slid);
  EXPECT_EQ(again.raw_traffic, from.raw_traffic);
  EXPECT_EQ(again.flow_label, from.flow_label);
  EXPECT_EQ(again.reversible, from.reversible);
  EXPECT_EQ(again.mtu, from.mtu);
  EXPECT_EQ(again.pkey, from.pkey);
  EXPECT_EQ(again.hop_limit, from.hop_limit);
  EXPECT_EQ(again.traffic_class, from.traffic_class);
  EXPECT_EQ(again.numb_path, from.numb_path);
  EXPECT_EQ(again.sl, from.sl);
  EXPECT_EQ(again.mtu_selector, from.mtu_selector);
  EXPECT_EQ(again.rate_selector, from.rate_selector);
  EXPECT_EQ(again.rate, from.rate);
  EXPECT_EQ(again.packet_life_time_selector, from.packet_life_time_selector);
  EXPECT_EQ(again.packet_life_time, from.packet_life_time);
  EXPECT_EQ(again.preference, from.preference);
}

TEST(KernelStructures, AttributesOfAQueuePairAreCopiedButItsState) {
  ib_uverbs_qp_attr from{};
  from.qp_state = IBV_QPS_RTR;
  from.cur_qp_state = IBV_QPS_INIT;
  from.path_mtu = IBV_MTU_2048;
  from.path_mig_state = IBV_MIG_ARMED;
  from.qkey = 5;
  from.rq_psn = 6;
  from.sq_psn = 7;
  from.dest_qp_num = 8;
  from.qp_access_flags = 9;
  from.ah_attr = route(20);
  from.alt_ah_attr = route(40);
  from.max_send_wr = 60;
  from.max_recv_wr = 61;
  from.max_send_sge = 62;
  from.max_recv_sge = 63;
  from.max_inline_data = 64;
  from.pkey_index = 65;
  from.alt_pkey_index = 66;
  from.en_sqd_async_notify = 67;
  from.sq_draining = 68;
  from.max_rd_atomic = 69;
  from.max_dest_rd_atomic = 70;
  from.min_rnr_timer = 71;
  from.port_num = 72;
  from.timeout = 73;
  from.retry_cnt = 74;
  from.rnr_retry = 75;
  from.alt_port_num = 76;
  from.alt_timeout = 77;
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_ERR;
  ibv_copy_qp_attr_from_kern(&to, &from);
  EXPECT_EQ(to.qp_state, IBV_QPS_ERR);
  EXPECT_EQ(to.cur_qp_state, IBV_QPS_INIT);
  EXPECT_EQ(to.path_mtu, IBV_MTU_2048);
  EXPECT_EQ(to.path_mig_state, IBV_MIG_ARMED);
  EXPECT_EQ(to.qkey, 5U);
  EXPECT_EQ(to.rq_psn, 6U);
  EXPECT_EQ(to.sq_psn, 7U);
  EXPECT_EQ(to.dest_qp_num, 8U);
  EXPECT_EQ(to.qp_access_flags, 9U);
  expect_equal(to.ah_attr, from.ah_attr);
  expect_equal(to.alt_ah_attr, from.alt_ah_attr);
  EXPECT_EQ(to.cap.max_send_wr, 60U);
  EXPECT_EQ(to.cap.max_recv_wr, 61U);
  EXPECT_EQ(to.cap.max_send_sge, 62U);
  EXPECT_EQ(to.cap.max_recv_sge, 63U);
  EXPECT_EQ(to.cap.max_inline_data, 64U);
  EXPECT_EQ(to.pkey_index, 65);
  EXPECT_EQ(to.alt_pkey_index, 66);
  EXPECT_EQ(to.en_sqd_async_notify, 67);
  EXPECT_EQ(to.sq_draining, 68);
  EXPECT_EQ(to.max_rd_atomic, 69);
  EXPECT_EQ(to.max_dest_rd_atomic, 70);
  EXPECT_EQ(to.min_rnr_timer, 71);
  EXPECT_EQ(to.port_num, 72);
  EXPECT_EQ(to.timeout, 73);
  EXPECT_EQ(to.retry_cnt, 74);
  EXPECT_EQ(to.rnr_retry, 75);
  EXPECT_EQ(to.alt_port_num, 76);
  EXPECT_EQ(to.alt_timeout, 77);
}

}  // namespace
}  // namespace softib::verbs
