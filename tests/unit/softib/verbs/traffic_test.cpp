// Queue pairs, memory and completions by verbs, with real packets.
#include <thread>

#include "softib/core/network_order.hpp"
#include "softib/hca/limits.hpp"
#include "verbs_fixture.hpp"

namespace softib::verbs {
namespace {

using TrafficTest = VerbsTest;

TEST_F(TrafficTest, SendsADatagramToTheOtherHca) {
  auto* const from = near_.make_qp();
  auto* const to = far_.make_qp();
  ASSERT_EQ(far_.post_receive(to), 0);
  ASSERT_EQ(near_.send(from, near_.handle(far_lid()), to->qp_num, "hello"), 0);
  EXPECT_EQ(near_.next_completion().opcode, IBV_WC_SEND);
  const auto wc = far_.next_completion();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  EXPECT_EQ(wc.wr_id, 7U);
  EXPECT_EQ(wc.byte_len, kGrh + 5);
  EXPECT_EQ(wc.src_qp, from->qp_num);
  EXPECT_EQ(wc.slid, near_lid().value());
  EXPECT_EQ(std::string(far_.memory.begin() + kGrh, far_.memory.begin() + kGrh + 5), "hello");
}

TEST_F(TrafficTest, LoopsBackAndRepliesToTheSender) {
  auto* const qp = near_.make_qp();
  ASSERT_EQ(near_.post_receive(qp), 0);
  ASSERT_EQ(near_.send(qp, near_.handle(near_lid()), qp->qp_num, "self"), 0);
  auto wc = near_.next_receive_and_send();
  auto* const back = ibv_create_ah_from_wc(near_.pd, &wc, nullptr, 1);
  ASSERT_NE(back, nullptr);
  ASSERT_EQ(near_.post_receive(qp), 0);
  ASSERT_EQ(near_.send(qp, back, wc.src_qp, "again"), 0);
  EXPECT_EQ(near_.next_receive_and_send().byte_len, kGrh + 5);
}

TEST_F(TrafficTest, ReplyComesFromTheLidThatWasAddressed) {
  ibv_wc wc{};
  wc.slid = 0x15;
  wc.sl = 3;
  wc.dlid_path_bits = 2;
  ibv_ah_attr back{};
  ASSERT_EQ(ibv_init_ah_from_wc(near_.context, 1, &wc, nullptr, &back), 0);
  EXPECT_EQ(back.dlid, 0x15);
  EXPECT_EQ(back.sl, 3);
  EXPECT_EQ(back.src_path_bits, 2);
  EXPECT_EQ(back.port_num, 1);
  EXPECT_EQ(back.is_global, 0);
}

TEST_F(TrafficTest, RepliesToAGlobalRoute) {
  auto* const from = near_.make_qp();
  auto* const to = far_.make_qp();
  ASSERT_EQ(far_.post_receive(to), 0);
  ibv_ah_attr attr{};
  attr.dlid = far_lid().value();
  attr.port_num = 1;
  attr.is_global = 1;
  attr.grh.flow_label = 0x54321;
  attr.grh.traffic_class = 5;
  attr.grh.hop_limit = 3;
  ASSERT_EQ(ibv_query_gid(far_.context, 1, 0, &attr.grh.dgid), 0);
  ASSERT_EQ(near_.send(from, ibv_create_ah(near_.pd, &attr), to->qp_num, "hello"), 0);
  auto wc = far_.next_completion();
  ASSERT_EQ(wc.wc_flags, unsigned{IBV_WC_GRH});
  ibv_grh grh;
  std::memcpy(&grh, far_.memory.data(), sizeof grh);
  ibv_ah_attr back{};
  ASSERT_EQ(ibv_init_ah_from_wc(far_.context, 1, &wc, &grh, &back), 0);
  EXPECT_EQ(back.dlid, near_lid().value());
  EXPECT_EQ(back.is_global, 1);
  EXPECT_EQ(back.grh.flow_label, 0x54321U);
  EXPECT_EQ(back.grh.traffic_class, 5);
  EXPECT_EQ(back.grh.hop_limit, 3);
  EXPECT_EQ(back.grh.sgid_index, 0);
  ibv_gid near_gid;
  ASSERT_EQ(ibv_query_gid(near_.context, 1, 0, &near_gid), 0);
  EXPECT_EQ(std::memcmp(&back.grh.dgid, &near_gid, sizeof near_gid), 0);

  grh.dgid.raw[15] ^= 1;  // not to a GID of this port
  EXPECT_EQ(ibv_init_ah_from_wc(far_.context, 1, &wc, &grh, &back), -1);
}

TEST_F(TrafficTest, DeliversMulticastOnBothHcas) {
  constexpr Lid kMlid{0xc005};
  subnet_.subnet.set_group(kMlid, {1, 2});
  ibv_gid mgid{};
  const auto group = Gid(0xff12'401b'ffff'0000ULL, Guid(kMlid.value()));
  std::copy(group.bytes().begin(), group.bytes().end(), mgid.raw);
  auto* const from = near_.make_qp();
  auto* const to = far_.make_qp();
  ASSERT_EQ(ibv_attach_mcast(from, &mgid, kMlid.value()), 0);
  ASSERT_EQ(ibv_attach_mcast(to, &mgid, kMlid.value()), 0);
  EXPECT_EQ(ibv_attach_mcast(to, &mgid, 5), EINVAL);
  ASSERT_EQ(near_.post_receive(from), 0);
  ASSERT_EQ(far_.post_receive(to), 0);
  ibv_ah_attr attr{};
  attr.dlid = kMlid.value();
  attr.port_num = 1;
  attr.is_global = 1;
  attr.grh.dgid = mgid;
  ASSERT_EQ(near_.send(from, ibv_create_ah(near_.pd, &attr), 0xffffff, "all"), 0);
  EXPECT_EQ(near_.next_receive_and_send().byte_len, kGrh + 3);
  EXPECT_EQ(far_.next_completion().byte_len, kGrh + 3);
  EXPECT_EQ(ibv_destroy_qp(to), EBUSY);
  ASSERT_EQ(ibv_detach_mcast(to, &mgid, kMlid.value()), 0);
  EXPECT_EQ(ibv_detach_mcast(to, &mgid, kMlid.value()), EINVAL);
  EXPECT_EQ(ibv_destroy_qp(to), 0);
}

TEST_F(TrafficTest, APortCountsPacketsWithAWrongQKey) {
  const auto counted = [&](const Side& side) {
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(side.context, 1, &port), 0);
    EXPECT_EQ(port.bad_pkey_cntr, 0U);
    return port.qkey_viol_cntr;
  };
  auto* const from = near_.make_qp();
  auto* const to = far_.make_qp();
  ibv_qp_attr attr{};
  attr.qkey = kQKey + 1;
  ASSERT_EQ(ibv_modify_qp(to, &attr, IBV_QP_QKEY), 0);
  const auto near_before = counted(near_);
  const auto far_before = counted(far_);
  ASSERT_EQ(far_.post_receive(to), 0);
  ASSERT_EQ(near_.send(from, near_.handle(far_lid()), to->qp_num, "x"), 0);
  EXPECT_EQ(near_.next_completion().opcode, IBV_WC_SEND);
  ibv_wc none{};
  while (counted(far_) == far_before) ASSERT_EQ(ibv_poll_cq(far_.cq, 1, &none), 0);
  EXPECT_EQ(counted(far_), far_before + 1);
  EXPECT_EQ(counted(near_), near_before);
  const auto& fabric = subnet_.subnet.fabric();
  EXPECT_EQ(fabric.violations(2, CheckedKey::qkey), far_before + 1) << "as the SMA tells it";
  const auto last = fabric.last_violation(2, CheckedKey::qkey);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->slid, near_lid());
  EXPECT_EQ(last->key, kQKey);
  EXPECT_EQ(last->source.value(), from->qp_num);
  EXPECT_EQ(last->destination.value(), to->qp_num);
}

TEST_F(TrafficTest, ReportsTheBadRequest) {
  auto* const qp = near_.make_qp();
  auto sge = near_.element(0, 4);
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_READ;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &wr, &bad), EINVAL);
  EXPECT_EQ(bad, &wr);
  ibv_recv_wr receive{1, nullptr, &sge, 99};
  ibv_recv_wr* bad_receive = nullptr;
  EXPECT_EQ(ibv_post_recv(qp, &receive, &bad_receive), EINVAL);
  EXPECT_EQ(bad_receive, &receive);
}

TEST_F(TrafficTest, PostsRequestsBuiltCallByCall) {
  ibv_qp_init_attr_ex init{};
  init.send_cq = near_.cq;
  init.recv_cq = near_.cq;
  init.cap = {100, 90, 2, 3, 64};
  init.qp_type = IBV_QPT_UD;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = near_.pd;
  init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  auto* const plain = ibv_create_qp_ex(near_.context, &init);
  ASSERT_NE(plain, nullptr);
  Side::bring_up(plain);
  auto* const qp = ibv_qp_to_qp_ex(plain);
  ASSERT_NE(qp, nullptr);
  auto* const to = far_.make_qp();
  auto* const ah = near_.handle(far_lid());
  for (int i = 0; i < 3; ++i) ASSERT_EQ(far_.post_receive(to), 0);

  char text[] = "inline";
  std::array<ibv_data_buf, 2> parts{{{&text[0], 2}, {&text[2], 4}}};
  std::copy_n("memory", 6, near_.memory.begin());
  ibv_wr_start(qp);
  qp->wr_id = 21;
  qp->wr_flags = 0;
  ibv_wr_send(qp);
  ibv_wr_set_ud_addr(qp, ah, to->qp_num, kQKey);
  const auto sge = near_.element(0, 6);
  ibv_wr_set_sge(qp, sge.lkey, sge.addr, sge.length);
  qp->wr_id = 22;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send_imm(qp, to_network(std::uint32_t{77}));
  ibv_wr_set_ud_addr(qp, ah, to->qp_num, kQKey);
  ibv_wr_set_inline_data_list(qp, parts.size(), parts.data());
  text[0] = 'X';
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(near_.next_completion().wr_id, 22U);
  EXPECT_EQ(far_.next_completion().byte_len, kGrh + 6);
  const auto wc = far_.next_completion();
  EXPECT_EQ(wc.imm_data, to_network(std::uint32_t{77}));
  EXPECT_EQ(std::string(far_.memory.begin() + kGrh, far_.memory.begin() + kGrh + 6), "inline");

  // Aborted batches, and batches with an error, are not posted.
  ibv_wr_start(qp);
  ibv_wr_send(qp);
  ibv_wr_abort(qp);
  ibv_wr_start(qp);
  ibv_wr_send(qp);
  ibv_wr_set_ud_addr(qp, ah, to->qp_num, kQKey);
  ibv_wr_set_sge(qp, sge.lkey, sge.addr, sge.length);
  ibv_wr_send(qp);
  std::vector<char> too_long(65);
  ibv_wr_set_inline_data(qp, too_long.data(), too_long.size());
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
  ibv_wr_start(qp);
  ibv_wr_send(qp);
  ibv_wr_set_ud_addr(qp, ah, to->qp_num, kQKey);
  std::array<ibv_data_buf, 2> too_long_together{{{too_long.data(), 33}, {too_long.data(), 32}}};
  ibv_wr_set_inline_data_list(qp, too_long_together.size(), too_long_together.data());
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
  for (const auto& set : std::initializer_list<std::function<void()>>{
           [&] { ibv_wr_set_ud_addr(qp, ah, to->qp_num, kQKey); },
           [&] { ibv_wr_set_sge(qp, sge.lkey, sge.addr, 3); },
           [&] { ibv_wr_set_inline_data(qp, too_long.data(), 4); }}) {
    ibv_wr_start(qp);
    set();  // there is no request
    EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
  }
  // The next batch has nothing of them.
  ibv_wr_start(qp);
  qp->wr_id = 23;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(qp);
  ibv_wr_set_ud_addr(qp, ah, to->qp_num, kQKey);
  ibv_wr_set_sge(qp, sge.lkey, sge.addr, 3);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(near_.next_completion().wr_id, 23U);
  EXPECT_EQ(far_.next_completion().byte_len, kGrh + 3);
  ASSERT_EQ(far_.post_receive(to), 0);
  ASSERT_EQ(near_.send(plain, ah, to->qp_num, "last"), 0);
  EXPECT_EQ(far_.next_completion().byte_len, kGrh + 4);
}

/// The same request by ibv_post_send() and call by call: two datagrams each.
TEST_F(TrafficTest, SegmentsLargeSends) {
  std::string headers(
      "\x08\0\0\0"
      "\x45\0\x05\xf8\0\1\0\0\x40\x11\0\0\x0a\0\0\1\x0a\0\0\2"
      "\x12\x34\x56\x78\x05\xe4\0\0",
      32);
  ibv_qp_init_attr_ex init{};
  init.send_cq = near_.cq;
  init.recv_cq = near_.cq;
  init.cap = {64, 64, 2, 2, 64};
  init.qp_type = IBV_QPT_UD;
  init.comp_mask =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
  init.pd = near_.pd;
  init.send_ops_flags = IBV_QP_EX_WITH_TSO;
  init.max_tso_header = kMaxTsoHeader + 1;
  EXPECT_EQ(ibv_create_qp_ex(near_.context, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  init.max_tso_header = static_cast<std::uint16_t>(headers.size());
  auto* const from = ibv_create_qp_ex(near_.context, &init);
  ASSERT_NE(from, nullptr);
  Side::bring_up(from);
  auto* const to = far_.make_qp();
  auto* const ah = near_.handle(far_lid());
  for (int i = 0; i < 4; ++i) ASSERT_EQ(far_.post_receive(to), 0);

  auto sge = near_.element(0, 1500);
  ibv_send_wr wr{};
  wr.wr_id = 9;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_TSO;
  wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM;
  wr.wr.ud = {ah, to->qp_num, kQKey};
  wr.tso.hdr = headers.data();
  wr.tso.hdr_sz = static_cast<std::uint16_t>(headers.size());
  wr.tso.mss = 1000;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(from, &wr, &bad), 0);

  auto* const qp = ibv_qp_to_qp_ex(from);
  ibv_wr_start(qp);
  qp->wr_id = 10;
  qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM;
  ibv_wr_send_tso(qp, headers.data(), static_cast<std::uint16_t>(headers.size()), 1000);
  headers.clear();
  ibv_wr_set_ud_addr(qp, ah, to->qp_num, kQKey);
  ibv_wr_set_sge(qp, sge.lkey, sge.addr, sge.length);
  ASSERT_EQ(ibv_wr_complete(qp), 0);

  for (const std::uint64_t id : {9U, 10U}) {
    const auto wc = near_.next_completion();
    EXPECT_EQ(wc.wr_id, id);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_TSO);
    EXPECT_EQ(wc.byte_len, 1500U);
    for (const std::uint32_t payload : {1000U, 500U}) {
      const auto got = far_.next_completion();
      EXPECT_EQ(got.byte_len, kGrh + 32 + payload);
      EXPECT_TRUE(got.wc_flags & IBV_WC_IP_CSUM_OK);
    }
  }
}

TEST_F(TrafficTest, ReadsCompletionsFieldByField) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 8;
  attr.wc_flags = IBV_WC_STANDARD_FLAGS;
  auto* const cq = ibv_create_cq_ex(far_.context, &attr);
  ASSERT_NE(cq, nullptr);
  auto init = far_.initial();
  init.recv_cq = ibv_cq_ex_to_cq(cq);
  auto* const to = ibv_create_qp(far_.pd, &init);
  ASSERT_NE(to, nullptr);
  Side::bring_up(to);
  auto* const from = near_.make_qp();
  ASSERT_EQ(far_.post_receive(to), 0);
  ibv_poll_cq_attr none{};
  EXPECT_EQ(ibv_start_poll(cq, &none), ENOENT);
  ASSERT_EQ(near_.send(from, near_.handle(far_lid()), to->qp_num, "field"), 0);
  ASSERT_TRUE(eventually([&] { return ibv_start_poll(cq, &none) == 0; }));
  EXPECT_EQ(cq->wr_id, 7U);
  EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
  EXPECT_EQ(ibv_wc_read_byte_len(cq), kGrh + 5);
  EXPECT_EQ(ibv_wc_read_qp_num(cq), to->qp_num);
  EXPECT_EQ(ibv_wc_read_src_qp(cq), from->qp_num);
  EXPECT_EQ(ibv_wc_read_slid(cq), near_lid().value());
  EXPECT_EQ(ibv_wc_read_sl(cq), 0);
  EXPECT_EQ(ibv_wc_read_wc_flags(cq), 0U);
  EXPECT_EQ(ibv_wc_read_vendor_err(cq), 0U);
  EXPECT_EQ(ibv_wc_read_dlid_path_bits(cq), 0);
  EXPECT_EQ(ibv_next_poll(cq), ENOENT);
  ibv_end_poll(cq);
  none.comp_mask = 1;
  EXPECT_EQ(ibv_start_poll(cq, &none), EINVAL);
}

TEST_F(TrafficTest, ComputesAndReportsChecksums) {
  // UDP over IPv4 with checksums of 0.
  const std::string datagram(
      "\x08\0\0\0"
      "\x45\0\0\x1d\0\1\0\0\x40\x11\0\0\x0a\0\0\1\x0a\0\0\2"
      "\x12\x34\x56\x78\0\x09\0\0!",
      33);
  const std::string right(datagram.substr(0, 14) + "\x66\xcd" + datagram.substr(16, 14) +
                          "\x62\x2d" + datagram.substr(32));
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 8;
  attr.wc_flags = IBV_WC_STANDARD_FLAGS;
  auto* const cq = ibv_create_cq_ex(far_.context, &attr);
  auto init = far_.initial();
  init.recv_cq = ibv_cq_ex_to_cq(cq);
  auto* const to = ibv_create_qp(far_.pd, &init);
  Side::bring_up(to);
  auto* const from = near_.make_qp();
  auto* const ah = near_.handle(far_lid());
  for (const unsigned flag : {0U, unsigned{IBV_SEND_IP_CSUM}}) {
    ASSERT_EQ(far_.post_receive(to), 0);
    ASSERT_EQ(near_.send(from, ah, to->qp_num, datagram, flag), 0);
    ibv_poll_cq_attr none{};
    ASSERT_TRUE(eventually([&] { return ibv_start_poll(cq, &none) == 0; }));
    EXPECT_EQ(ibv_wc_read_wc_flags(cq), flag != 0 ? unsigned{IBV_WC_IP_CSUM_OK} : 0U);
    ibv_end_poll(cq);
    EXPECT_EQ(std::string(far_.memory.begin() + kGrh, far_.memory.begin() + kGrh + 33),
              flag != 0 ? right : datagram);
  }
  EXPECT_TRUE(std::equal(datagram.begin(), datagram.end(), near_.memory.begin() + 8192,
                         [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; }))
      << "the memory of the sender is not changed";
}

/// Takes each lock of the library in several threads, for the thread sanitizer.
TEST_F(TrafficTest, ServesThreadsWithQueuePairsOfTheirOwn) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this] {
      Side side(list_[0]);
      auto* const qp = side.make_qp();
      auto* const ah = side.handle(near_lid());
      for (int round = 0; round < kRounds; ++round) {
        ASSERT_EQ(side.post_receive(qp), 0);
        ASSERT_EQ(side.send(qp, ah, qp->qp_num, "round"), 0);
        ASSERT_EQ(side.next_completion().status, IBV_WC_SUCCESS);
        ASSERT_EQ(side.next_completion().status, IBV_WC_SUCCESS);
      }
      ASSERT_EQ(ibv_destroy_ah(ah), 0);
      ASSERT_EQ(ibv_destroy_qp(qp), 0);
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(TrafficTest, KeepsTheOrderOfEachThreadOnASharedQueuePair) {
  constexpr int kThreads = 3;
  constexpr int kRounds = 100;
  auto* const from = near_.make_qp();
  auto* const to = far_.make_qp();
  auto* const ah = near_.handle(far_lid());
  std::array<int, kThreads> last{-1, -1, -1};
  int received = 0;
  constexpr std::size_t kBuffer = 64;  // bytes of each receive; its id is the index
  for (std::uint64_t i = 0; i < 64; ++i)
    ASSERT_EQ(far_.post_receive(to, i * kBuffer, kBuffer, i), 0);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      std::array<std::uint8_t, 2> data{};
      ibv_sge sge{std::bit_cast<std::uint64_t>(data.data()), data.size(), 0};
      ibv_send_wr wr{};
      wr.sg_list = &sge;
      wr.num_sge = 1;
      wr.opcode = IBV_WR_SEND;
      wr.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
      wr.wr.ud = {ah, to->qp_num, kQKey};
      for (int round = 0; round < kRounds; ++round) {
        data = {static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(round)};
        ibv_send_wr* bad = nullptr;
        ASSERT_TRUE(eventually([&] { return ibv_post_send(from, &wr, &bad) != ENOMEM; }));
      }
    });
  }
  int sent = 0;
  ASSERT_TRUE(eventually([&] {
    ibv_wc wc{};
    sent += ibv_poll_cq(near_.cq, 1, &wc);
    if (ibv_poll_cq(far_.cq, 1, &wc) == 1) {
      const auto* const data = &far_.memory[wc.wr_id * kBuffer + kGrh];
      EXPECT_GT(int{data[1]}, last.at(data[0]));
      last.at(data[0]) = data[1];
      ++received;
      EXPECT_EQ(far_.post_receive(to, wc.wr_id * kBuffer, kBuffer, wc.wr_id), 0);
    }
    return sent == kThreads * kRounds && received > 0;
  }));
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace softib::verbs
