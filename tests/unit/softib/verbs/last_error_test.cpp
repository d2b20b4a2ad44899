// Why verbs fail, as softibdv_last_error() returns it and SOFTIB_LOG prints it.
#include <fcntl.h>
#include <infiniband/softibdv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "softib/verbs/abi.hpp"
#include "verbs_fixture.hpp"

namespace softib::verbs {
namespace {

using endpoint::kPrintedPerSecond;
using endpoint::PrintLimit;
using testing::HasSubstr;
using testing::StartsWith;

int fail_with(const char* why) {
  return verb([&]() -> ipoib::Result<void> { return ipoib::Error{EBUSY, why}; }, "some_verb");
}

/// What is written to the standard error meanwhile.
template <class Work>
std::string printed_by(Work work) {
  testing::internal::CaptureStderr();
  work();
  return testing::internal::GetCapturedStderr();
}

class LastErrorTest : public VerbsTest {
 protected:
  ~LastErrorTest() override { ::unsetenv("SOFTIB_LOG"); }
};

TEST_F(LastErrorTest, HasVerbErrnoAndReason) {
  EXPECT_EQ(fail_with("it is in use"), EBUSY);
  EXPECT_STREQ(softibdv_last_error(), "some_verb: EBUSY: it is in use");
  ibv_qp_init_attr attr{};
  attr.qp_type = IBV_QPT_RAW_PACKET;
  EXPECT_EQ(ibv_create_qp(near_.pd, &attr), nullptr);
  EXPECT_STREQ(softibdv_last_error(),
               "ibv_create_qp: EOPNOTSUPP: such a queue pair is not supported");
}

/// What a verb says that must fail, which `call` has called.
std::string reason_of(bool has_failed) {
  EXPECT_TRUE(has_failed);
  return has_failed ? softibdv_last_error() : "";
}

TEST_F(LastErrorTest, SaysWhichObjectsAreInUse) {
  auto* const qp = near_.make_qp();
  ibv_gid group{};
  group.raw[0] = 0xff;
  group.raw[15] = 1;
  ASSERT_EQ(ibv_attach_mcast(qp, &group, 0xc001), 0);
  EXPECT_THAT(reason_of(ibv_destroy_qp(qp) != 0),
              HasSubstr("EBUSY: the queue pair is attached to multicast groups"));
  EXPECT_THAT(
      reason_of(ibv_attach_mcast(qp, &group, 1) != 0),
      HasSubstr("a queue pair can only be attached to a multicast GID with a multicast LID"));
  ASSERT_EQ(ibv_detach_mcast(qp, &group, 0xc001), 0);
  EXPECT_THAT(reason_of(ibv_detach_mcast(qp, &group, 0xc001) != 0),
              HasSubstr("the queue pair is not attached to this group"));
  EXPECT_THAT(reason_of(ibv_dealloc_pd(near_.pd) != 0),
              HasSubstr("EBUSY: the protection domain is in use"));
  EXPECT_THAT(reason_of(ibv_destroy_cq(near_.cq) != 0),
              HasSubstr("EBUSY: queue pairs complete to the completion queue"));
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  EXPECT_THAT(reason_of(ibv_modify_qp(qp, &attr, IBV_QP_STATE) != 0),
              HasSubstr("invalid transition, or attributes that it does not allow"));
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(LastErrorTest, SaysWhichLimitsAndAttributesAreWrong) {
  auto* const context = near_.context;
  EXPECT_THAT(reason_of(ibv_create_cq(context, 0, nullptr, nullptr, 0) == nullptr),
              HasSubstr("EINVAL: a completion queue has 1 to "));
  EXPECT_THAT(reason_of(ibv_create_cq(context, 1, nullptr, near_.channel, 99) == nullptr),
              HasSubstr("no such completion vector"));
  EXPECT_THAT(reason_of(ibv_resize_cq(near_.cq, 0) != 0),
              HasSubstr("a completion queue must hold what is in it, and at most "));
  ibv_qp_init_attr init = near_.initial();
  init.cap.max_send_wr = UINT32_MAX;
  EXPECT_THAT(
      reason_of(ibv_create_qp(near_.pd, &init) == nullptr),
      HasSubstr("work requests, scatter elements, inline data or headers exceed the HCA's limits"));
  init = near_.initial();
  init.recv_cq = nullptr;
  EXPECT_THAT(
      reason_of(ibv_create_qp(near_.pd, &init) == nullptr),
      HasSubstr("a queue pair needs a protection domain and completion queues, or an XRC domain"));
  ibv_srq_init_attr shared{};
  shared.attr = {UINT32_MAX, 1, 0};
  EXPECT_THAT(reason_of(ibv_create_srq(near_.pd, &shared) == nullptr),
              HasSubstr("work requests, scatter elements or the limit exceed the HCA's limits"));
  EXPECT_THAT(
      reason_of(ibv_reg_mr(near_.pd, near_.memory.data(), 1, IBV_ACCESS_REMOTE_WRITE) == nullptr),
      HasSubstr("invalid access flags for a memory region"));
  ibv_alloc_dm_attr memory{};
  EXPECT_THAT(reason_of(ibv_alloc_dm(context, &memory) == nullptr),
              HasSubstr("the length is 0, or the alignment is too large"));
  memory.length = SIZE_MAX / 2;
  EXPECT_THAT(reason_of(ibv_alloc_dm(context, &memory) == nullptr),
              HasSubstr("not that much device memory is left"));
}

/// A page that is not mapped.
void* no_memory(std::size_t size) {
  void* const page = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ::munmap(page, size);
  return page;
}

TEST_F(LastErrorTest, SaysWhatIsWrongWithMemory) {
  constexpr std::size_t kPage = 4096;
  constexpr auto kNotMapped = "the memory is not mapped, or not all of it: map it before";
  auto* const pd = near_.pd;
  auto* const data = near_.memory.data();
  EXPECT_THAT(reason_of(ibv_reg_mr(pd, no_memory(kPage), kPage, 0) == nullptr),
              HasSubstr(kNotMapped));
  EXPECT_THAT(reason_of(ibv_reg_mr_iova(pd, data, 2, UINT64_MAX, 0) == nullptr),
              HasSubstr("the memory region wraps around the end of the address space: address "
                        "plus length must fit 64 bits"));
  EXPECT_THAT(reason_of(ibv_rereg_mr(near_.mr, 0, nullptr, nullptr, 0, 0) != 0),
              HasSubstr("the flags name no change, or an unknown one: at least one of "
                        "IBV_REREG_MR_CHANGE_... is needed"));
  const auto key = std::exchange(near_.mr->lkey, 0);
  EXPECT_THAT(reason_of(ibv_rereg_mr(near_.mr, IBV_REREG_MR_CHANGE_PD, pd, nullptr, 0, 0) != 0),
              HasSubstr("no memory region has this key"));
  near_.mr->lkey = key;
  void* const pages = ::mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* const on_demand = ibv_reg_mr(pd, pages, kPage, IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(on_demand, nullptr);
  ::munmap(pages, kPage);
  ibv_sge element{reinterpret_cast<std::uintptr_t>(pages), 1, on_demand->lkey};
  const auto advise = [&](std::uint32_t flags, std::uint32_t count) {
    return ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, flags, &element, count) != 0;
  };
  EXPECT_THAT(reason_of(advise(0, 0)),
              HasSubstr("the only flag is IBV_ADVISE_MR_FLAG_FLUSH, and at "
                        "least one element is needed"));
  EXPECT_THAT(reason_of(advise(IBV_ADVISE_MR_FLAG_FLUSH, 1)), HasSubstr(kNotMapped));
  element.lkey = near_.mr->lkey;
  EXPECT_THAT(reason_of(advise(0, 1)),
              HasSubstr("an element is not within an on-demand region (IBV_ACCESS_ON_DEMAND) of "
                        "the protection domain that permits the access"));
  EXPECT_EQ(ibv_dereg_mr(on_demand), 0);
}

TEST_F(LastErrorTest, SaysWhatIsWrongWithDeviceMemoryAndWindows) {
  ibv_alloc_dm_attr attr{};
  attr.length = 4096;
  attr.comp_mask = 1;
  EXPECT_THAT(reason_of(ibv_alloc_dm(near_.context, &attr) == nullptr),
              HasSubstr("the device memory has unknown attributes: comp_mask must be 0"));
  attr.comp_mask = 0;
  auto* const memory = ibv_alloc_dm(near_.context, &attr);
  ASSERT_NE(memory, nullptr);
  const auto add = [&](std::uint64_t offset, unsigned access) {
    return ibv_reg_dm_mr(near_.pd, memory, offset, 100, access);
  };
  EXPECT_THAT(reason_of(add(0, 0) == nullptr),
              HasSubstr("a region of device memory must be zero-based (IBV_ACCESS_ZERO_BASED) and "
                        "within that memory"));
  EXPECT_THAT(reason_of(add(0, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND) == nullptr),
              HasSubstr("device memory is always present: leave out IBV_ACCESS_ON_DEMAND"));
  auto* const region = add(0, IBV_ACCESS_ZERO_BASED);
  ASSERT_NE(region, nullptr);
  EXPECT_THAT(reason_of(ibv_free_dm(memory) != 0),
              HasSubstr("memory regions are on the device memory: deregister them before"));
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  EXPECT_EQ(ibv_free_dm(memory), 0);

  auto* const qp = near_.make_qp();
  auto* const window = ibv_alloc_mw(near_.pd, IBV_MW_TYPE_1);
  ASSERT_NE(window, nullptr);
  ibv_mw_bind bind{};
  EXPECT_THAT(reason_of(ibv_bind_mw(qp, window, &bind) != 0),
              HasSubstr("the request to bind the window cannot be posted: it needs "));
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(LastErrorTest, SaysWhatIsWrongWithParentDomains) {
  auto* const context = near_.context;
  ibv_td_init_attr thread{};
  thread.comp_mask = 1;
  EXPECT_THAT(reason_of(ibv_alloc_td(context, &thread) == nullptr),
              HasSubstr("the thread domain has unknown attributes: comp_mask must be 0"));
  thread.comp_mask = 0;
  auto* const td = ibv_alloc_td(context, &thread);
  ibv_parent_domain_init_attr attr{};
  attr.td = td;
  EXPECT_THAT(reason_of(ibv_alloc_parent_domain(context, &attr) == nullptr),
              HasSubstr("a parent domain needs a protection domain of its context, which is no "
                        "parent domain itself"));
  attr.pd = near_.pd;
  attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
  EXPECT_THAT(reason_of(ibv_alloc_parent_domain(context, &attr) == nullptr),
              HasSubstr("an allocator needs both functions, alloc and free"));
  attr.comp_mask = 0;
  auto* const parent = ibv_alloc_parent_domain(context, &attr);
  ASSERT_NE(parent, nullptr);
  EXPECT_THAT(reason_of(ibv_dealloc_td(td) != 0),
              HasSubstr("a parent domain uses the thread domain: deallocate it before"));
  auto* const mr = ibv_reg_mr(parent, near_.memory.data(), 1, 0);
  EXPECT_THAT(reason_of(ibv_dealloc_pd(parent) != 0),
              HasSubstr("objects use the parent domain: destroy them before"));
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
}

TEST_F(LastErrorTest, SaysWhatIsWrongWithQueries) {
  auto* const context = near_.context;
  ibv_query_device_ex_input input{.comp_mask = 1};
  ibv_device_attr_ex device{};
  EXPECT_THAT(reason_of(verbs_get_ctx(context)->query_device_ex(context, &input, &device,
                                                                sizeof device) != 0),
              HasSubstr("the input has unknown attributes: comp_mask must be 0"));
  EXPECT_THAT(reason_of(verbs_get_ctx(context)->query_device_ex(context, nullptr, &device, 1) != 0),
              HasSubstr("the structure for the attributes is too short: build with the headers of "
                        "rdma-core 13 or later"));
  constexpr auto kNoPort = "the HCA has no such port: ibv_query_device() says how many it has";
  ibv_port_attr port{};
  EXPECT_THAT(reason_of(ibv_query_port(context, 3, &port) != 0), HasSubstr(kNoPort));
  ibv_ah_attr address{};
  address.dlid = 1;
  address.port_num = 3;
  EXPECT_THAT(reason_of(ibv_create_ah(near_.pd, &address) == nullptr), HasSubstr(kNoPort));
  ibv_gid gid{};
  EXPECT_THAT(reason_of(ibv_query_gid(context, 1, 9999, &gid) != 0),
              HasSubstr("the port has no such entry in its GID table: gid_tbl_len says how many"));
  __be16 pkey = 0;
  EXPECT_THAT(reason_of(ibv_query_pkey(context, 1, 9999, &pkey) != 0),
              HasSubstr("the port has no such entry in its P_Key table: pkey_tbl_len says how"));
  EXPECT_THAT(reason_of(ibv_destroy_comp_channel(near_.channel) != 0),
              HasSubstr("completion queues use the channel: destroy them before"));
}

TEST_F(LastErrorTest, SaysWhatIsWrongWithSharedReceivesAndDomains) {
  auto* const context = near_.context;
  ibv_srq_init_attr basic{};
  basic.attr = {4, 1, 0};
  auto* const srq = ibv_create_srq(near_.pd, &basic);
  ASSERT_NE(srq, nullptr);
  ibv_srq_attr change{0, 0, 9999};
  EXPECT_THAT(reason_of(ibv_modify_srq(srq, &change, IBV_SRQ_LIMIT) != 0),
              HasSubstr("a shared receive queue must hold what is in it, and its limit"));
  auto init = near_.initial();
  init.srq = srq;
  auto* user = ibv_create_qp(near_.pd, &init);
  EXPECT_THAT(reason_of(ibv_destroy_srq(srq) != 0),
              HasSubstr("queue pairs use the shared receive queue: destroy them before"));
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  EXPECT_THAT(reason_of(softibdv_post_large_recv(user, &wr, &bad) != 0),
              HasSubstr("the large receive cannot be posted: it needs "));
  EXPECT_EQ(ibv_destroy_qp(user), 0);
  init = near_.initial();
  init.qp_type = IBV_QPT_RC;
  user = ibv_create_qp(near_.pd, &init);
  ibv_gid group{};
  group.raw[0] = 0xff;
  EXPECT_THAT(reason_of(ibv_attach_mcast(user, &group, 0xc001) != 0),
              HasSubstr("only a queue pair of datagrams (IBV_QPT_UD) can be attached to a "
                        "multicast group"));
  EXPECT_EQ(ibv_destroy_qp(user), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);

  ibv_srq_init_attr_ex extended{};
  extended.pd = near_.pd;
  extended.comp_mask = IBV_SRQ_INIT_ATTR_CQ;
  EXPECT_THAT(reason_of(ibv_create_srq_ex(context, &extended) == nullptr),
              HasSubstr("a basic shared receive queue is created with ibv_create_srq(), or without "
                        "other attributes than type and protection domain"));
  extended.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
  extended.srq_type = IBV_SRQT_XRC;
  EXPECT_THAT(reason_of(ibv_create_srq_ex(context, &extended) == nullptr),
              HasSubstr("an XRC shared receive queue needs a protection domain, an XRC domain and "
                        "a completion queue"));
  constexpr std::uint32_t kMask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  const auto open_domain = [&](std::uint32_t mask, int fd, int flags) {
    ibv_xrcd_init_attr attr{mask, fd, flags};
    return ibv_open_xrcd(context, &attr);
  };
  EXPECT_THAT(reason_of(open_domain(IBV_XRCD_INIT_ATTR_FD, -1, O_CREAT) == nullptr),
              HasSubstr("an XRC domain needs fd and oflags: set both bits in comp_mask"));
  EXPECT_THAT(reason_of(open_domain(kMask, 1 << 20, O_CREAT) == nullptr),
              HasSubstr("the XRC domain needs a descriptor of a file, or -1"));
  const ipoib::FileDescriptor file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(reason_of(open_domain(kMask, file.get(), 0) == nullptr),
              HasSubstr("this file has no XRC domain: create it with O_CREAT"));
  auto* const domain = open_domain(kMask, file.get(), O_CREAT);
  ASSERT_NE(domain, nullptr);
  EXPECT_THAT(reason_of(open_domain(kMask, file.get(), O_CREAT | O_EXCL) == nullptr),
              HasSubstr("the XRC domain of this file exists: open it without O_EXCL"));
  ibv_qp_init_attr_ex target{};
  target.qp_type = IBV_QPT_XRC_RECV;
  target.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  target.xrcd = domain;
  user = ibv_create_qp_ex(context, &target);
  EXPECT_THAT(reason_of(ibv_close_xrcd(domain) != 0),
              HasSubstr("queues and queue pairs use the XRC domain: destroy them before"));
  EXPECT_EQ(ibv_destroy_qp(user), 0);
  EXPECT_EQ(ibv_close_xrcd(domain), 0);
}

TEST_F(LastErrorTest, SaysThatTheHcaHasFailed) {
  const auto set_failed = [&](bool failed) {
    subnet_.subnet.set_failed(1, failed);
    (void)subnet_.other_endpoint->wake_processes(1);
  };
  set_failed(true);
  ibv_port_attr port{};
  EXPECT_TRUE(eventually([&] { return ibv_query_port(near_.context, 1, &port) == EIO; }));
  constexpr auto kFailed =
      "EIO: the HCA has failed: open its device again when it is back (softib set hca NAME "
      "present)";
  EXPECT_THAT(softibdv_last_error(), HasSubstr(kFailed));
  ibv_srq_init_attr shared{};
  shared.attr = {4, 1, 0};
  EXPECT_THAT(reason_of(ibv_create_srq(near_.pd, &shared) == nullptr), HasSubstr(kFailed));
  EXPECT_THAT(reason_of(ibv_alloc_mw(near_.pd, IBV_MW_TYPE_1) == nullptr), HasSubstr(kFailed));
  EXPECT_THAT(reason_of(ibv_alloc_pd(near_.context) == nullptr), HasSubstr(kFailed));
  set_failed(false);
}

TEST_F(LastErrorTest, NamesAVerbThatPosts) {
  auto* const qp = near_.make_qp();
  ibv_send_wr wr{};
  ibv_send_wr* bad = nullptr;
  wr.opcode = IBV_WR_RDMA_READ;
  EXPECT_EQ(ibv_post_send(qp, &wr, &bad), EINVAL);
  EXPECT_THAT(softibdv_last_error(), StartsWith("ibv_post_send: EINVAL: "));
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(LastErrorTest, IsThatOfTheThread) {
  (void)fail_with("here");
  std::string before;
  std::string after;
  std::thread([&] {
    before = softibdv_last_error();
    (void)fail_with("there");
    after = softibdv_last_error();
  }).join();
  EXPECT_EQ(before, "");
  EXPECT_THAT(after, HasSubstr("there"));
  EXPECT_THAT(softibdv_last_error(), HasSubstr("here"));
}

TEST_F(LastErrorTest, IsCutIfItIsTooLong) {
  (void)fail_with(std::string(1000, 'x').c_str());
  EXPECT_EQ(std::strlen(softibdv_last_error()), SOFTIBDV_MAX_ERROR_TEXT - 1U);
}

TEST_F(LastErrorTest, IsPrintedOnlyWithSoftibLog) {
  const auto fail = [] { (void)fail_with("a reason"); };
  EXPECT_EQ(printed_by(fail), "");
  ::setenv("SOFTIB_LOG", "0", 1);
  EXPECT_EQ(printed_by(fail), "");
  ::setenv("SOFTIB_LOG", "1", 1);
  EXPECT_EQ(printed_by(fail), "softib: some_verb: EBUSY: a reason\n");
}

TEST(PrintLimitTest, AdmitsSomeInEachSecondAndCountsTheOthers) {
  PrintLimit limit;
  ipoib::TimePoint now{std::chrono::seconds(5)};
  for (std::uint32_t i = 0; i < kPrintedPerSecond; ++i) EXPECT_EQ(limit.admit(now), 0U);
  EXPECT_EQ(limit.admit(now), std::nullopt);
  EXPECT_EQ(limit.admit(now), std::nullopt);
  now += std::chrono::seconds(1);
  EXPECT_EQ(limit.admit(now), 2U);
  EXPECT_EQ(limit.admit(now), 0U);
}

}  // namespace
}  // namespace softib::verbs
