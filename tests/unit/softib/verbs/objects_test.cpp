// Devices, contexts, queries, and calls that fail.
#include <infiniband/softibdv.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>

#include "forked.hpp"
#include "softib/core/network_order.hpp"
#include "softib/hca/limits.hpp"
#include "softib/verbs/abi.hpp"
#include "verbs_fixture.hpp"

extern "C" {
int ibv_query_gid_type(ibv_context*, std::uint8_t, unsigned, int*);
int ibv_read_sysfs_file(const char*, const char*, char*, std::size_t);
int ibv_cmd_create_qp();
}

namespace softib::verbs {
namespace {

using ObjectsTest = VerbsTest;

TEST_F(ObjectsTest, ListsOneDeviceWithTheGuidOfTheNode) {
  int count = 0;
  auto** const list = ibv_get_device_list(&count);
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(list[1], nullptr);
  EXPECT_STREQ(ibv_get_device_name(list[0]), "softib0");
  EXPECT_EQ(list[0]->node_type, IBV_NODE_CA);
  EXPECT_EQ(list[0]->transport_type, IBV_TRANSPORT_IB);
  EXPECT_EQ(from_network(std::uint64_t{ibv_get_device_guid(list[0])}), 0x0002c90300000001U);
  EXPECT_EQ(ibv_get_device_index(list[0]), 0);
  EXPECT_EQ(list[0], list_[0]);
  ibv_free_device_list(list);
}

TEST_F(ObjectsTest, QueriesDeviceAndPort) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(near_.context, nullptr, &attr), 0);
  EXPECT_EQ(attr.orig_attr.max_qp, static_cast<int>(hca::kMaxQueuePairs));
  EXPECT_EQ(attr.orig_attr.max_sge, static_cast<int>(hca::kMaxSge));
  EXPECT_EQ(attr.orig_attr.max_srq, static_cast<int>(hca::kMaxSharedReceiveQueues));
  EXPECT_EQ(attr.orig_attr.max_srq_wr, static_cast<int>(hca::kMaxQueueWr));
  EXPECT_EQ(attr.orig_attr.max_srq_sge, static_cast<int>(hca::kMaxSge));
  EXPECT_EQ(attr.phys_port_cnt_ex, 1U);
  EXPECT_TRUE(attr.orig_attr.device_cap_flags & IBV_DEVICE_UD_IP_CSUM);
  EXPECT_TRUE(attr.device_cap_flags_ex & IBV_DEVICE_UD_IP_CSUM);
  EXPECT_EQ(attr.tso_caps.max_tso, kMaxTso);
  EXPECT_EQ(attr.tso_caps.supported_qpts, 1U << IBV_QPT_UD);
  EXPECT_EQ(attr.completion_timestamp_mask, ~std::uint64_t{0});
  EXPECT_EQ(attr.hca_core_clock, 1'000'000U) << "kHz";
  // A program that was built with a shorter structure gets only that.
  struct {
    ibv_device_attr_ex attr;
    std::array<std::uint8_t, 8> behind;
  } room{};
  std::memset(&room, 0x5a, sizeof room);
  const std::size_t shorter = offsetof(ibv_device_attr_ex, tso_caps);
  auto* const extended = verbs_get_ctx_op(near_.context, query_device_ex);
  ASSERT_NE(extended, nullptr);
  EXPECT_EQ(extended->query_device_ex(near_.context, nullptr, &room.attr, shorter), 0);
  EXPECT_TRUE(room.attr.device_cap_flags_ex & IBV_DEVICE_UD_IP_CSUM);
  EXPECT_EQ(room.attr.tso_caps.max_tso, 0x5a5a5a5aU);
  EXPECT_EQ(
      extended->query_device_ex(near_.context, nullptr, &room.attr, sizeof(ibv_device_attr) - 1),
      EINVAL);

  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(near_.context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.lid, near_lid().value());
  EXPECT_EQ(port.sm_lid, TestSubnet::lid(0).value());
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
  EXPECT_EQ(port.active_mtu, IBV_MTU_2048);
  EXPECT_EQ(port.gid_tbl_len, 1);
  EXPECT_EQ(port.pkey_tbl_len, kPKeyTableSize);
  EXPECT_EQ(port.max_vl_num, 1) << "VL0";
  EXPECT_EQ(ibv_query_port(near_.context, 2, &port), EINVAL);
}

TEST_F(ObjectsTest, QueriesThePortTables) {
  __be16 pkey = 0;
  ASSERT_EQ(ibv_query_pkey(near_.context, 1, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xffff);
  EXPECT_EQ(ibv_get_pkey_index(near_.context, 1, pkey), 0);
  EXPECT_EQ(ibv_get_pkey_index(near_.context, 1, to_network(std::uint16_t{0x8001})), -1);
  EXPECT_EQ(ibv_get_pkey_index(near_.context, 2, pkey), -1);
  EXPECT_EQ(ibv_query_pkey(near_.context, 1, -1, &pkey), -1);
  EXPECT_EQ(ibv_query_pkey(near_.context, 1, static_cast<int>(kPKeyTableSize), &pkey), -1);

  ibv_gid_entry entry{};
  ASSERT_EQ(ibv_query_gid_ex(near_.context, 1, 0, &entry, 0), 0);
  EXPECT_EQ(from_network(std::uint64_t{entry.gid.global.subnet_prefix}), Gid::kLinkLocalPrefix);
  EXPECT_EQ(entry.gid_type, std::uint32_t{IBV_GID_TYPE_IB});
  EXPECT_EQ(ibv_query_gid_ex(near_.context, 1, 1, &entry, 0), EINVAL);
  EXPECT_EQ(ibv_query_gid_ex(near_.context, 1, 0, &entry, 1), EOPNOTSUPP);
  EXPECT_EQ(ibv_query_gid_table(near_.context, &entry, 1, 0), 1);
  EXPECT_EQ(ibv_query_gid_table(near_.context, &entry, 0, 0), -EINVAL);
  int type = -1;
  EXPECT_EQ(ibv_query_gid_type(near_.context, 1, 0, &type), 0);
  EXPECT_EQ(type, 0);
  EXPECT_EQ(ibv_query_gid_type(near_.context, 1, 1, &type), -1);
}

TEST_F(ObjectsTest, AnEthernetPortHasEmptyGids) {
  ibv_gid_entry entry{};
  const auto become = [&](LinkLayer layer, const Gid& gid, std::uint32_t gid_type) {
    VerbsSubnet::instance().change_port([&](PortAttributes& port) {
      port.link_layer = layer;
      port.gids[0] = gid;
    });
    EXPECT_TRUE(eventually([&] {
      return ibv_query_gid_ex(near_.context, 1, 0, &entry, 0) == 0 && entry.gid_type == gid_type;
    }));
  };
  become(LinkLayer::ethernet, Gid(0, Guid(0xffff'0a00'0001)), IBV_GID_TYPE_ROCE_V2);
  EXPECT_EQ(ibv_query_gid_ex(near_.context, 1, 1, &entry, 0), ENODATA);
  EXPECT_STREQ(
      softibdv_last_error(),
      "_ibv_query_gid_ex: ENODATA: the entry of the GID table is empty: try another index");
  become(LinkLayer::infiniband, {}, IBV_GID_TYPE_IB);
}

/// Programs and inline functions of verbs.h read these members of the public structures.
TEST_F(ObjectsTest, FillsInTheReferencesBetweenObjects) {
  EXPECT_EQ(near_.pd->context, near_.context);
  EXPECT_EQ(near_.channel->context, near_.context);
  EXPECT_EQ(near_.cq->context, near_.context);
  EXPECT_EQ(near_.cq->channel, near_.channel);
  EXPECT_EQ(near_.cq->cq_context, &near_);
  EXPECT_EQ(near_.mr->context, near_.context);
  EXPECT_EQ(near_.mr->pd, near_.pd);
  const auto* const qp = near_.make_qp();
  EXPECT_EQ(qp->context, near_.context);
  EXPECT_EQ(qp->pd, near_.pd);
  EXPECT_EQ(qp->send_cq, near_.cq);
  EXPECT_EQ(qp->recv_cq, near_.cq);
  const auto* const ah = near_.handle(far_lid());
  EXPECT_EQ(ah->context, near_.context);
  EXPECT_EQ(ah->pd, near_.pd);
}

TEST_F(ObjectsTest, QueriesAQueuePair) {
  auto init = near_.initial();
  init.sq_sig_all = 1;
  init.qp_context = &init;
  auto* const qp = ibv_create_qp(near_.pd, &init);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(qp->state, IBV_QPS_RESET);
  EXPECT_EQ(qp->qp_context, &init);
  EXPECT_EQ(ibv_qp_to_qp_ex(qp), nullptr);
  Side::bring_up(qp);
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
  ibv_qp_attr attr{};
  ibv_qp_init_attr out{};
  ASSERT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &out), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.qkey, kQKey);
  EXPECT_EQ(out.cap.max_send_wr, 64U);
  EXPECT_EQ(out.cap.max_send_wr, attr.cap.max_send_wr);
  EXPECT_EQ(out.send_cq, near_.cq);
  EXPECT_EQ(out.recv_cq, near_.cq);
  EXPECT_EQ(out.srq, nullptr);
  EXPECT_EQ(out.qp_type, IBV_QPT_UD);
  EXPECT_EQ(out.sq_sig_all, 1);
  attr.qp_state = IBV_QPS_INIT;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
}

TEST_F(ObjectsTest, ReregistersMemory) {
  std::vector<std::uint8_t> other_memory(100);
  ASSERT_EQ(
      ibv_rereg_mr(near_.mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, other_memory.data(), 100, 0),
      0);
  EXPECT_EQ(near_.mr->addr, other_memory.data());
  EXPECT_EQ(near_.mr->length, 100U);
  auto* const other = ibv_alloc_pd(near_.context);
  ASSERT_EQ(ibv_rereg_mr(near_.mr, IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0), 0);
  EXPECT_EQ(near_.mr->pd, other);
  EXPECT_EQ(ibv_rereg_mr(near_.mr, 0, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(near_.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                         IBV_ACCESS_REMOTE_WRITE),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_dealloc_pd(other), EBUSY);
  ASSERT_EQ(ibv_dereg_mr(near_.mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
}

TEST_F(ObjectsTest, ResizesACompletionQueue) {
  auto* const cq = ibv_create_cq(near_.context, 10, nullptr, nullptr, 0);
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(cq->cqe, 15);
  EXPECT_EQ(ibv_resize_cq(cq, 20), 0);
  EXPECT_EQ(cq->cqe, 31);
  EXPECT_EQ(ibv_resize_cq(cq, static_cast<int>(hca::kMaxCqe) + 1), EINVAL);
  EXPECT_EQ(cq->cqe, 31) << "as before";
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(ObjectsTest, TellsTheCapabilitiesOfAQueuePair) {
  auto init = near_.initial();
  init.cap.max_inline_data = 0;
  auto* const qp = ibv_create_qp(near_.pd, &init);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(init.cap.max_inline_data, 2 * sizeof(ibv_sge));
  EXPECT_EQ(init.cap.max_send_wr, 64U);
}

/// Not atomic with respect to what other adapters would write.
TEST_F(ObjectsTest, AtomicOperationsAreThoseOfTheHca) {
  ibv_device_attr attr{};
  ASSERT_EQ(ibv_query_device(near_.context, &attr), 0);
  EXPECT_EQ(attr.atomic_cap, IBV_ATOMIC_HCA);
}

TEST_F(ObjectsTest, RejectsUnsupportedCalls) {
  EXPECT_EQ(ibv_cmd_create_qp(), EOPNOTSUPP);
  for (const auto type : {IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER}) {
    auto init = near_.initial();
    init.qp_type = type;
    errno = 0;
    EXPECT_EQ(ibv_create_qp(near_.pd, &init), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
  ibv_cq_init_attr_ex cq{};
  cq.cqe = 1;
  cq.wc_flags = IBV_WC_EX_WITH_CVLAN;
  EXPECT_EQ(ibv_create_cq_ex(near_.context, &cq), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  cq = {};
  cq.cqe = 1;
  cq.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  cq.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  errno = 0;
  EXPECT_EQ(ibv_create_cq_ex(near_.context, &cq), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(ObjectsTest, RejectsInvalidArguments) {
  EXPECT_EQ(ibv_create_cq(near_.context, 0, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_create_cq(near_.context, 1, nullptr, nullptr, 1), nullptr);
  EXPECT_EQ(ibv_create_cq(near_.context, 1, nullptr, nullptr, -1), nullptr);
  EXPECT_EQ(ibv_rereg_mr(near_.mr, 0x80, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  ibv_wc none{};
  EXPECT_EQ(ibv_poll_cq(near_.cq, -1, &none), -1);
  EXPECT_EQ(ibv_resize_cq(near_.cq, -1), EINVAL);
  EXPECT_EQ(ibv_resize_cq(near_.cq, 200), 0);
  EXPECT_EQ(near_.cq->cqe, 255);
  auto init = near_.initial();
  init.send_cq = nullptr;
  EXPECT_EQ(ibv_create_qp(near_.pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_ah_attr ah{};
  ah.port_num = 2;
  EXPECT_EQ(ibv_create_ah(near_.pd, &ah), nullptr);
  EXPECT_EQ(ibv_reg_mr(near_.pd, near_.memory.data(), SIZE_MAX, 0), nullptr);
  EXPECT_EQ(ibv_dealloc_pd(near_.pd), EBUSY);
}

TEST_F(ObjectsTest, ClosingAContextDestroysItsObjects) {
  Side left(list_[0]);
  auto* const qp = left.make_qp();
  ibv_gid group{};
  group.raw[0] = 0xff;
  ASSERT_EQ(ibv_attach_mcast(qp, &group, 0xc000), 0);
  ASSERT_EQ(left.post_receive(qp), 0);
  (void)left.handle(far_lid());
  const auto number = qp->qp_num;
  ASSERT_EQ(ibv_close_device(std::exchange(left.context, nullptr)), 0);
  // Packets for its queue pair are dropped.
  const auto before = near_drops();
  ASSERT_EQ(far_.send(far_.make_qp(), far_.handle(near_lid()), number, "late"), 0);
  EXPECT_TRUE(eventually([&] { return near_drops() > before; }));
}

/// A program that opens and closes the device again and again must not exhaust the HCA.
TEST_F(ObjectsTest, ClosedContextsLeaveNothingInTheHca) {
  std::uint8_t round = 0;
  const auto use_all = [&] {
    ++round;
    Side left(list_[0]);
    std::vector<ibv_mr*> regions;
    for (auto* mr = left.mr; mr != nullptr;) {
      mr = ibv_reg_mr(left.pd, left.memory.data(), left.memory.size(), IBV_ACCESS_LOCAL_WRITE);
      if (mr != nullptr) regions.push_back(mr);
    }
    std::size_t handles = 0;
    ibv_ah_attr attr{};
    attr.dlid = far_lid().value();
    attr.port_num = 1;
    while (ibv_create_ah(left.pd, &attr) != nullptr) ++handles;
    auto* const qp = left.make_qp();
    std::size_t groups = 0;
    ibv_gid group{};
    group.raw[0] = 0xff;
    group.raw[8] = round;
    for (std::uint32_t i = 0; i < 100'000; ++i) {
      std::memcpy(&group.raw[12], &i, sizeof i);
      if (ibv_attach_mcast(qp, &group, 0xc000) != 0) break;
      ++groups;
    }
    std::size_t domains = 0;
    while (ibv_alloc_pd(left.context) != nullptr) ++domains;
    return std::array{regions.size(), handles, groups, domains};
  };
  const auto first = use_all();
  for (const auto number : first) EXPECT_GT(number, 0U);
  EXPECT_EQ(use_all(), first);
}

TEST_F(ObjectsTest, GivesAChildItsOwnDevice) {
  if (!kForkIsSafe) GTEST_SKIP() << kForkIsUnsafe;
  const auto slot = QpnLayout::slot(Qpn(near_.make_qp()->qp_num));
  const auto open_one = [&] {
    auto** const list = ibv_get_device_list(nullptr);
    auto* const context = list == nullptr ? nullptr : ibv_open_device(list[0]);
    auto* const pd = context == nullptr ? nullptr : ibv_alloc_pd(context);
    auto* const cq = pd == nullptr ? nullptr : ibv_create_cq(context, 1, nullptr, nullptr, 0);
    ibv_qp_init_attr init{};
    init.send_cq = cq;
    init.recv_cq = cq;
    init.qp_type = IBV_QPT_UD;
    auto* const qp = cq == nullptr ? nullptr : ibv_create_qp(pd, &init);
    return qp != nullptr && QpnLayout::slot(Qpn(qp->qp_num)) != slot ? 0 : 1;
  };
  EXPECT_EQ(in_child(open_one), 0);
}

TEST_F(ObjectsTest, AChildCanQueryTheDeviceOfItsParent) {
  if (!kForkIsSafe) GTEST_SKIP() << kForkIsUnsafe;
  const auto query = [&] {
    ibv_device_attr attr{};
    return ibv_query_device(near_.context, &attr);
  };
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop) EXPECT_EQ(query(), 0);
  });
  int failed = 0;
  for (int i = 0; i < 100 && failed == 0; ++i) {
    failed = in_child([&] {
      ::alarm(10);
      return query();
    });
  }
  stop = true;
  busy.join();
  EXPECT_EQ(failed, 0);
}

TEST_F(ObjectsTest, ListsNothingWithoutAnHca) {
  if (!kForkIsSafe) GTEST_SKIP() << kForkIsUnsafe;
  const auto list_devices = [] {
    ::unsetenv("SOFTIB_HCA");
    int count = 7;
    auto** const list = ibv_get_device_list(&count);
    return list == nullptr && errno == ENODEV && count == 0 ? 0 : 1;
  };
  EXPECT_EQ(in_child(list_devices), 0);
}

TEST_F(ObjectsTest, ReportsDatagramsWithoutAReceiveInSysfs) {
  const auto read = [&] {
    std::array<char, 32> text{};
    EXPECT_GT(ibv_read_sysfs_file(list_[0]->ibdev_path, "ports/1/hw_counters/out_of_buffer",
                                  text.data(), text.size()),
              0);
    return std::stoull(text.data());
  };
  const auto before = read();
  endpoint::process_endpoint().value()->count(fabric::PortCounter::drop_no_receive, 12);
  EXPECT_EQ(read(), before + 12);
  // Datagrams for a queue pair without a receive, in several batches.
  auto* const qp = near_.make_qp();
  for (std::uint64_t i = 1; i <= 3; ++i) {
    ASSERT_EQ(far_.send(far_.make_qp(), far_.handle(near_lid()), qp->qp_num, "lost"), 0);
    EXPECT_TRUE(eventually([&] { return read() >= before + 12 + i; }));
    EXPECT_EQ(read(), before + 12 + i) << "each is counted once";
  }
}

TEST_F(ObjectsTest, ReturnsAttributesOfTheDeviceAndReadsOtherFiles) {
  std::array<char, 16> text{};
  const auto read = [&](const char* folder, const char* file) {
    return ibv_read_sysfs_file(folder, file, text.data(), text.size());
  };
  EXPECT_EQ(read("/sys/class/infiniband/softib0", "board_id"), 6);
  EXPECT_STREQ(text.data(), "SOFTIB");
  EXPECT_EQ(read("/sys/class/infiniband/softib0", "no_such"), -1);
  EXPECT_GT(read("/proc/sys/kernel", "ostype"), 0);
  EXPECT_STREQ(text.data(), "Linux");
  EXPECT_EQ(read("/nowhere", "file"), -1);
  EXPECT_EQ(ibv_read_sysfs_file("/sys/class/infiniband/softib0", "board_id", text.data(), 4), 3);
  EXPECT_STREQ(text.data(), "SOF");
  for (const auto* folder : {"/sys/class/infiniband/softib0", "/proc/sys/kernel"}) {
    const auto* const file = *(folder + 1) == 's' ? "board_id" : "ostype";
    EXPECT_EQ(ibv_read_sysfs_file(folder, file, text.data(), 0), -1);
    EXPECT_EQ(text[0], 'S') << "there is no room for anything";
    EXPECT_EQ(ibv_read_sysfs_file(folder, file, text.data(), 1), 0);
    EXPECT_EQ(std::exchange(text[0], 'S'), 0);
  }
  text.fill('x');
  EXPECT_EQ(ibv_read_sysfs_file("/sys/class/infiniband/softib0", "board_id", text.data(), 6), 5);
  EXPECT_EQ(text[5], '\0');
  EXPECT_EQ(text[6], 'x') << "nothing is written behind the buffer";
  EXPECT_EQ(ibv_read_sysfs_file("/proc/sys/kernel", "ostype", text.data(), 0), -1);
}

TEST(EnumStrings, ConvertsRates) {
  for (const auto rate : {IBV_RATE_2_5_GBPS, IBV_RATE_10_GBPS, IBV_RATE_40_GBPS, IBV_RATE_14_GBPS,
                          IBV_RATE_100_GBPS, IBV_RATE_1200_GBPS}) {
    EXPECT_EQ(mult_to_ibv_rate(ibv_rate_to_mult(rate)), rate);
    EXPECT_EQ(mbps_to_ibv_rate(ibv_rate_to_mbps(rate)), rate);
  }
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_40_GBPS), 16);
  EXPECT_EQ(ibv_rate_to_mbps(IBV_RATE_40_GBPS), 40000);
  EXPECT_EQ(ibv_rate_to_mbps(IBV_RATE_MAX), -1);
  EXPECT_EQ(mult_to_ibv_rate(3), IBV_RATE_MAX);
}

TEST(EnumStrings, NamesKnownAndUnknownValues) {
  EXPECT_STREQ(ibv_wc_status_str(IBV_WC_LOC_LEN_ERR), "local length error");
  EXPECT_STREQ(ibv_wc_status_str(static_cast<ibv_wc_status>(31)), "unknown");
  EXPECT_STREQ(ibv_event_type_str(IBV_EVENT_WQ_FATAL), "WQ fatal");
  EXPECT_STREQ(ibv_event_type_str(static_cast<ibv_event_type>(31)), "unknown");
  EXPECT_STREQ(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
  EXPECT_STREQ(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
}

TEST(Verb, TurnsExceptionsIntoErrors) {
  using ipoib::Result;
  const auto throwing = [](auto exception) {
    return verbs::verb([&]() -> Result<void> { throw exception; }, "ibv_x");
  };
  EXPECT_EQ(throwing(std::bad_alloc()), ENOMEM);
  EXPECT_STREQ(softibdv_last_error(), "ibv_x: ENOMEM: no memory");
  EXPECT_EQ(throwing(std::runtime_error("")), EIO);
  EXPECT_STREQ(softibdv_last_error(), "ibv_x: EIO: an unexpected exception");
  EXPECT_EQ(throwing(std::system_error(EMFILE, std::generic_category(), "epoll")), EMFILE);
  EXPECT_EQ(errno, EMFILE);
  EXPECT_STREQ(softibdv_last_error(), "ibv_x: EMFILE: epoll: Too many open files");
  EXPECT_EQ(verbs::verb([]() -> Result<int*> { throw std::bad_alloc(); }), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

}  // namespace
}  // namespace softib::verbs
