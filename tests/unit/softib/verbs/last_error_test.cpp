// Why verbs fail, as softibdv_last_error() returns it and SOFTIB_LOG prints it.
#include <infiniband/softibdv.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "softib/verbs/abi.hpp"
#include "verbs_fixture.hpp"

namespace softib::verbs {
namespace {

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
