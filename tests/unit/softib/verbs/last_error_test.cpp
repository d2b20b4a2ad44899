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
